package infer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/kernel"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// pagePositions is how many positions a page holds.
const pagePositions = arch.CachePage

// paged is the memory of keys and values: a list of pages, each with all layers of pagePositions positions. Appending adds pages and copies
// nothing; a fork shares them, and a shared page is copied when one of its owners changes it. Positions that none of its owners holds are zeros.
type paged struct {
	layout *pageLayout
	pages  []*page
	len    int
}

// page holds keys and values in the type of the layout, little-endian.
type page struct {
	owners int
	data   []byte
}

// pageLayout is where things are in a page, in bytes: per layer and key head, first the keys, one row per position, then the values.
type pageLayout struct {
	layers       []CacheShape
	keys, values []kernel.Cache // how they lie in each layer
	start        []int          // of each layer
	size         int
	typ          gguf.Type // F32, which only exact precision has, F16 or Q8_0
	encode       func(dst []byte, src []float32)
	// room fails if there is no memory for some more bytes; nil: nobody knows.
	room func(bytes uint64) error
	// free are pages that nobody owns, for the next who needs some: the garbage collector would let as many again be made before it takes them.
	free []*page
}

// newPageLayout lays out pages. Widths of heads are whole blocks of the type.
func newPageLayout(layers []CacheShape, typ gguf.Type, room func(bytes uint64) error) *pageLayout {
	l := &pageLayout{layers: layers, start: make([]int, len(layers)), typ: typ, encode: encoders[typ], room: room}
	cache := func(width int) kernel.Cache {
		size, _ := typ.RowBytes(uint64(width))
		return kernel.Cache{Type: typ, Width: width, Stride: int(size)}
	}
	for il, s := range layers {
		keys, values := cache(s.HeadK), cache(s.HeadV)
		l.keys, l.values = append(l.keys, keys), append(l.values, values)
		l.start[il] = l.size
		l.size += s.KVHeads * pagePositions * (keys.Stride + values.Stride)
	}
	return l
}

// newPage gives a page of zeros.
func (l *pageLayout) newPage() *page {
	last := len(l.free) - 1
	if last < 0 {
		return &page{owners: 1, data: make([]byte, l.size)}
	}
	p := l.free[last]
	l.free = l.free[:last]
	p.owners = 1
	clear(p.data)
	return p
}

// release gives up pages and forgets them in the list.
func (l *pageLayout) release(pages []*page) {
	for i, p := range pages {
		if p.owners--; p.owners == 0 {
			l.free = append(l.free, p)
		}
		pages[i] = nil
	}
}

func (s *paged) Len() int { return s.len }

func (s *paged) Append(n int) error {
	if more := roundUp(s.len+n, pagePositions)/pagePositions - len(s.pages) - len(s.layout.free); more > 0 && s.layout.room != nil {
		if err := s.layout.room(uint64(more) * uint64(s.layout.size)); err != nil {
			return err
		}
	}
	if n > 0 {
		s.own()
	}
	s.len += n
	for len(s.pages)*pagePositions < s.len {
		s.pages = append(s.pages, s.layout.newPage())
	}
	return nil
}

// own copies the last page if it has room for more positions and is shared.
func (s *paged) own() {
	if s.len%pagePositions == 0 {
		return
	}
	last := len(s.pages) - 1
	if p := s.pages[last]; p.owners > 1 {
		p.owners--
		s.pages[last] = s.layout.newPage()
		copy(s.pages[last].data, p.data)
	}
}

func (s *paged) Truncate(n int) error {
	if n < 0 || n > s.len {
		return fmt.Errorf("cannot truncate %d positions to %d", s.len, n)
	}
	if n == s.len {
		return nil
	}
	keep := roundUp(n, pagePositions) / pagePositions
	s.layout.release(s.pages[keep:])
	s.pages, s.len = s.pages[:keep], n
	s.own()
	s.wipe()
	return nil
}

// wipe makes zeros of what the last page holds beyond the end.
func (s *paged) wipe() {
	slot := s.len % pagePositions
	if slot == 0 {
		return
	}
	last := len(s.pages) - 1
	for il, shape := range s.layout.layers {
		k, v := s.layout.keys[il], s.layout.values[il]
		for h := range shape.KVHeads {
			keys, values := s.head(il, last, h)
			clear(keys[slot*k.Stride:])
			clear(values[slot*v.Stride:])
		}
	}
}

func (s *paged) Fork() State {
	for _, p := range s.pages {
		p.owners++
	}
	return &paged{layout: s.layout, pages: append([]*page(nil), s.pages...), len: s.len}
}

func (s *paged) Close() {
	s.layout.release(s.pages)
	s.pages, s.len = nil, 0
}

// head is the keys and values of a head in a page.
func (s *paged) head(layer, page, head int) (keys, values []byte) {
	nk, nv := pagePositions*s.layout.keys[layer].Stride, pagePositions*s.layout.values[layer].Stride
	data := s.pages[page].data[s.layout.start[layer]+head*(nk+nv):]
	return data[:nk:nk], data[nk:][:nv:nv]
}

// expect asks memory for where put will store one position.
func (s *paged) expect(layer, pos int) {
	kc, vc := s.layout.keys[layer], s.layout.values[layer]
	slot := pos % pagePositions
	for h := range s.layout.layers[layer].KVHeads {
		keys, values := s.head(layer, pos/pagePositions, h)
		kernel.Prefetch(keys[slot*kc.Stride:][:kc.Stride])
		kernel.Prefetch(values[slot*vc.Stride:][:vc.Stride])
	}
}

// put stores the keys and values of one position; its page is not shared.
func (s *paged) put(layer, pos int, k, v []float32) {
	encode, kc, vc := s.layout.encode, s.layout.keys[layer], s.layout.values[layer]
	slot := pos % pagePositions
	for h := range s.layout.layers[layer].KVHeads {
		keys, values := s.head(layer, pos/pagePositions, h)
		encode(keys[slot*kc.Stride:][:kc.Stride], k[h*kc.Width:][:kc.Width])
		encode(values[slot*vc.Stride:][:vc.Stride], v[h*vc.Width:][:vc.Width])
	}
}

// encoders write elements in the types that a layout may have.
var encoders = map[gguf.Type]func(dst []byte, src []float32){gguf.F32: encodeF32, gguf.F16: kernel.EncodeF16, gguf.Q8_0: encodeQ8_0}

// encodeQ8_0 writes blocks of 32.
func encodeQ8_0(dst []byte, src []float32) {
	codec, _ := block.ForType(gguf.Q8_0)
	codec.Encode(dst, src)
}

// encodeF32 writes float32, little-endian.
func encodeF32(dst []byte, src []float32) {
	for i, f := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
	}
}

// roundUp is the smallest multiple of unit from n on.
func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// snapshotMagic starts a snapshot; then come the type of the cache, the number of positions, the bytes of a page, and the pages.
const snapshotMagic = "GKKV\x00\x00\x00\x03"

// snapshotHeader is the fixed part after the magic.
type snapshotHeader struct {
	Type      gguf.Type
	Positions uint64
	PageSize  uint64
}

func (s *paged) Snapshot(w io.Writer) error {
	if _, err := io.WriteString(w, snapshotMagic); err != nil {
		return err
	}
	h := snapshotHeader{Type: s.layout.typ, Positions: uint64(s.len), PageSize: uint64(s.layout.size)}
	if err := binary.Write(w, binary.LittleEndian, h); err != nil {
		return err
	}
	for _, p := range s.pages {
		if _, err := w.Write(p.data); err != nil {
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
	if h.Type != s.layout.typ || h.PageSize != uint64(s.layout.size) {
		return errors.New("snapshot: it belongs to another model, precision or type of cache")
	}
	if h.Positions > uint64(limit) {
		return fmt.Errorf("snapshot: %d positions: %w at %d", h.Positions, ErrContextFull, limit)
	}
	fresh := &paged{layout: s.layout}
	for len(fresh.pages)*pagePositions < int(h.Positions) {
		p := s.layout.newPage()
		fresh.pages = append(fresh.pages, p)
		if _, err := io.ReadFull(r, p.data); err != nil {
			fresh.Close()
			return fmt.Errorf("snapshot: %w", err)
		}
	}
	s.layout.release(s.pages)
	s.pages, s.len = fresh.pages, int(h.Positions)
	s.wipe()
	return nil
}
