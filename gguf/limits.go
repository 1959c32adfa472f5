package gguf

import "math"

// Limits on what is read and written. Counts are also held against the bytes that remain in the file before anything
// is allocated, so a small file can never ask for much memory.
const (
	// MaxHeader is the largest header (everything before the tensor data) in bytes. The largest known, with a
	// vocabulary of 262,144 tokens and its merges, has 16 MB.
	MaxHeader = 1 << 30
	// MaxKeys is the largest number of metadata keys.
	MaxKeys = 1 << 20
	// MaxTensors is the largest number of tensors.
	MaxTensors = 1 << 20
	// MaxKeyLen is the longest key in bytes; the format's description sets it.
	MaxKeyLen = 1<<16 - 1
	// MaxTensorName is the longest tensor name in bytes. Names over UsualTensorName are read but reported.
	MaxTensorName = 1<<16 - 1
	// UsualTensorName is the longest tensor name that llama.cpp loads (GGML_MAX_NAME less the final zero).
	UsualTensorName = 63
	// MaxString is the longest string value in bytes.
	MaxString = 1 << 28
	// MaxListed is the largest number of elements that all arrays of a file have together, nested ones and arrays in
	// arrays included. The largest known vocabularies, with types, scores and merges, have 1.5 million.
	MaxListed = 1 << 23
	// MaxDepth is how deep arrays may be nested; 1 is an array of scalars.
	MaxDepth = 8
	// MaxDims is the number of dimensions that a tensor may have; at least 1.
	MaxDims = 4
	// MaxElements is the largest number of elements of a tensor; sizes are signed 64-bit numbers elsewhere.
	MaxElements = math.MaxInt64
	// DefaultAlignment is the alignment of tensor data in bytes where general.alignment is absent.
	DefaultAlignment = 32
	// MaxAlignment is the largest alignment in bytes: one huge page.
	MaxAlignment = 1 << 21
	// UsualAlignment is the least alignment that the format's description allows. Smaller powers of two are read but reported.
	UsualAlignment = 8
)

// Names of the keys that the container itself depends on.
const (
	KeyAlignment    = "general.alignment"
	keySplitNo      = "split.no"
	keySplitCount   = "split.count"
	keySplitTensors = "split.tensors.count"
)
