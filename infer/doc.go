// Package infer runs models: GGUF to logits. Load binds a file's weights to a Backend; Step runs a batch of elements of any sequences; a Session is one sequence.
package infer
