//go:build !amd64

package cpu

// detect gives the best level and, for a level above it, what is missing.
func detect() (best Level, missing func(Level) []string) {
	return Generic, func(l Level) []string { return []string{l.String() + " (another architecture)"} }
}
