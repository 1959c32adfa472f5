package gguf

// removedTypes lists numbers that once meant something and are never used again.
var removedTypes = map[Type]string{
	4: "Q4_2", 5: "Q4_3",
	31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
	removedInterleaved: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
}

// removedInterleaved is a removed number that BitNet.cpp and ik_llama.cpp use for I2_S.
const removedInterleaved Type = 36

// ikLlama is the program that the foreign types belong to.
const ikLlama = "ik_llama.cpp"

// foreignTypes lists the private types of ik_llama.cpp. Their sizes are not given: several keep a scale for each row
// beside the blocks. Its forms with several rows
// interleaved (Q4_0_R8, IQ4_K_R4 ...) have the numbers firstInterleaved to lastInterleaved.
var foreignTypes = map[Type]string{
	133: "Q6_0", 134: "IQ1_BN", 135: "IQ2_BN", 136: "Q8_K64", 137: "IQ2_K", 138: "IQ3_K", 139: "IQ4_K", 140: "IQ5_K",
	141: "IQ6_K", 144: "IQ4_KS", 145: "IQ2_KS", 146: "IQ4_KSS", 147: "Q8_K16", 148: "Q8_K32", 149: "Q8_KR8", 150: "Q8_K128",
	151: "Q8_KV", 152: "IQ5_KS", 153: "IQ2_KT", 154: "IQ3_KT", 155: "IQ4_KT", 156: "IQ3_KS", 157: "IQ2_KL", 158: "IQ1_KT",
}

// The numbers of the interleaved forms in ik_llama.cpp, not all of them in use.
const firstInterleaved, lastInterleaved Type = 202, 399
