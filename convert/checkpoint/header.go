package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits on what a header may claim. The format itself sets the first one.
const (
	maxHeader = 100_000_000 // bytes of the JSON header
	maxRank   = 64          // dimensions of a tensor; torch and numpy stop there too
)

// lengthSize is the size of the little-endian header length that starts a file.
const lengthSize = 8

// header is the checked table of contents of a safetensors file.
type header struct {
	data    uint64  // file offset of the first tensor byte
	entries []entry // in order of data, without holes or overlaps
	plain   bool    // nothing in it that the safetensors module would refuse
}

// entry is one tensor of a header.
type entry struct {
	name       string
	dtype      DType
	shape      []uint64
	begin, end uint64 // of its bytes, from header.data
	at         uint64 // file offset of its description
}

// scanHeader reads and checks the header of a whole file. It goes by the rules of the format's reference implementation and
// is stricter on one point: a name that is there twice is an error, not a silent replacement.
func scanHeader(file []byte) (*header, error) {
	if len(file) < lengthSize {
		return nil, fmt.Errorf("%w: %d bytes cannot hold a header", ErrTruncated, len(file))
	}
	n := binary.LittleEndian.Uint64(file)
	if n > maxHeader {
		return nil, fmt.Errorf("%w: header length %d at byte 0 exceeds the limit of %d", ErrFormat, n, maxHeader)
	}
	if have := uint64(len(file)) - lengthSize; n > have {
		return nil, fmt.Errorf("%w: the header has %d bytes, %d of them are missing", ErrTruncated, n, n-have)
	}
	stop := lengthSize + n
	s := scanner{
		dec: jsontext.NewDecoder(bytes.NewBuffer(file[lengthSize:stop:stop])),
		h:   header{data: stop, plain: true},
	}
	if err := s.scan(); err != nil {
		return nil, err
	}
	if err := s.h.checkTiling(uint64(len(file)) - stop); err != nil {
		return nil, err
	}
	return &s.h, nil
}

// scanner walks the tokens of a header.
type scanner struct {
	dec    *jsontext.Decoder
	h      header
	tensor *entry // being read; nil outside descriptions
}

// offset is the place in the file just behind the last token.
func (s *scanner) offset() uint64 { return lengthSize + uint64(s.dec.InputOffset()) }

// errorf makes an ErrFormat with the tensor in front and the offset at the end.
func (s *scanner) errorf(format string, args ...any) error { return s.wrap(ErrFormat, format, args...) }

func (s *scanner) wrap(sentinel error, format string, args ...any) error {
	tensor := ""
	if s.tensor != nil {
		tensor = fmt.Sprintf("tensor %q: ", s.tensor.name)
	}
	return fmt.Errorf("%w: %s%s (byte %d)", sentinel, tensor, fmt.Sprintf(format, args...), s.offset())
}

// syntax turns an error of the JSON decoder into an ErrFormat with the offset in the file.
func syntax(err error, base uint64) error {
	se, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the JSON text ends too early", ErrFormat)
	case se.JSONPointer != "":
		return fmt.Errorf("%w: bad JSON in %q: %w (byte %d)", ErrFormat, se.JSONPointer.LastToken(), se.Err, base+uint64(se.ByteOffset))
	}
	return fmt.Errorf("%w: bad JSON: %w (byte %d)", ErrFormat, se.Err, base+uint64(se.ByteOffset))
}

// token reads the next token, which must be of one kind.
func (s *scanner) token(kind jsontext.Kind, what string) (jsontext.Token, error) {
	if got := s.dec.PeekKind(); got != kind && got != 0 {
		return jsontext.Token{}, s.errorf("%s: %s where %s is due", what, kindName(got), kindName(kind))
	}
	tok, err := s.dec.ReadToken()
	if err != nil {
		return tok, syntax(err, lengthSize)
	}
	return tok, nil
}

// kindName is a JSON kind in words.
func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "an end"
}

func (s *scanner) scan() error {
	if _, err := s.token('{', "the header"); err != nil {
		return err
	}
	for s.dec.PeekKind() != '}' {
		name, err := s.token('"', "a name")
		if err != nil {
			return err
		}
		if n := name.String(); n == "__metadata__" {
			err = s.metadata()
		} else {
			err = s.describe(n)
		}
		if err != nil {
			return err
		}
	}
	if _, err := s.token('}', "the header"); err != nil {
		return err
	}
	if _, err := s.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return s.errorf("something follows the JSON object of the header")
	}
	return nil
}

// metadata checks the free-form strings of a file; nothing reads them.
func (s *scanner) metadata() error {
	if s.dec.PeekKind() == 'n' {
		_, err := s.token('n', "__metadata__")
		return err
	}
	if _, err := s.token('{', "__metadata__"); err != nil {
		return err
	}
	for s.dec.PeekKind() != '}' {
		if _, err := s.token('"', "a name in __metadata__"); err != nil {
			return err
		}
		if _, err := s.token('"', "a value in __metadata__"); err != nil {
			return err
		}
	}
	_, err := s.token('}', "__metadata__")
	return err
}

// describe reads the description of one tensor and checks it by itself.
func (s *scanner) describe(name string) error {
	e := entry{name: name, at: s.offset()}
	s.tensor = &e
	defer func() { s.tensor = nil }()
	if _, err := s.token('{', "the description"); err != nil {
		return err
	}
	var offsets []uint64
	for s.dec.PeekKind() != '}' {
		key, err := s.token('"', "a key")
		if err != nil {
			return err
		}
		switch key.String() {
		case "dtype":
			err = s.dtype()
		case "shape":
			e.shape, err = s.numbers("shape", maxRank)
		case "data_offsets":
			offsets, err = s.numbers("data_offsets", 2)
			if err == nil && len(offsets) != 2 {
				err = s.errorf("data_offsets are %d numbers, not 2", len(offsets))
			}
		default:
			// The reference skips unknown keys; the module refuses them.
			s.h.plain = false
			if err = s.dec.SkipValue(); err != nil {
				err = syntax(err, lengthSize)
			}
		}
		if err != nil {
			return err
		}
	}
	if _, err := s.token('}', "the description"); err != nil {
		return err
	}
	if e.dtype == "" || e.shape == nil || offsets == nil {
		return s.errorf("dtype, shape or data_offsets is absent")
	}
	e.begin, e.end = offsets[0], offsets[1]
	s.h.entries = append(s.h.entries, e)
	return e.checkSize()
}

func (s *scanner) dtype() error {
	tok, err := s.token('"', "dtype")
	if err != nil {
		return err
	}
	d := DType(tok.String())
	info, ok := dtypes[d]
	if !ok {
		return fmt.Errorf("%w\nhint: the file is damaged, or of a newer kind: a newer ggufkit may read it", s.wrap(ErrDType, "dtype %q is not known", string(d)))
	}
	s.tensor.dtype = d
	s.h.plain = s.h.plain && info.library
	return nil
}

// numbers reads an array of at most limit integers from 0 to 2^64-1. It is never nil without an error.
func (s *scanner) numbers(what string, limit int) ([]uint64, error) {
	if _, err := s.token('[', what); err != nil {
		return nil, err
	}
	list := make([]uint64, 0, 4)
	for s.dec.PeekKind() != ']' {
		tok, err := s.token('0', what)
		if err != nil {
			return nil, err
		}
		if len(list) == limit {
			return nil, s.errorf("%s has more than %d elements", what, limit)
		}
		// Token.Uint would saturate and accept fractions.
		n, err := strconv.ParseUint(tok.String(), 10, 64)
		if err != nil {
			return nil, s.errorf("%s: %s is not an integer from 0 to 2^64-1", what, tok.String())
		}
		list = append(list, n)
	}
	_, err := s.token(']', what)
	return list, err
}

// elements is the product of the shape; ok is false if it does not fit in 64 bits.
func elements(shape []uint64) (n uint64, ok bool) {
	n = 1
	for _, d := range shape {
		hi, lo := bits.Mul64(n, d)
		if hi != 0 {
			return 0, false
		}
		n = lo
	}
	return n, true
}

// checkSize compares shape and type of a tensor with its offsets.
func (e *entry) checkSize() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: tensor %q: %s (byte %d)", ErrFormat, e.name, fmt.Sprintf(format, args...), e.at)
	}
	if e.begin > e.end {
		return fail("data_offsets [%d,%d] end before they begin", e.begin, e.end)
	}
	n, ok := elements(e.shape)
	if !ok {
		return fail("shape %v has more than 2^64 elements", e.shape)
	}
	hi, size := bits.Mul64(n, e.dtype.Bits())
	if hi != 0 {
		return fail("shape %v of %s has more than 2^64 bits", e.shape, e.dtype)
	}
	if size%8 != 0 {
		return fail("shape %v of %s does not fill whole bytes", e.shape, e.dtype)
	}
	if size/8 != e.end-e.begin {
		return fail("shape %v of %s needs %d bytes, data_offsets [%d,%d] hold %d", e.shape, e.dtype, size/8, e.begin, e.end, e.end-e.begin)
	}
	return nil
}

// checkTiling sorts the tensors by their place and checks that they fill size bytes without holes or overlaps.
func (h *header) checkTiling(size uint64) error {
	slices.SortFunc(h.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	var end uint64
	for i := range h.entries {
		e := &h.entries[i]
		if e.begin != end {
			what := "leaves a hole behind"
			if e.begin < end {
				what = "overlaps"
			}
			return fmt.Errorf("%w: tensor %q: data_offsets [%d,%d]: the tensor %s the one that ends at %d (byte %d)",
				ErrFormat, e.name, e.begin, e.end, what, end, e.at)
		}
		end = e.end
	}
	switch {
	case end > size:
		i := slices.IndexFunc(h.entries, func(e entry) bool { return e.end > size })
		return fmt.Errorf("%w: %d bytes of %d are missing, from tensor %q on", ErrTruncated, end-size, h.data+end, h.entries[i].name)
	case end < size:
		return fmt.Errorf("%w: %d bytes follow the last tensor (byte %d)", ErrFormat, size-end, h.data+end)
	}
	return nil
}
