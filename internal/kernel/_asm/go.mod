module github.com/ggufkit/ggufkit/internal/kernel/_asm

go 1.26
