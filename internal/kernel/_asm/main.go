// Command asm writes the assembly of package kernel and the Go declarations that go with it.
package main

import (
	"flag"
	"log"
)

func main() {
	log.SetFlags(0)
	out := flag.String("out", "..", "folder of package kernel")
	flag.Parse()
	const avx2 = "AVX2, FMA and F16C"
	tiles := newFile("gemm", avx2)
	gemm(tiles)
	panels := newFile("unpack", avx2)
	unpack(panels)
	widenPanels(panels)
	products := newFile("dot", avx2)
	dots(products)
	rows := newFile("rows", avx2)
	vectors(rows)
	attending := newFile("attention", avx2)
	weigh(attending)
	waiting := newFile("memory", avx2)
	memory(waiting)
	files := []*file{tiles, panels, products, rows, attending, waiting}
	for _, f := range files {
		if err := f.write(*out); err != nil {
			log.Fatal(err)
		}
	}
	if err := writeStubs(*out, files); err != nil {
		log.Fatal(err)
	}
}
