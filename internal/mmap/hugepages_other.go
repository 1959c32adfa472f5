//go:build unix && !linux

package mmap

// hugePages does nothing: there is no such advice.
func hugePages([]byte) {}
