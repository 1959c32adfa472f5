package gguf

import (
	"encoding/binary"
	"fmt"
)

// decoder reads numbers, strings and values from a window of bytes that may grow.
type decoder struct {
	buf  []byte // the window: bytes 0 to len(buf) of the file or array
	pos  int    // of the next byte
	size uint64 // of the whole file or array
	enc  encoding
	// grow gives a window of at least n bytes (n <= size); nil when buf is already everything.
	grow   func(n uint64) ([]byte, error)
	listed uint64 // elements of all arrays so far
	// odd is told about what is unusual but harmless.
	odd func(at int, err error)
}

// rest is the number of bytes after pos, in the window or not.
func (d *decoder) rest() uint64 { return d.size - uint64(d.pos) }

// need makes sure that n bytes from pos are in the window.
func (d *decoder) need(n uint64) error {
	if n <= uint64(len(d.buf)-d.pos) {
		return nil
	}
	if n > d.rest() {
		return fmt.Errorf("%w: %d bytes needed, %d left", ErrTruncated, n, d.rest())
	}
	end := uint64(d.pos) + n
	if end > MaxHeader && d.grow != nil {
		return fmt.Errorf("%w: the header is larger than %d bytes", ErrLimit, MaxHeader)
	}
	if d.grow == nil {
		return fmt.Errorf("%w: %d bytes needed, %d left", ErrTruncated, n, len(d.buf)-d.pos)
	}
	buf, err := d.grow(end)
	if err != nil {
		return err
	}
	if uint64(len(buf)) < end {
		return fmt.Errorf("%w: %d bytes could be read, %d are needed", ErrTruncated, len(buf), end)
	}
	d.buf = buf
	return nil
}

// bits reads a number of n bytes: 1, 2, 4 or 8.
func (d *decoder) bits(n int) (uint64, error) {
	if err := d.need(uint64(n)); err != nil {
		return 0, err
	}
	x := d.enc.bits(d.buf[d.pos : d.pos+n])
	d.pos += n
	return x, nil
}

func (d *decoder) u32() (uint32, error) {
	x, err := d.bits(4)
	return uint32(x), err
}

// count reads the number of things that follow, of at least minSize bytes each, and holds it against the bytes left.
func (d *decoder) count(minSize int, limit uint64, what string) (int, error) {
	n, err := d.bits(d.enc.countSize())
	if err != nil {
		return 0, err
	}
	if n > d.rest()/uint64(minSize) {
		if minSize == 1 {
			return 0, fmt.Errorf("%w: %d %s, %d bytes are left", ErrTruncated, n, what, d.rest())
		}
		return 0, fmt.Errorf("%w: %d %s need at least %d bytes each, %d bytes are left", ErrTruncated, n, what, minSize, d.rest())
	}
	if n > limit {
		return 0, fmt.Errorf("%w: %d %s, at most %d", ErrLimit, n, what, limit)
	}
	return int(n), nil
}

// text reads a string and gives its range in buf. Version 1 stored a final zero byte with some strings; it is left out.
func (d *decoder) text() (first, last int, err error) {
	n, err := d.count(1, MaxString, "bytes of text")
	if err != nil {
		return 0, 0, err
	}
	if err := d.need(uint64(n)); err != nil {
		return 0, 0, err
	}
	first, last = d.pos, d.pos+n
	d.pos = last
	if !d.enc.wide && n > 0 && d.buf[last-1] == 0 {
		last--
	}
	return first, last, nil
}

// str reads a string.
func (d *decoder) str() (string, error) {
	first, last, err := d.text()
	if err != nil {
		return "", err
	}
	return string(d.buf[first:last]), nil
}

// value reads a value of type t. depth counts the arrays around and including it; 1 for a top-level value.
func (d *decoder) value(t ValueType, depth int) (Value, error) {
	switch {
	case !t.valid():
		return Value{}, fmt.Errorf("%w: %s means nothing", ErrValueType, t)
	case t == String:
		s, err := d.str()
		return Value{typ: t, set: err == nil, str: s}, err
	case t == ArrayType:
		a, err := d.array(depth)
		return Value{typ: t, set: err == nil, arr: a}, err
	}
	at := d.pos
	bits, err := d.bits(t.size())
	if t == Bool && bits > 1 {
		d.report(at, fmt.Errorf("%w: a bool is stored as %d, taken as true", ErrValue, bits))
	}
	return Value{typ: t, set: err == nil, num: bits}, err
}

func (d *decoder) report(at int, err error) {
	if d.odd != nil {
		d.odd(at, err)
	}
}

// arrayHead reads element type and count of an array.
func (d *decoder) arrayHead(depth int) (ValueType, int, error) {
	if depth > MaxDepth {
		return 0, 0, fmt.Errorf("%w: arrays nested more than %d deep", ErrLimit, MaxDepth)
	}
	t, err := d.u32()
	if err != nil {
		return 0, 0, err
	}
	elem := ValueType(t)
	if !elem.valid() {
		return 0, 0, fmt.Errorf("%w: array of %s, which means nothing", ErrValueType, elem)
	}
	n, err := d.count(d.enc.minSize(elem), MaxListed, "elements")
	if err != nil {
		return 0, 0, err
	}
	if d.listed += uint64(n); d.listed > MaxListed {
		return 0, 0, fmt.Errorf("%w: the arrays of the file have more than %d elements together", ErrLimit, MaxListed)
	}
	return elem, n, nil
}

// array reads an array as a view and passes over its elements.
func (d *decoder) array(depth int) (*array, error) {
	elem, n, err := d.arrayHead(depth)
	if err != nil {
		return nil, err
	}
	a := &array{elem: elem, n: n, enc: d.enc}
	start := d.pos
	if s := elem.size(); s > 0 {
		if err := d.need(uint64(n) * uint64(s)); err != nil {
			return nil, err
		}
		d.pos += n * s
	} else if a.marks, err = d.skipMarked(elem, n, depth); err != nil {
		return nil, err
	}
	a.data = d.buf[start:d.pos:d.pos]
	if elem == Bool {
		for i, b := range a.data {
			if b > 1 {
				d.report(start+i, fmt.Errorf("%w: element %d, a bool, is stored as %d, taken as true", ErrValue, i, b))
				break
			}
		}
	}
	return a, nil
}

// skipMarked passes over n elements of varying size and notes where every markStride-th begins, from the first one.
func (d *decoder) skipMarked(elem ValueType, n, depth int) (marks []int, err error) {
	start := d.pos
	plain := elem == String && d.enc == current
	for i := range n {
		if i%markStride == 0 {
			marks = append(marks, d.pos-start)
		}
		// The usual case in few instructions: a vocabulary has 262,144 strings and as many merges.
		if plain && len(d.buf)-d.pos >= 8 {
			if size := binary.LittleEndian.Uint64(d.buf[d.pos:]); size <= uint64(len(d.buf)-d.pos-8) && size <= MaxString {
				d.pos += 8 + int(size)
				continue
			}
		}
		if err := d.skip(elem, depth+1); err != nil {
			return nil, fmt.Errorf("element %d of %d: %w", i, n, err)
		}
	}
	return marks, nil
}

// skip passes over one value of a type whose size varies.
func (d *decoder) skip(t ValueType, depth int) error {
	if t == String {
		_, _, err := d.text()
		return err
	}
	elem, n, err := d.arrayHead(depth)
	if err != nil {
		return err
	}
	if s := elem.size(); s > 0 {
		if err := d.need(uint64(n) * uint64(s)); err != nil {
			return err
		}
		d.pos += n * s
		return nil
	}
	for range n {
		if err := d.skip(elem, depth+1); err != nil {
			return err
		}
	}
	return nil
}
