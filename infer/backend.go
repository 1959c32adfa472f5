package infer

import "github.com/ggufkit/ggufkit/gguf"

// Backend carries out the operations of a forward pass. Its weights, buffers and states are opaque to the engine: only a backend's own
// may be given to it, and values leave it through Read alone, at the logits. Operations may run late; Read waits for them and returns their errors.
//
// A buffer is a matrix of float32 activations with one row per batch element, and takes the shape of what is written to it. Unless
// told otherwise, dst may be the operand itself.
type Backend interface {
	// Bind takes a tensor of the model for the backend's lifetime. data must stay valid that long.
	Bind(t *gguf.Tensor, data []byte) (Weight, error)
	// NewBuffer makes an empty buffer.
	NewBuffer() Buffer
	// NewState makes an empty sequence memory of one cache per layer.
	NewState(layers []CacheShape) (State, error)

	// Upload writes len(values)/width rows.
	Upload(dst Buffer, width int, values []float32)
	// SetRow overwrites one row that is there.
	SetRow(dst Buffer, row int, values []float32)
	// Embed looks up one row of the table for each id.
	Embed(dst Buffer, table Weight, ids []int32)
	// MatMul multiplies x by several weights, so that what has to be done to x is done once. No dst may be x.
	MatMul(x Buffer, out ...Product)
	// Norm normalizes consecutive groups of a row, each as long as the norm's weight.
	Norm(dst, x Buffer, n *Norm)
	// Rope rotates the first elements of each head of x in place. A row of angles holds the cosines of all pairs, then the sines.
	Rope(x, angles Buffer, headDim int, pairs Pairing)
	// Attention appends the rows of k and v to the sequences' caches of a layer and attends with the rows of q, each to what its
	// sequence holds up to and including its own position, within the window. dst is none of the operands.
	Attention(dst, q, k, v Buffer, a *Attention)
	// Activate replaces every element of x by f of it, times the element of up unless that is nil.
	Activate(x, up Buffer, f Activation)
	// Add is dst += x.
	Add(dst, x Buffer)
	// Scale multiplies every element of x.
	Scale(x Buffer, factor float32)
	// Softcap replaces every element of x by limit*tanh(x/limit).
	Softcap(x Buffer, limit float32)
	// Gather copies rows of x. dst is not x.
	Gather(dst, x Buffer, rows []int)
	// Read returns the rows one after the other; they are valid until the next operation.
	Read(x Buffer) ([]float32, error)

	// For calls f(worker, i) for every i in [0, n) on threads of the host, between two operations, and waits; worker tells the threads apart.
	For(n int, f func(worker, i int))

	// Close frees what the backend holds.
	Close() error
}

// Weight is a tensor that a backend has bound.
type Weight interface {
	// Size is the length of a row and the number of rows.
	Size() (width, rows int)
}

// Buffer is a matrix of activations within a backend.
type Buffer interface {
	// Shape is the number of rows and their length.
	Shape() (rows, width int)
}

// Linear is y = W x + b.
type Linear struct {
	Weight Weight
	Bias   Weight // or nil
}

// Product is one result of MatMul.
type Product struct {
	Linear
	Dst Buffer
}

// Norm scales a vector to unit root mean square ("rms"), or to zero mean and unit variance ("layer"), then by Weight, and adds Bias.
type Norm struct {
	Layer  bool // else rms
	Weight Weight
	Bias   Weight // or nil
	Eps    float32
}

// Pairing says which elements of a head turn together.
type Pairing int

// Pairings of the rotated elements 0 to d-1: 2i with 2i+1, or i with i+d/2.
const (
	Adjacent Pairing = iota
	Halves
)

// Activation is the nonlinear function of a feed-forward network.
type Activation int

// Activations: SiLU is x*sigmoid(x), GELU x*Phi(x), GELUTanh its approximation by a hyperbolic tangent.
const (
	SiLU Activation = iota
	GELU
	GELUTanh
)

// Attention is how one layer attends. Query heads share key heads in groups of Heads/KVHeads.
type Attention struct {
	Layer          int
	Heads, KVHeads int
	HeadK, HeadV   int
	Scale          float32 // of the products of queries and keys
	Softcap        float32 // limit of the scaled products, as the operation Softcap has it; 0: none
	Window         int     // a query sees this many positions at most, its own included; 0: all up to its own
	Runs           []Run   // together all rows of the batch, in order
}

// Run is a stretch of batch rows that one sequence takes at consecutive positions.
type Run struct {
	State State
	Row   int // first row
	N     int // rows
	Start int // position of the first row in the sequence's memory
}
