package arch

import "github.com/ggufkit/ggufkit/gguf"

// Rules for metadata keys that families share. Where one differs, the family has its own.
var (
	blockCount      = Key{Name: "block_count", Type: gguf.Uint32, Config: []string{"num_hidden_layers"}}
	contextLength   = Key{Name: "context_length", Type: gguf.Uint32, Config: []string{"max_position_embeddings"}}
	embeddingLength = Key{Name: "embedding_length", Type: gguf.Uint32, Config: []string{"hidden_size"}}
	ffnLength       = Key{Name: "feed_forward_length", Type: gguf.Uint32, Config: []string{"intermediate_size"}}
	headCount       = Key{Name: "attention.head_count", Type: gguf.Uint32, Config: []string{"num_attention_heads"}}
	headCountKV     = Key{Name: "attention.head_count_kv", Type: gguf.Uint32, Config: []string{"num_key_value_heads"}, Default: "=attention.head_count"}
	keyLength       = Key{Name: "attention.key_length", Type: gguf.Uint32, Config: []string{"head_dim"}, Optional: true}
	valueLength     = Key{Name: "attention.value_length", Type: gguf.Uint32, Config: []string{"head_dim"}, Optional: true}
	rmsEpsilon      = Key{Name: "attention.layer_norm_rms_epsilon", Type: gguf.Float32, Config: []string{"rms_norm_eps"}}
	ropeScaling     = Key{Name: "rope.scaling", Default: "rope_scaling()"}
	ropeBase        = Key{Name: "rope.freq_base", Type: gguf.Float32, Config: []string{"rope_parameters.rope_theta"}, Default: "10000"}
	fileType        = Key{Name: "general.file_type", Type: gguf.Uint32, Default: "file_type()"}
	vocabSize       = Key{Name: "vocab_size", Type: gguf.Uint32, Default: "embedding_rows()"}
	ropeDimension   = Key{Name: "rope.dimension_count", Type: gguf.Uint32, Config: []string{"head_dim"}, Default: "head_dim()"}
	// slidingWindow is left out where no block would notice it. usedWindow is that of classes whose windows are off unless
	// use_sliding_window turns them on.
	slidingWindow = Key{Name: "attention.sliding_window", Type: gguf.Uint32, Default: "window()"}
	usedWindow    = Key{Name: "attention.sliding_window", Type: gguf.Uint32, Default: "used_window()"}
	// windowPattern is left out where it is what the family's wiring says.
	windowPattern = Key{Name: "attention.sliding_window_pattern", Default: "window_pattern()"}
)

// ropeFrequencies are left out of every checkpoint that has them.
var ropeFrequencies = Drop{Pattern: `(.*\.)?rotary_emb\.inv_freq`, Reason: "rope frequencies follow from rope.freq_base"}

// siluOnly and wholeHeads are what most families with gates and rotation cannot vary.
var (
	siluOnly   = Require{Config: "hidden_act", Values: []string{`"silu"`, `"swish"`}, Reason: "the feed-forward network of this family uses SiLU"}
	wholeHeads = Require{Config: "rope_parameters.partial_rotary_factor", Values: []string{`1`}, Reason: "this family rotates whole heads"}
	tanhGELU   = Require{Config: "hidden_activation", Values: []string{`"gelu_pytorch_tanh"`}, Reason: "the feed-forward network of this family uses GELU in its tanh form"}
)

// Divisors of the rope frequencies that a checkpoint's rope section may bring: those of llama3, and those of longrope for contexts beyond
// the original one and up to it.
var (
	ropeTable      = Tensor{Name: "rope_freqs.weight", Shape: []string{"rope_dim/2"}, Optional: true, Transform: "rope_freqs", F32: true}
	ropeTableLong  = Tensor{Name: "rope_factors_long.weight", Shape: []string{"rope_dim/2"}, Optional: true, Transform: "rope_factors_long", F32: true}
	ropeTableShort = Tensor{Name: "rope_factors_short.weight", Shape: []string{"rope_dim/2"}, Optional: true, Transform: "rope_factors_short", F32: true}
)
