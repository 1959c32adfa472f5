// Package kernel holds the arithmetic that a forward pass spends its time in: products of weight matrices in any block format with
// activations, and the operations on rows of float32 in between.
//
// Each has a portable form in Go and, on some processors, one in assembly that is proven against it. Which set is used is decided
// when the program starts (see package internal/cpu); Name tells it. Assembly is written by the program in _asm, "make asm" runs it.
//
// Another kind of processor is another set: the layout of panels, 16 rows with 4 consecutive integers each in 64 bytes, suits vectors of
// 512 bits with VPDPBUSD and of 128 bits with SDOT as well.
package kernel

import (
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/par"
)

// set is the routines for one kind of processor.
type set struct {
	name string

	// tile and tileF32 multiply a panel with a tile of activations.
	tile    func(p panelFormat, t *tile)
	tileF32 func(t *tileF32)
	// unpack is the routine that makes a panel of 16 rows of a type in unpackings.
	unpack func(t gguf.Type) func(dst []byte, src rowBlocks)
	// widenPanel makes a float32 panel, [k][16 rows], of a panel of integers; nil where rows are rather decoded by their codec. offset is
	// that of unpacking.
	widenPanel func(p panelFormat, dst []float32, panel []byte, offset float32, blocks int)
	// widen makes a float32 panel, [k][16 rows], of the k first elements of 16 rows of F32, F16 or BF16; transpose makes it of 16
	// decoded rows of k values.
	widen     func(t gguf.Type, dst []float32, src rowBlocks, k int)
	transpose func(dst, rows []float32, k int)
	// dot is the routine that multiplies stored rows of a type with activations in 8 bits, wideDot with float32; nil where the set
	// has none.
	dot, wideDot func(t gguf.Type) func(d *dotJob)
	// quantize fills the only row of a from x.
	quantize func(a activations, x []float32)
	// packBytes and packWords put the integers of column c of a tile where they belong.
	packBytes, packWords func(dst []byte, q []int8, columns, c int)
	rowOps
	// weigh adds up rows of values; nil where the set has none for the type.
	weigh func(t gguf.Type) func(w *weighJob)
	// prefetch asks for bytes that will be needed soon; pause tells the processor that it is in a loop that waits, or is nil.
	prefetch func(b []byte)
	pause    func()
	// peakBytes and peakFloats run the fastest multiplying instructions for some rounds and give the number of multiplications in each; nil
	// where there are none. read reads b as four streams.
	peakBytes, peakFloats func(rounds int) int
	read                  func(b []byte)
}

func noDot(gguf.Type) func(*dotJob) { return nil }

// generic is the portable set. block.Codec.Dot takes the place of its dots.
var generic = set{
	name:      "generic",
	tile:      tileGeneric,
	tileF32:   tileF32Generic,
	unpack:    unpackGeneric,
	widen:     widenGeneric,
	transpose: transposeGeneric,
	dot:       noDot,
	wideDot:   noDot,
	quantize:  quantizeGeneric,
	packBytes: packBytesGeneric,
	packWords: packWordsGeneric,
	rowOps:    rowOpsGeneric,
	weigh:     func(gguf.Type) func(*weighJob) { return nil },
	prefetch:  func([]byte) {},
	read:      readGeneric,
}

// current is the set that the program uses.
func current() *set { return chosen }

var chosen = choose()

// NewPool starts a pool of threads (0: as many as this process may use) whose waiting is tuned to the processor.
func NewPool(threads int) *par.Pool { return par.NewPool(threads, current().pause) }

// Name is the name of the set in use: "generic", "avx2".
func Name() string { return current().name }

// Prefetch asks memory for whole lines of b, which will be read or written soon.
func Prefetch(b []byte) { current().prefetch(b) }
