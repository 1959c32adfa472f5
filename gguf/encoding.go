package gguf

import (
	"encoding/binary"
	"math"
)

// encoding is how a file stores numbers: its byte order, and whether counts take 64 bits (versions 2 and 3) or 32 (version 1).
type encoding struct {
	order byteOrder
	wide  bool
}

// byteOrder is what binary.LittleEndian and binary.BigEndian offer.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// current is the encoding of the files that this package writes: version 3, little-endian.
var current = encoding{order: binary.LittleEndian, wide: true}

// countSize is the storage of a count in bytes.
func (e encoding) countSize() int {
	if e.wide {
		return 8
	}
	return 4
}

// minSize is the least storage of one value of type t in bytes.
func (e encoding) minSize(t ValueType) int {
	switch t {
	case String:
		return e.countSize()
	case ArrayType:
		return 4 + e.countSize()
	}
	return t.size()
}

// bits reads a number of len(b) bytes.
func (e encoding) bits(b []byte) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(e.order.Uint16(b))
	case 4:
		return uint64(e.order.Uint32(b))
	}
	return e.order.Uint64(b)
}

func (e encoding) appendBits(dst []byte, t ValueType, bits uint64) []byte {
	switch t.size() {
	case 1:
		return append(dst, byte(bits))
	case 2:
		return e.order.AppendUint16(dst, uint16(bits))
	case 4:
		return e.order.AppendUint32(dst, uint32(bits))
	}
	return e.order.AppendUint64(dst, bits)
}

// appendCount appends a count. Only 64-bit counts are ever written.
func (e encoding) appendCount(dst []byte, n int) []byte { return e.order.AppendUint64(dst, uint64(n)) }

func (e encoding) appendString(dst []byte, s string) []byte {
	return append(e.appendCount(dst, len(s)), s...)
}

// appendValue appends a value without its type.
func (e encoding) appendValue(dst []byte, v Value) []byte {
	switch v.typ {
	case String:
		return e.appendString(dst, v.str)
	case ArrayType:
		dst = e.order.AppendUint32(dst, uint32(v.arr.elem))
		dst = e.appendCount(dst, v.arr.n)
		return v.arr.encode(dst, e)
	}
	return e.appendBits(dst, v.typ, v.num)
}

// appendHeader appends everything before the tensor data, without the padding.
func (e encoding) appendHeader(dst []byte, version uint32, meta *Meta, tensors []Tensor) []byte {
	dst = append(dst, magic...)
	dst = e.order.AppendUint32(dst, version)
	dst = e.appendCount(dst, len(tensors))
	dst = e.appendCount(dst, meta.Len())
	for key, v := range meta.All() {
		dst = e.appendString(dst, key)
		dst = e.order.AppendUint32(dst, uint32(v.typ))
		dst = e.appendValue(dst, v)
	}
	for i := range tensors {
		t := &tensors[i]
		dst = e.appendString(dst, t.Name)
		dst = e.order.AppendUint32(dst, uint32(len(t.Shape)))
		for _, n := range t.Shape {
			dst = e.order.AppendUint64(dst, n)
		}
		dst = e.order.AppendUint32(dst, uint32(t.Type))
		dst = e.order.AppendUint64(dst, t.Offset)
	}
	return dst
}

// alignUp rounds n up to a multiple of the power of two; false when that overflows.
func alignUp(n, alignment uint64) (uint64, bool) {
	if n > math.MaxUint64-(alignment-1) {
		return 0, false
	}
	return (n + alignment - 1) &^ (alignment - 1), true
}
