package infer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ggufkit/ggufkit/internal/half"
)

// pagePositions is how many positions a page holds; a multiple of the tile's height.
const pagePositions = 32

// paged is the memory of keys and values: a list of pages, each with all layers of pagePositions positions. Appending adds pages and copies
// nothing; a fork shares them, and a shared page is copied when one of its owners writes to it.
type paged struct {
	layout *pageLayout
	pages  []*page
	len    int
}

// page holds float32 in exact precision and float16 in fast.
type page struct {
	owners int
	f32    []float32
	f16    []byte
}

// pageLayout is where things are in a page, in elements: per layer and key head, first the keys, one row per position,
// then the values transposed, one row of positions per element, so that sums over positions run along memory.
type pageLayout struct {
	layers []CacheShape
	start  []int // of each layer
	size   int
	exact  bool
}

func newPaged(layers []CacheShape, exact bool) *paged {
	l := &pageLayout{layers: layers, start: make([]int, len(layers)), exact: exact}
	for il, s := range layers {
		l.start[il] = l.size
		l.size += s.KVHeads * l.headSize(s)
	}
	return &paged{layout: l}
}

// headSize is the elements of a key head. Values are padded to whole tiles.
func (l *pageLayout) headSize(s CacheShape) int {
	return pagePositions * (s.HeadK + roundUp(s.HeadV, tileRows))
}

// newPage makes a page of zeros.
func (l *pageLayout) newPage() *page {
	if l.exact {
		return &page{owners: 1, f32: make([]float32, l.size)}
	}
	return &page{owners: 1, f16: make([]byte, 2*l.size)}
}

func (s *paged) Len() int { return s.len }

func (s *paged) Append(n int) error {
	if last := len(s.pages) - 1; n > 0 && s.len%pagePositions != 0 && s.pages[last].owners > 1 {
		shared := s.pages[last]
		shared.owners--
		s.pages[last] = &page{owners: 1, f32: append([]float32(nil), shared.f32...), f16: append([]byte(nil), shared.f16...)}
	}
	s.len += n
	for len(s.pages)*pagePositions < s.len {
		s.pages = append(s.pages, s.layout.newPage())
	}
	return nil
}

func (s *paged) Truncate(n int) error {
	if n < 0 || n > s.len {
		return fmt.Errorf("cannot truncate %d positions to %d", s.len, n)
	}
	keep := roundUp(n, pagePositions) / pagePositions
	release(s.pages[keep:])
	s.pages, s.len = s.pages[:keep], n
	return nil
}

func (s *paged) Fork() State {
	for _, p := range s.pages {
		p.owners++
	}
	return &paged{layout: s.layout, pages: append([]*page(nil), s.pages...), len: s.len}
}

func (s *paged) Close() {
	release(s.pages)
	s.pages, s.len = nil, 0
}

// release gives up pages and forgets them in the list.
func release(pages []*page) {
	for i, p := range pages {
		p.owners--
		pages[i] = nil
	}
}

// put stores the keys and values of one position; its page is not shared.
func (s *paged) put(layer, pos int, k, v []float32) {
	shape := s.layout.layers[layer]
	p := s.pages[pos/pagePositions]
	slot := pos % pagePositions
	for h := range shape.KVHeads {
		at := s.layout.start[layer] + h*s.layout.headSize(shape)
		p.set(at+slot*shape.HeadK, 1, k[h*shape.HeadK:][:shape.HeadK])
		p.set(at+pagePositions*shape.HeadK+slot, pagePositions, v[h*shape.HeadV:][:shape.HeadV])
	}
}

// set writes values from element at on, stride apart.
func (p *page) set(at, stride int, values []float32) {
	if p.f32 != nil {
		for i, v := range values {
			p.f32[at+i*stride] = v
		}
		return
	}
	for i, v := range values {
		binary.LittleEndian.PutUint16(p.f16[2*(at+i*stride):], half.F32ToF16(v))
	}
}

// keys are those of a head in a page, one row per position; values one row of positions per element. Both are valid until the
// next call with the same scratch.
func (s *paged) keys(w *scratch, layer, page, head int) []float32 {
	shape := s.layout.layers[layer]
	return s.pages[page].get(w, s.layout.start[layer]+head*s.layout.headSize(shape), pagePositions*shape.HeadK)
}

func (s *paged) values(w *scratch, layer, page, head int) []float32 {
	shape := s.layout.layers[layer]
	at := s.layout.start[layer] + head*s.layout.headSize(shape) + pagePositions*shape.HeadK
	return s.pages[page].get(w, at, pagePositions*roundUp(shape.HeadV, tileRows))
}

// get is n elements of a page as float32.
func (p *page) get(w *scratch, at, n int) []float32 {
	if p.f32 != nil {
		return p.f32[at:][:n]
	}
	w.page = grow(w.page, n)
	half.DecodeF16(w.page, p.f16[2*at:][:2*n])
	return w.page
}

// snapshotMagic starts a snapshot; then come the precision, the number of positions, the elements of a page, and the pages.
const snapshotMagic = "GKKV\x00\x00\x00\x01"

// snapshotHeader is the fixed part after the magic.
type snapshotHeader struct {
	Exact     bool
	Positions uint64
	PageSize  uint64
}

func (s *paged) Snapshot(w io.Writer) error {
	if _, err := io.WriteString(w, snapshotMagic); err != nil {
		return err
	}
	h := snapshotHeader{Exact: s.layout.exact, Positions: uint64(s.len), PageSize: uint64(s.layout.size)}
	if err := binary.Write(w, binary.LittleEndian, h); err != nil {
		return err
	}
	for _, p := range s.pages {
		if err := binary.Write(w, binary.LittleEndian, p.data()); err != nil {
			return err
		}
	}
	return nil
}

func (s *paged) Restore(r io.Reader, limit int) error {
	magic := make([]byte, len(snapshotMagic))
	var h snapshotHeader
	if _, err := io.ReadFull(r, magic); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if string(magic) != snapshotMagic {
		return errors.New("snapshot: this is none")
	}
	if err := binary.Read(r, binary.LittleEndian, &h); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if h.Exact != s.layout.exact || h.PageSize != uint64(s.layout.size) {
		return errors.New("snapshot: it belongs to another model or precision")
	}
	if h.Positions > uint64(limit) {
		return fmt.Errorf("snapshot: %d positions: %w at %d", h.Positions, ErrContextFull, limit)
	}
	fresh := &paged{layout: s.layout}
	for len(fresh.pages)*pagePositions < int(h.Positions) {
		p := s.layout.newPage()
		if err := binary.Read(r, binary.LittleEndian, p.data()); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
		fresh.pages = append(fresh.pages, p)
	}
	release(s.pages)
	s.pages, s.len = fresh.pages, int(h.Positions)
	return nil
}

// data is the page's contents.
func (p *page) data() any {
	if p.f32 != nil {
		return p.f32
	}
	return p.f16
}
