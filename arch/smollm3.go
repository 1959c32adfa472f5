package arch

// smollm3 is SmolLM 3: llama with tied embeddings and no rotation in every fourth block.
var smollm3 = Spec{
	Name:    "smollm3",
	Classes: []string{"SmolLM3ForCausalLM", "SmolLM3Model"},
	Prefix:  "model.",
	Tied:    true,
	Require: []Require{siluOnly, wholeHeads},
	Keys: []Key{
		blockCount, contextLength, embeddingLength, ffnLength, headCount, headCountKV, ropeScaling, ropeBase, rmsEpsilon, keyLength, valueLength,
		fileType, vocabSize, ropeDimension, usedWindow, windowPattern,
		{Name: "attention.rope_pattern", Default: "rope_pattern()"},
	},
	Tensors: llamaTensors,
	Drop:    []Drop{ropeFrequencies},
	Block:   Block{Norm: "rms", Rope: "norm", NoRopeEvery: 4, Activation: "silu", Gated: true},
}
