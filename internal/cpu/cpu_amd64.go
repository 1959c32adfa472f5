package cpu

import "golang.org/x/sys/cpu"

// detect gives the best level and, for a level above it, what is missing.
func detect() (best Level, missing func(Level) []string) {
	var lacking []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"AVX2", cpu.X86.HasAVX2},
		{"FMA", cpu.X86.HasFMA},
		{"F16C", cpu.X86.HasF16C},
	} {
		if !f.has {
			lacking = append(lacking, f.name)
		}
	}
	if len(lacking) == 0 {
		best = AVX2
	}
	return best, func(Level) []string { return lacking }
}
