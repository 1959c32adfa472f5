//go:build !amd64 || noasm

package kernel

func choose() *set { return &generic }
