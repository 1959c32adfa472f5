package infer

import "io"

// State is what one sequence remembers. It belongs to the backend that made it.
type State interface {
	// Len is the number of positions held.
	Len() int
	// Append makes room for n more positions, which the next forward pass fills.
	Append(n int) error
	// Truncate forgets the positions from n on. A kind of memory that cannot go back refuses.
	Truncate(n int) error
	// Fork is an independent sequence with the same past; memory is shared until one of them changes it.
	Fork() State
	// Snapshot writes the memory out; Restore replaces it by one that the same model and precision wrote, of at most limit positions.
	Snapshot(w io.Writer) error
	Restore(r io.Reader, limit int) error
	// Close gives the memory back. The state is not used afterwards.
	Close()
}

// CacheShape is the keys and values that one layer keeps of each position.
type CacheShape struct {
	KVHeads, HeadK, HeadV int
}
