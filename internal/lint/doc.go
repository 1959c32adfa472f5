// Package lint holds the rules of the repository as tests: who may import what, and what a source file must look like.
// It has no code of its own to import.
package lint
