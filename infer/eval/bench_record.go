package eval

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/mix"
)

// BenchModel describes a model file as llama-bench does.
type BenchModel struct {
	Filename string `json:"model_filename"`
	Type     string `json:"model_type"` // "llama 1.04B Q4_K_M"
	FileType string `json:"type"`       // "Q4_K_M"
	Size     uint64 `json:"model_size"` // bytes of all tensors
	NParams  uint64 `json:"model_n_params"`
}

// BenchModelOf describes an open file.
func BenchModelOf(f *gguf.File) BenchModel {
	b := BenchModel{Filename: f.Path, FileType: fileType(f)}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if n, err := t.Bytes(); err == nil {
			b.Size += n
		}
		if n, err := t.Elements(); err == nil {
			b.NParams += n
		}
	}
	architecture, _ := f.Meta.Str("general.architecture")
	b.Type = strings.TrimSpace(fmt.Sprintf("%s %s %s", architecture, count(b.NParams), b.FileType))
	return b
}

// fileType is the name of general.file_type, or the type of the most bytes where that is absent or unknown.
func fileType(f *gguf.File) string {
	if n, err := f.Meta.Uint("general.file_type"); err == nil {
		recipes := mix.Recipes()
		if i := slices.IndexFunc(recipes, func(r *mix.Recipe) bool { return uint64(r.FileType) == n }); i >= 0 {
			return recipes[i].Name
		}
	}
	bytes, most := map[gguf.Type]uint64{}, gguf.F32
	for i := range f.Tensors {
		t := &f.Tensors[i]
		n, _ := t.Bytes()
		if bytes[t.Type] += n; bytes[t.Type] > bytes[most] {
			most = t.Type
		}
	}
	return most.String()
}

// count is a number of parameters in three digits: "1.04B", "135M".
func count(n uint64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}} {
		if x := float64(n) / unit.size; x >= 1 {
			return fmt.Sprintf("%.3g%s", x, unit.name)
		}
	}
	return fmt.Sprint(n)
}

// BenchRecord is one result. The fields are those of llama-bench where it has the same; rates are tokens a second.
type BenchRecord struct {
	BuildCommit string `json:"build_commit"`
	CPU         string `json:"cpu_info"`
	Backend     string `json:"backends"`
	BenchModel
	Batch      int    `json:"n_batch"`
	Microbatch int    `json:"n_ubatch"` // the same: a batch is computed at once
	Threads    int    `json:"n_threads"`
	KeyType    string `json:"type_k"`
	ValueType  string `json:"type_v"`
	Precision  string `json:"precision"`
	BenchTest
	Time      time.Time `json:"test_time"`
	AvgNS     uint64    `json:"avg_ns"`
	StddevNS  uint64    `json:"stddev_ns"`
	AvgTS     float64   `json:"avg_ts"`
	StddevTS  float64   `json:"stddev_ts"`
	SamplesNS []uint64  `json:"samples_ns"`
	SamplesTS []float64 `json:"samples_ts"`

	// The same in short.
	Model           string  `json:"model"`
	Test            string  `json:"test"`
	ThreadsInUse    int     `json:"threads"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	Stddev          float64 `json:"stddev"`

	// 1e9 multiplications of weights and bytes a second, what the processor did at most in the same run, what it read meanwhile as four streams, and
	// the share that was reached of it. Without a peak, shares are 0.
	GMACs          float64   `json:"gmac_per_s"`
	GBs            float64   `json:"gb_per_s"`
	PeakInteger    float64   `json:"peak_integer_gmac_per_s"`
	PeakFloat      float64   `json:"peak_float_gmac_per_s"`
	PeakRead       float64   `json:"peak_read_gb_per_s"`
	ShareOfPeak    float64   `json:"share_of_peak"`
	ShareOfReading float64   `json:"share_of_reading"`
	OtherPrograms  float64   `json:"other_programs"` // processors that they kept busy meanwhile: above QuietLimit the result says little
	Ops            []BenchOp `json:"ops,omitempty"`
}

// BenchOp is what all calls of an operation in all blocks took, per run.
type BenchOp struct {
	Op             string  `json:"op"`
	Weights        string  `json:"weights"`
	Types          string  `json:"types"`
	Calls          float64 `json:"calls"`
	NS             float64 `json:"ns"`
	ShareOfTime    float64 `json:"share_of_time"`
	MACs           float64 `json:"macs"`
	Bytes          float64 `json:"bytes"`
	GMACs          float64 `json:"gmac_per_s"`
	GBs            float64 `json:"gb_per_s"`
	ShareOfPeak    float64 `json:"share_of_peak"`
	ShareOfReading float64 `json:"share_of_reading"`
}

// Record fills in the times of a result and what follows from them; the caller tells of the setting.
func (r *BenchRecord) Record(t BenchTest, result *BenchResult, peak Peak) {
	r.BenchTest, r.Test = t, t.String()
	var ns []float64
	for _, d := range result.Runs {
		n := max(float64(d.Nanoseconds()), 1)
		ns = append(ns, n)
		r.SamplesNS = append(r.SamplesNS, uint64(n))
		r.SamplesTS = append(r.SamplesTS, 1e9*float64(t.Tokens())/n)
	}
	mean, deviation := meanDeviation(ns)
	r.AvgNS, r.StddevNS = uint64(mean), uint64(deviation)
	r.AvgTS, r.StddevTS = meanDeviation(r.SamplesTS)
	r.TokensPerSecond, r.Stddev = r.AvgTS, r.StddevTS

	r.OtherPrograms = result.Others
	w := result.Work
	r.GMACs, r.GBs = (w.Integers+w.Floats)/mean, w.Bytes/mean
	r.PeakInteger, r.PeakFloat, r.PeakRead = peak.Bytes, peak.Floats, peak.Read
	products := w
	products.Others = 0 // weights alone, so that the share is comparable over depths
	r.ShareOfPeak, _ = peak.Shares(products, mean)
	_, r.ShareOfReading = peak.Shares(w, mean)
	r.Ops = benchOps(result, mean, peak)
}

// benchOps sums over blocks, most time first. What lies between operations is the last entry.
func benchOps(result *BenchResult, mean float64, peak Peak) []BenchOp {
	if len(result.Ops) == 0 {
		return nil
	}
	type key struct{ kind, weights, types string }
	sums, work, rest := map[key]*BenchOp{}, map[key]Work{}, mean
	var order []key
	runs := float64(len(result.Runs))
	for i := range result.Ops {
		op := &result.Ops[i]
		k := key{op.Kind, op.Weights, op.Types}
		sum, ok := sums[k]
		if !ok {
			sum = &BenchOp{Op: op.Kind, Weights: op.Weights, Types: op.Types}
			sums[k], order = sum, append(order, k)
		}
		sum.Calls += float64(op.Calls) / runs
		sum.NS += float64(op.Time.Nanoseconds()) / runs
		sum.MACs += float64(op.MACs) / runs
		sum.Bytes += float64(op.Bytes) / runs
		work[k] = work[k].plus(workOfOp(op).times(1 / runs))
		rest -= float64(op.Time.Nanoseconds()) / runs
	}
	ops := make([]BenchOp, 0, len(order)+1)
	for _, k := range order {
		op := *sums[k]
		if op.NS > 0 {
			op.ShareOfTime, op.GMACs, op.GBs = op.NS/mean, op.MACs/op.NS, op.Bytes/op.NS
			op.ShareOfPeak, op.ShareOfReading = peak.Shares(work[k], op.NS)
		}
		ops = append(ops, op)
	}
	slices.SortStableFunc(ops, func(a, b BenchOp) int { return cmp.Compare(b.NS, a.NS) })
	return append(ops, BenchOp{Op: "between operations", NS: rest, ShareOfTime: rest / mean})
}
