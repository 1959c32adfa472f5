package gguf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// magic begins every file; a few big-endian writers wrote it as a number, and so reversed.
const (
	magic         = "GGUF"
	reversedMagic = "FUGG"
)

// Versions that are read. Files are written as version 3.
const (
	minVersion = 1
	maxVersion = 3
)

// firstWindow is how much of a file is asked for first, in bytes; the window doubles when it is too small.
const firstWindow = 1 << 16

// headerReader parses a header and collects what is wrong with it.
type headerReader struct {
	decoder
	src     Source
	file    *File
	defects []Defect
	at      []uint64 // at[i] is the offset of the description of file.Tensors[i]
	broken  []bool   // broken[i] is set when the size of file.Tensors[i] is not known
	where   string
	failed  error // of the source
}

// ReadHeader reads the header of src, which path names in errors. It keeps going as long as it can tell what comes next, and
// lists every defect. The file is nil when src does not begin as a GGUF file does. Its tensors can be read while src is open;
// closing the File does nothing. The error is that of a source that cannot be read.
func ReadHeader(path string, src Source) (*File, []Defect, error) {
	h := &headerReader{src: src, file: &File{Path: path, Size: src.Size(), Meta: NewMeta(), src: src}}
	h.size = src.Size()
	h.grow = h.window
	h.odd = func(at int, err error) { h.note(at, err, "") }
	h.file.Meta.path = path
	ok, err := h.start()
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, h.defects, nil
	}
	if h.readAll() {
		h.checkLayout()
	}
	if h.failed != nil {
		return nil, nil, h.failed
	}
	return h.file, h.defects, nil
}

// window gives at least the first n bytes of the source, for the decoder to grow.
func (h *headerReader) window(n uint64) ([]byte, error) {
	buf, err := h.src.View(0, min(h.size, max(n, 2*uint64(len(h.buf)), firstWindow)))
	if err != nil {
		h.failed = fmt.Errorf("%s: %w", h.file.Path, err)
	}
	return buf, err
}

// fatal notes a defect that makes the file unusable.
func (h *headerReader) fatal(at int, err error, hint string) {
	h.defects = append(h.defects, Defect{Offset: uint64(at), Where: h.where, Fatal: true, Err: err, Hint: hint})
}

// note notes a defect that is kept as it is.
func (h *headerReader) note(at int, err error, hint string) {
	h.defects = append(h.defects, Defect{Offset: uint64(at), Where: h.where, Err: err, Hint: hint})
}

// start reads magic and version and so finds the byte order. It fails only when the source cannot be read.
func (h *headerReader) start() (bool, error) {
	buf, err := h.window(firstWindow)
	if err != nil {
		return false, h.failed
	}
	h.buf = buf
	if !bytes.HasPrefix(buf, []byte(magic)) && !bytes.HasPrefix(buf, []byte(reversedMagic)) {
		what, hint := sniff(buf, h.size)
		h.fatal(0, fmt.Errorf("%w: %s", ErrMagic, what), hint)
		return false, nil
	}
	if len(buf) < 8 {
		h.fatal(4, fmt.Errorf("%w: no room for a version", ErrTruncated), hintDownload)
		return false, nil
	}
	// The order is not recorded: it is the one in which the version is a small number.
	order := byteOrder(binary.LittleEndian)
	version := order.Uint32(buf[4:])
	if version&0xffff == 0 && version != 0 {
		order = binary.BigEndian
		version = order.Uint32(buf[4:])
	}
	h.file.Order, h.file.Version = order, version
	h.enc = encoding{order: order, wide: version != 1}
	h.file.enc = h.enc
	h.pos = 8
	if version < minVersion || version > maxVersion {
		h.fatal(4, fmt.Errorf("%w: %d, can read %d to %d", ErrVersion, version, minVersion, maxVersion), "a newer ggufkit may read it")
		return false, nil
	}
	return true, nil
}

// readAll reads counts, metadata and tensor descriptions; false when it lost its way.
func (h *headerReader) readAll() bool {
	tensorsAt := h.pos
	tensors, err := h.bits(h.enc.countSize())
	if err != nil {
		h.fatal(tensorsAt, err, hintDownload)
		return false
	}
	keysAt := h.pos
	keys, err := h.count(h.enc.minSize(String)+4+1, MaxKeys, "keys")
	if err != nil {
		h.fatal(keysAt, err, hintCount)
		return false
	}
	for i := range keys {
		if !h.readKey(i) {
			return false
		}
	}
	h.where = ""
	if most := h.rest() / uint64(h.enc.minTensor()); tensors > most {
		h.fatal(tensorsAt, fmt.Errorf("%w: %d tensors need at least %d bytes each to be described, %d bytes are left", ErrTruncated, tensors, h.enc.minTensor(), h.rest()), hintCount)
		return false
	}
	if tensors > MaxTensors {
		h.fatal(tensorsAt, fmt.Errorf("%w: %d tensors, at most %d", ErrLimit, tensors, MaxTensors), hintCount)
		return false
	}
	h.file.index = map[string]int{}
	for i := range int(tensors) {
		if !h.readTensor(i) {
			return false
		}
	}
	h.where = ""
	return h.findData()
}

// minTensor is the least storage of a tensor's description in bytes: a name, one dimension, type and offset.
func (e encoding) minTensor() int { return e.countSize() + 4 + e.countSize() + 4 + 8 }

// readKey reads one key and its value.
func (h *headerReader) readKey(i int) bool {
	h.where = fmt.Sprintf("key %d", i)
	at := h.pos
	key, err := h.name(MaxKeyLen)
	if err != nil {
		h.fatal(at, err, hintDamage)
		return false
	}
	h.where = keyPlace(key)
	h.checkKeyName(at, key)
	typeAt := h.pos
	t, err := h.u32()
	if err != nil {
		h.fatal(typeAt, err, hintDownload)
		return false
	}
	valueAt := h.pos
	v, err := h.value(ValueType(t), 1)
	if err != nil {
		if !ValueType(t).valid() {
			valueAt = typeAt
		}
		h.fatal(valueAt, err, hintDamage)
		return false
	}
	h.checkText(valueAt, key, v)
	if h.file.Meta.Has(key) {
		first := h.file.Meta.entries[h.file.Meta.index[key]].at
		h.fatal(at, fmt.Errorf("%w: the key was set at offset %d before", ErrDuplicate, first), hintDamage)
		return true
	}
	h.file.Meta.add(key, v, int64(valueAt))
	if key == KeyAlignment {
		h.checkAlignment(valueAt)
	}
	return true
}

// name reads a key or tensor name.
func (h *headerReader) name(limit uint64) (string, error) {
	n, err := h.count(1, limit, "bytes of a name")
	if err != nil {
		return "", err
	}
	if err := h.need(uint64(n)); err != nil {
		return "", err
	}
	s := string(h.buf[h.pos : h.pos+n])
	h.pos += n
	if !h.enc.wide {
		s = strings.TrimSuffix(s, "\x00")
	}
	return s, nil
}

func (h *headerReader) checkKeyName(at int, key string) {
	switch {
	case key == "":
		h.note(at, fmt.Errorf("%w: the key is empty", ErrName), "")
	case !utf8.ValidString(key):
		h.note(at, fmt.Errorf("%w: the key", ErrEncoding), "")
	}
}

// checkText notes text that is not UTF-8. What a tokenizer lists may be any bytes.
func (h *headerReader) checkText(at int, key string, v Value) {
	if v.typ == String && !utf8.ValidString(v.str) {
		h.note(at, ErrEncoding, "")
	}
	if v.typ != ArrayType || v.arr.elem != String || strings.HasPrefix(key, "tokenizer.") {
		return
	}
	for i, e := range (Array{v.arr}).All() {
		if !utf8.ValidString(e.str) {
			h.note(at, fmt.Errorf("%w: element %d", ErrEncoding, i), "")
			return
		}
	}
}

func (h *headerReader) checkAlignment(at int) {
	a, err := h.file.Meta.Alignment()
	switch {
	case err != nil:
		h.fatal(at, bare(err), hintDamage)
	case a < UsualAlignment:
		h.note(at, fmt.Errorf("%w: %d is under the least that the format allows, %d", ErrAlignment, a, UsualAlignment), "")
	}
}

// readTensor reads the description of one tensor.
func (h *headerReader) readTensor(i int) bool {
	h.where = fmt.Sprintf("tensor %d", i)
	at := h.pos
	name, err := h.name(MaxTensorName)
	if err != nil {
		h.fatal(at, err, hintDamage)
		return false
	}
	h.where = tensorPlace(name)
	t, ok := h.tensorBody(name)
	if !ok {
		return false
	}
	h.checkTensorName(at, name)
	broken := false
	if err := t.check(); err != nil {
		h.fatal(at, err, cmp.Or(t.Type.hint(), hintDamage))
		broken = true
	}
	if j, dup := h.file.index[name]; dup {
		h.fatal(at, h.duplicate(&h.file.Tensors[j], &t), "remove one of the two; which one is right is not recorded")
	} else {
		h.file.index[name] = i
	}
	h.file.Tensors = append(h.file.Tensors, t)
	h.at = append(h.at, uint64(at))
	h.broken = append(h.broken, broken)
	return true
}

// maxBadDims is how many dimensions are passed over to find further defects; a wilder number says that the place is lost.
const maxBadDims = 16

// tensorBody reads what follows the name.
func (h *headerReader) tensorBody(name string) (t Tensor, ok bool) {
	t.Name = name
	at := h.pos
	dims, err := h.u32()
	if err == nil && dims > maxBadDims {
		err = fmt.Errorf("%w: %d dimensions, must be 1 to %d", ErrShape, dims, MaxDims)
	}
	if err != nil {
		h.fatal(at, err, hintDamage)
		return t, false
	}
	t.Shape = make([]uint64, dims)
	for i := range t.Shape {
		if t.Shape[i], err = h.bits(h.enc.countSize()); err != nil {
			h.fatal(at, err, hintDownload)
			return t, false
		}
	}
	typ, err := h.u32()
	if err == nil {
		t.Type = Type(typ)
		t.Offset, err = h.bits(8)
	}
	if err != nil {
		h.fatal(at, err, hintDownload)
		return t, false
	}
	return t, true
}

// duplicate tells where both tensors of one name lie, and their sizes.
func (h *headerReader) duplicate(first, second *Tensor) error {
	size := func(t *Tensor) string {
		n, err := t.Bytes()
		if err != nil {
			return "unknown size"
		}
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Errorf("%w: the tensor is listed twice, with data offset %d (%s) and %d (%s)", ErrDuplicate,
		first.Offset, size(first), second.Offset, size(second))
}

func (h *headerReader) checkTensorName(at int, name string) {
	switch {
	case name == "":
		h.note(at, fmt.Errorf("%w: the name is empty", ErrName), "")
	case !utf8.ValidString(name):
		h.note(at, fmt.Errorf("%w: the name", ErrEncoding), "")
	case len(name) > UsualTensorName:
		h.note(at, fmt.Errorf("%w: the name has %d bytes, llama.cpp loads at most %d", ErrName, len(name), UsualTensorName), "")
	}
}

// findData finds where the tensor data begins; false when the alignment is not usable.
func (h *headerReader) findData() bool {
	a, err := h.file.Meta.Alignment()
	if err != nil {
		return false
	}
	h.file.Alignment = a
	h.file.headerSize = uint64(h.pos)
	h.file.DataOffset, _ = alignUp(uint64(h.pos), a) // no overflow: pos is at most MaxHeader
	return true
}
