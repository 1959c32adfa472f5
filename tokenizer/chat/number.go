package chat

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

func toInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func itoa(i int64) string { return strconv.FormatInt(i, 10) }

// shrink makes an int of the form that every int has: int64 where it fits. Ones that are too long end the run.
func shrink(i *big.Int) value {
	if i.IsInt64() {
		return i.Int64()
	}
	if i.BitLen() > intBits {
		raiseLimit("an integer of more than %d bits", intBits)
	}
	return i
}

// integer is the value of an int or a bool.
func integer(v value) (*big.Int, bool) {
	switch v := v.(type) {
	case bool:
		return big.NewInt(toInt(v)), true
	case int64:
		return big.NewInt(v), true
	case *big.Int:
		return v, true
	}
	return nil, false
}

// small is the value of an int or a bool that fits an int64; others are cut to the nearest that does.
func small(v value) (int64, bool) {
	switch v := v.(type) {
	case bool:
		return toInt(v), true
	case int64:
		return v, true
	case *big.Int:
		if v.Sign() < 0 {
			return math.MinInt64, true
		}
		return math.MaxInt64, true
	}
	return 0, false
}

// isNumber reports whether a value is a bool, int or float.
func isNumber(v value) bool {
	switch v.(type) {
	case bool, int64, *big.Int, float64:
		return true
	}
	return false
}

// toFloat is float() of a number.
func toFloat(v value) float64 {
	switch v := v.(type) {
	case bool:
		return float64(toInt(v))
	case int64:
		return float64(v)
	case float64:
		return v
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64() // the nearest, ties to even
		if math.IsInf(f, 0) {
			raise("OverflowError", "int too large to convert to float")
		}
		return f
	}
	return 0
}

// arithmetic computes l op r for two numbers.
func arithmetic(m *meter, op string, l, r value) value {
	_, lf := l.(float64)
	_, rf := r.(float64)
	if lf || rf {
		return floatOp(op, toFloat(l), toFloat(r))
	}
	a, aSmall := l.(int64)
	b, bSmall := r.(int64)
	if aSmall && bSmall {
		switch s := a + b; {
		case op == "+" && (s > a) == (b > 0):
			return s
		case op == "-" && b != math.MinInt64 && (a-b < a) == (b > 0):
			return a - b
		case op == "*" && fits32(a) && fits32(b):
			return a * b
		}
	}
	x, _ := integer(l)
	y, _ := integer(r)
	return intOp(m, op, x, y)
}

func fits32(a int64) bool { return a == int64(int32(a)) }

func intOp(m *meter, op string, x, y *big.Int) value {
	m.spend(1 + (x.BitLen()+y.BitLen())/64)
	if y.Sign() == 0 {
		switch op {
		case "/":
			raise("ZeroDivisionError", "division by zero")
		case "//":
			raise("ZeroDivisionError", "integer division or modulo by zero")
		case "%":
			raise("ZeroDivisionError", "integer modulo by zero")
		}
	}
	z := new(big.Int)
	switch op {
	case "+":
		z.Add(x, y)
	case "-":
		z.Sub(x, y)
	case "*":
		m.spend(x.BitLen() * y.BitLen() >> 16)
		z.Mul(x, y)
	case "/":
		f, _ := new(big.Rat).SetFrac(x, y).Float64()
		if math.IsInf(f, 0) {
			raise("OverflowError", "integer division result too large for a float")
		}
		return f
	case "//", "%":
		// Python rounds down, the remainder has the sign of y.
		rest := new(big.Int)
		z.QuoRem(x, y, rest)
		if rest.Sign() != 0 && rest.Sign() != y.Sign() {
			z.Sub(z, big.NewInt(1))
			rest.Add(rest, y)
		}
		if op == "%" {
			z = rest
		}
	case "**":
		return intPower(m, x, y)
	}
	return shrink(z)
}

func intPower(m *meter, x, y *big.Int) value {
	if y.Sign() < 0 {
		if x.Sign() == 0 {
			raise("ZeroDivisionError", "0.0 cannot be raised to a negative power")
		}
		return floatOp("**", toFloat(shrink(x)), toFloat(shrink(y)))
	}
	if x.BitLen() > 1 && (!y.IsInt64() || y.Int64() > intBits || int64(x.BitLen()-1)*y.Int64() > intBits) {
		raiseLimit("an integer of more than %d bits", intBits)
	}
	if x.BitLen() <= 1 && y.BitLen() > 2 { // -1, 0 or 1: only the parity counts
		y = big.NewInt(int64(2 + y.Bit(0)))
	}
	m.spend(1 + x.BitLen()*int(y.Int64())/64)
	return shrink(new(big.Int).Exp(x, y, nil))
}

func floatOp(op string, x, y float64) value {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "**":
		return floatPower(x, y)
	}
	if y == 0 {
		switch op {
		case "/":
			raise("ZeroDivisionError", "float division by zero")
		case "//":
			raise("ZeroDivisionError", "float floor division by zero")
		default:
			raise("ZeroDivisionError", "float modulo")
		}
	}
	if op == "/" {
		return x / y
	}
	rest := math.Mod(x, y)
	quotient := (x - rest) / y
	if rest != 0 {
		if (y < 0) != (rest < 0) {
			rest += y
			quotient--
		}
	} else {
		rest = math.Copysign(0, y)
	}
	if op == "%" {
		return rest
	}
	if quotient == 0 {
		return math.Copysign(0, x/y)
	}
	whole := math.Floor(quotient)
	if quotient-whole > 0.5 {
		whole++
	}
	return whole
}

func floatPower(x, y float64) value {
	switch {
	case x == 0 && y < 0:
		raise("ZeroDivisionError", "0.0 cannot be raised to a negative power")
	case x < 0 && y != math.Trunc(y) && !math.IsInf(x, 0):
		raise("ValueError", "the result is a complex number, which templates cannot have here")
	}
	z := math.Pow(x, y)
	if math.IsInf(z, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		raise("OverflowError", "(34, 'Numerical result out of range')")
	}
	return z
}

// compareNumbers is -1, 0 or 1; false if one is not a number in the sense of floats.
func compareNumbers(l, r value) (int, bool) {
	if a, ok := l.(int64); ok {
		if b, ok := r.(int64); ok {
			switch {
			case a < b:
				return -1, true
			case a > b:
				return 1, true
			}
			return 0, true
		}
	}
	for _, v := range []value{l, r} {
		if f, ok := v.(float64); ok && math.IsNaN(f) {
			return 0, false
		}
	}
	return exact(l).Cmp(exact(r)), true
}

// exact is a number without any rounding.
func exact(v value) *big.Float {
	if f, ok := v.(float64); ok {
		return big.NewFloat(f)
	}
	i, _ := integer(v)
	return new(big.Float).SetInt(i)
}

// floatText is repr() of a float: the shortest digits that read back, in plain notation for exponents from -4 to 15.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// intText is str() of an int.
func intText(v value) string {
	switch v := v.(type) {
	case int64:
		return itoa(v)
	case *big.Int:
		s := v.String()
		if len(strings.TrimPrefix(s, "-")) > digitLimit {
			raise("ValueError", "Exceeds the limit (%d digits) for integer string conversion", digitLimit)
		}
		return s
	}
	return ""
}

// parseInt is int(text, base): with underscores between digits, a sign, a prefix if base is 0 or the prefix's own. False if it is none.
func parseInt(s string, base int) (value, bool) {
	s = strip(s, "", true, true)
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || base < 0 || base == 1 || base > 36 {
		return nil, false
	}
	negative := strings.HasPrefix(s, "-")
	prefix := 0
	if len(digits) > 1 && digits[0] == '0' {
		prefix = map[byte]int{'x': 16, 'o': 8, 'b': 2}[digits[1]|0x20]
	}
	switch {
	case prefix != 0 && (base == 0 || base == prefix):
		base = prefix
		digits = strings.TrimPrefix(digits[2:], "_")
	case base == 0:
		base = 10
		if strings.Trim(digits, "0_") != "" && digits[0] == '0' {
			return nil, false
		}
	}
	plain, ok := dropUnderscores(digits)
	if !ok {
		return nil, false
	}
	if base&(base-1) != 0 && len(plain) > digitLimit {
		raise("ValueError", "Exceeds the limit (%d digits) for integer string conversion: value has %d digits", digitLimit, len(plain))
	}
	if len(plain) > intBits {
		raiseLimit("an integer of more than %d bits", intBits)
	}
	i, ok := new(big.Int).SetString(plain, base)
	if !ok || plain[0] == '+' || plain[0] == '-' {
		return nil, false
	}
	if negative {
		i.Neg(i)
	}
	return shrink(i), true
}

// dropUnderscores takes out underscores that stand between two characters, as Python allows in numbers; false if one stands elsewhere.
func dropUnderscores(s string) (string, bool) {
	if s == "" || s[0] == '_' || s[len(s)-1] == '_' || strings.Contains(s, "__") {
		return "", false
	}
	return strings.ReplaceAll(s, "_", ""), true
}

// parseFloat is float() of a text; false if it is none.
func parseFloat(s string) (float64, bool) {
	plain, ok := dropUnderscores(strip(s, "", true, true))
	if !ok {
		return 0, false
	}
	lower := strings.TrimLeft(strings.ToLower(plain), "+-")
	if strings.HasPrefix(lower, "0x") || strings.Contains(lower, "p") {
		return 0, false
	}
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}
