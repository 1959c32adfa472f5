package kernel

import (
	"math"

	"github.com/ggufkit/ggufkit/internal/half"
)

// rowOps are operations on rows of float32. dst and x have the same length and may be the same slice.
type rowOps struct {
	add, mul  func(dst, x []float32)                 // dst += x, dst *= x
	scale     func(dst, x []float32, f float32)      // dst = x * f
	normalize func(dst, x []float32, m, f float64)   // dst = (x - m) * f in float64
	sum       func(x []float32) float64              // of x
	squares   func(x []float32) float64              // sum of x*x
	deviation func(x []float32, m float64) float64   // sum of (x-m)*(x-m)
	scaleMax  func(x []float32, f float32) float32   // x *= f, and the largest x, without NaN
	expSum    func(x []float32, top float32) float64 // x = exp(x - top), where no x is above top, and their sum

	silu, gelu, geluTanh func(dst, x []float32)
	softcap              func(dst, x []float32, limit float32) // dst = limit * tanh(x/limit)

	ropeHalves, ropeAdjacent func(x, cos, sin []float32)

	decodeF16, decodeBF16 func(dst []float32, src []byte)
	encodeF16, encodeBF16 func(dst []byte, src []float32)

	max     func(x []float32) float32                     // the largest x; NaN if one is, minus infinity if there is none
	atLeast func(mask []byte, x []float32, limit float32) // bit i%8 of mask[i/8]: x[i] >= limit; len(x) is a multiple of 8
}

var rowOpsGeneric = rowOps{
	add: addGeneric, mul: mulGeneric, scale: scaleGeneric, normalize: normalizeGeneric,
	sum: sumGeneric, squares: squaresGeneric, deviation: deviationGeneric, scaleMax: scaleMaxGeneric, expSum: expSumGeneric,
	silu: siluGeneric, gelu: geluGeneric, geluTanh: geluTanhGeneric, softcap: softcapGeneric,
	ropeHalves: ropeHalvesGeneric, ropeAdjacent: ropeAdjacentGeneric,
	decodeF16: half.DecodeF16, decodeBF16: half.DecodeBF16, encodeF16: half.EncodeF16, encodeBF16: half.EncodeBF16,
	max: maxGeneric, atLeast: atLeastGeneric,
}

// Add is dst += x, element by element.
func Add(dst, x []float32) { current().add(dst, x[:len(dst)]) }

// Mul is dst *= x, element by element.
func Mul(dst, x []float32) { current().mul(dst, x[:len(dst)]) }

// RMSNorm is dst = x / sqrt(mean(x*x) + eps) * weight. The sum is in float64; dst may be x.
func RMSNorm(dst, x, weight []float32, eps float32) { current().rmsNorm(dst, x, weight, eps) }

func (s *set) rmsNorm(dst, x, weight []float32, eps float32) {
	dst, weight = dst[:len(x)], weight[:len(x)]
	s.scale(dst, x, float32(1/math.Sqrt(s.squares(x)/float64(len(x))+float64(eps))))
	s.mul(dst, weight)
}

// LayerNorm is dst = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias. Everything before the weight is in float64. bias may be
// nil and dst may be x.
func LayerNorm(dst, x, weight, bias []float32, eps float32) {
	current().layerNorm(dst, x, weight, bias, eps)
}

func (s *set) layerNorm(dst, x, weight, bias []float32, eps float32) {
	dst, weight = dst[:len(x)], weight[:len(x)]
	n := float64(len(x))
	mean := s.sum(x) / n
	s.normalize(dst, x, mean, 1/math.Sqrt(s.deviation(x, mean)/n+float64(eps)))
	s.mul(dst, weight)
	if bias != nil {
		s.add(dst, bias[:len(x)])
	}
}

// Softmax replaces x by exp(x*scale), divided by their sum. A NaN makes all results NaN.
func Softmax(x []float32, scale float32) { current().softmax(x, scale) }

func (s *set) softmax(x []float32, scale float32) {
	top := s.scaleMax(x, scale)
	sum := s.expSum(x, top)
	s.scale(x, x, float32(1/sum))
}

// SiLU is dst = x / (1 + exp(-x)). The relative error is below 1e-6 for x > -87, below that the result is 0. dst may be x.
func SiLU(dst, x []float32) { current().silu(dst[:len(x)], x) }

// GELU is dst = x * Phi(x) with the distribution function Phi of the standard normal distribution. The relative error is below 5e-7 for
// x > -2 and below 6e-6 for all x > -13; below that the result is 0. dst may be x.
func GELU(dst, x []float32) { current().gelu(dst[:len(x)], x) }

// GELUTanh is dst = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x*x*x))), an approximation of GELU. The error is below 4e-7 |x|.
// dst may be x.
func GELUTanh(dst, x []float32) { current().geluTanh(dst[:len(x)], x) }

// Softcap is dst = limit * tanh(x/limit), with a relative error below 1e-6. dst may be x.
func Softcap(dst, x []float32, limit float32) { current().softcap(dst[:len(x)], x, limit) }

// RopeHalves turns x[i] and x[i+p] for i < p = len(cos) = len(sin), by the angles with these cosines and sines.
// What x has beyond 2p elements stays.
func RopeHalves(x, cos, sin []float32) { current().ropeHalves(x[:2*len(cos)], cos, sin[:len(cos)]) }

// RopeAdjacent turns x[2i] and x[2i+1] in the same way.
func RopeAdjacent(x, cos, sin []float32) { current().ropeAdjacent(x[:2*len(cos)], cos, sin[:len(cos)]) }

// DecodeF16 widens little-endian float16; len(src) is 2*len(dst). Results are those of package half.
func DecodeF16(dst []float32, src []byte) { current().decodeF16(dst, src[:2*len(dst)]) }

// DecodeBF16 widens little-endian bfloat16.
func DecodeBF16(dst []float32, src []byte) { current().decodeBF16(dst, src[:2*len(dst)]) }

// EncodeF16 rounds to little-endian float16; len(dst) is 2*len(src). Results are those of package half.
func EncodeF16(dst []byte, src []float32) { current().encodeF16(dst[:2*len(src)], src) }

// EncodeBF16 rounds to little-endian bfloat16.
func EncodeBF16(dst []byte, src []float32) { current().encodeBF16(dst[:2*len(src)], src) }

func addGeneric(dst, x []float32) {
	for i, v := range x {
		dst[i] += v
	}
}

func mulGeneric(dst, x []float32) {
	for i, v := range x {
		dst[i] *= v
	}
}

func scaleGeneric(dst, x []float32, f float32) {
	for i, v := range x {
		dst[i] = v * f
	}
}

func normalizeGeneric(dst, x []float32, mean, f float64) {
	for i, v := range x {
		dst[i] = float32((float64(v) - mean) * f)
	}
}

func sumGeneric(x []float32) (sum float64) {
	for _, v := range x {
		sum += float64(v)
	}
	return sum
}

func squaresGeneric(x []float32) (sum float64) {
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	return sum
}

func deviationGeneric(x []float32, mean float64) (sum float64) {
	for _, v := range x {
		d := float64(v) - mean
		sum += float64(d * d)
	}
	return sum
}

func scaleMaxGeneric(x []float32, f float32) float32 {
	scaleGeneric(x, x, f)
	top := minusInfinity
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	return top
}

func expSumGeneric(x []float32, top float32) (sum float64) {
	for i, v := range x {
		x[i] = expGeneric(v - top)
		sum += float64(x[i])
	}
	return sum
}

func maxGeneric(x []float32) float32 {
	top := minusInfinity
	for _, v := range x {
		top = max(top, v)
	}
	return top
}

var minusInfinity = float32(math.Inf(-1))

func atLeastGeneric(mask []byte, x []float32, limit float32) {
	for i := range mask[:len(x)/8] {
		var bits byte
		for j, v := range x[8*i:][:8] {
			if v >= limit {
				bits |= 1 << j
			}
		}
		mask[i] = bits
	}
}

// expGeneric is e^x with a relative error below 1.5e-7; results under 2^-126 are 0. x = n ln 2 + r with |r| <= ln 2 / 2. On this
// interval 1 + r + r*r*p(r) is off by 3e-9 at most, p being fitted for the smallest relative error.
func expGeneric(x float32) float32 {
	const (
		ln2High = 0x1.62ep-1 // few bits, so that n*ln2High is exact
		ln2Low  = math.Ln2 - ln2High
		toInt   = 3 << 22 // adding it rounds to an integer
	)
	switch {
	case x != x:
		return x
	case x > 88.72:
		return float32(math.Inf(1))
	case x < -87.33:
		return 0
	}
	n := float32(x*math.Log2E) + toInt - toInt
	r := x - float32(n*ln2High) - float32(n*ln2Low)
	p := float32(0x1.6a241ap-10)
	for _, c := range [...]float32{0x1.1239f2p-7, 0x1.5558f2p-5, 0x1.555492p-3, 0x1.fffffcp-2} {
		p = float32(p*r) + c
	}
	p = float32(float32(p*r)*r) + r
	// The exponent is added in place; n is 128 at most, in which case 1+p is below 1.
	return math.Float32frombits(math.Float32bits(1+p) + uint32(int32(n))<<23)
}

func siluGeneric(dst, x []float32) {
	for i, v := range x {
		dst[i] = v / (1 + expGeneric(-v))
	}
}

// geluGeneric: let Q be the share of the distribution beyond |x|. Phi is 1 - Q for x > 0, else Q.
func geluGeneric(dst, x []float32) {
	for i, v := range x {
		share := float32(0.5 * math.Erfc(math.Abs(float64(v))/math.Sqrt2))
		if v > 0 {
			share = 1 - share
		}
		dst[i] = v * share
	}
}

func geluTanhGeneric(dst, x []float32) {
	for i, v := range x {
		// 1 + tanh(u) = 2 / (1 + exp(-2u))
		square := float32(v * v)
		u := v * (float32(square*float32(-2*0.044715*math.Sqrt2/sqrtPi)) + float32(-2*math.Sqrt2/sqrtPi))
		dst[i] = v / (1 + expGeneric(u))
	}
}

func softcapGeneric(dst, x []float32, limit float32) {
	for i, v := range x {
		dst[i] = limit * float32(math.Tanh(float64(v/limit)))
	}
}

// sqrtPi is the square root of pi.
const sqrtPi = 1.772453850905516027298167483341145182798

func ropeHalvesGeneric(x, cos, sin []float32) {
	for i, c := range cos {
		u, v := x[i], x[i+len(cos)]
		x[i] = float32(u*c) - float32(v*sin[i])
		x[i+len(cos)] = float32(u*sin[i]) + float32(v*c)
	}
}

func ropeAdjacentGeneric(x, cos, sin []float32) {
	for i, c := range cos {
		u, v := x[2*i], x[2*i+1]
		x[2*i] = float32(u*c) - float32(v*sin[i])
		x[2*i+1] = float32(u*sin[i]) + float32(v*c)
	}
}
