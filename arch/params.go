package arch

import (
	"errors"

	"github.com/ggufkit/ggufkit/gguf"
)

// Params are the hyperparameters of a model, read from its metadata and checked against each other.
type Params struct {
	Arch      string
	NVocab    int
	NCtxTrain int
	NEmbd     int
	NLayer    int
	NFF       []int // per block
	NHead     []int // per block
	NHeadKV   []int // per block
	HeadK     int   // attention.key_length
	HeadV     int   // attention.value_length
	NormEps   float32
	Rope      Rope
}

// Rope is the rotary embedding.
type Rope struct {
	Dim        int // rotated elements of a head
	FreqBase   float64
	Scaling    string  // "", "linear", "yarn" ...
	Factor     float64 // of the scaling; 1 if none
	OrigCtx    int
	AttnFactor float64
}

// ParamsOf reads the hyperparameters of a file for its architecture.
func ParamsOf(s *Spec, m *gguf.Meta) (*Params, error) { return nil, errors.New("todo") }

// Dim evaluates a dimension expression of a tensor rule for block il (-1 outside blocks).
func (p *Params) Dim(expr string, il int) (uint64, error) { return 0, errors.New("todo") }
