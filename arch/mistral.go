package arch

// mistral is Mistral 7B to Nemo: llama's block with a sliding window in every block. GGUF knows it as llama, for which no key of a window is
// customary; attention.sliding_window is what other families use, and programs that do not look for it attend to everything.
var mistral = Spec{
	Name:    "llama",
	Classes: []string{"MistralForCausalLM", "MistralModel"},
	Prefix:  "model.",
	Require: []Require{siluOnly, wholeHeads},
	Keys: []Key{
		blockCount, contextLength, embeddingLength, ffnLength, headCount, headCountKV, ropeScaling, ropeBase, rmsEpsilon, keyLength, valueLength,
		fileType, vocabSize, ropeDimension, slidingWindow, windowPattern,
	},
	Tensors: llamaTensors,
	Drop:    []Drop{ropeFrequencies},
	Block:   Block{Norm: "rms", Rope: "norm", Activation: "silu", Gated: true},
}
