package eval

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/internal/kernel"
)

// BaseForm is a layout of base files: what a model predicted over a text, to compare others with. All numbers are little-endian.
type BaseForm int

// Forms. Small has for each scored token the log-probabilities of the most likely tokens and of the one that follows, what the other tokens have together, and a
// sample of those: some 100 times smaller than Llama, which is llama-perplexity's --kl-divergence-base: every log-probability in 16 bits.
const (
	Small BaseForm = iota
	Llama
)

const (
	llamaMagic = "_logits_"
	smallMagic = "ggufbase"
	// smallVersion is increased when the layout changes.
	smallVersion = 1
)

// smallEntries is how many tokens a row of a small file lists: the most likely ones and, about an eighth, samples. An entry has 8 bytes where a full row
// has 2 for every token.
func smallEntries(vocab int) (top, samples int) {
	n := min(max(vocab/400, 32), 1024)
	return min(n-n/8, vocab), n / 8
}

// baseHeader describes a base file.
type baseHeader struct {
	form    BaseForm
	windows Windows // the stride is 0; Llama does not tell the BOS
	vocab   int
	chunks  int
	top     int // entries of a row, and those of a sample; Small only
	samples int
	ids     []int32
}

// rowBytes is the length of a row.
func (h *baseHeader) rowBytes() int {
	if h.form == Llama {
		return 2 * (4 + (h.vocab+1)/2*2)
	}
	return 8 + 8*(h.top+h.samples)
}

// rows is the number of rows.
func (h *baseHeader) rows() int { return h.chunks * (h.windows.Context - h.windows.Context/2 - 1) }

// BaseFile is an open base file.
type BaseFile struct {
	Form BaseForm
	// Windows the text was cut into. Set BOS for a file of the form Llama, which does not tell.
	Windows Windows
	IDs     []int32 // the text: whole windows
	Vocab   int     // tokens of the vocabulary

	path   string
	file   *os.File
	in     *bufio.Reader
	header baseHeader
}

// OpenBase opens a base file of either form. It fails unless the file is as long as its header says.
func OpenBase(path string) (*BaseFile, error) {
	// Opening a pipe would wait for someone to write to it.
	if st, err := os.Stat(path); err == nil && !st.IsDir() && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: no base file: not a regular file\nhint: copy what it gives into a file first", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b := &BaseFile{path: path, file: f, in: bufio.NewReaderSize(f, 1<<16)}
	if err := b.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return b, nil
}

// Close closes the file.
func (b *BaseFile) Close() error { return b.file.Close() }

// hintBase is how to come by a base file.
const hintBase = "make one with compare --save-base, or with llama-perplexity --kl-divergence-base"

func (b *BaseFile) open() error {
	info, err := b.file.Stat()
	if err != nil {
		return err
	}
	h := &b.header
	var magic [8]byte
	if _, err := io.ReadFull(b.in, magic[:]); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("no base file: it has %d bytes\nhint: %s", info.Size(), hintBase)
		}
		return err
	}
	length := int64(len(magic))
	switch string(magic[:]) {
	case llamaMagic:
		h.form = Llama
		f, err := b.fields(3, &length)
		if err != nil {
			return err
		}
		h.windows, h.vocab, h.chunks = Windows{Context: int(f[0]), BOS: -1}, int(f[1]), int(f[2])
	case smallMagic:
		f, err := b.fields(7, &length)
		if err != nil {
			return err
		}
		if f[0] != smallVersion {
			return fmt.Errorf("a base file of version %d, this program reads %d\nhint: make it again with compare --save-base", f[0], smallVersion)
		}
		h.windows, h.vocab, h.chunks = Windows{Context: int(f[1]), BOS: f[4]}, int(f[2]), int(f[3])
		h.top, h.samples = int(f[5]), int(f[6])
	default:
		return fmt.Errorf("no base file: it starts with %q\nhint: %s", magic, hintBase)
	}
	if err := h.check(); err != nil {
		return err
	}
	tokens := int64(h.windows.Context) * int64(h.chunks)
	if want := length + 4*tokens + int64(h.rows())*int64(h.rowBytes()); info.Mode().IsRegular() && info.Size() != want {
		return fmt.Errorf("%d bytes, the header promises %d\nhint: the program that wrote it did not finish; make it again", info.Size(), want)
	}
	if h.ids, err = readIDs(b.in, tokens); err != nil {
		return fmt.Errorf("the text at byte %d: %w", length, err)
	}
	for i, id := range h.ids {
		if id < 0 || int(id) >= h.vocab {
			return fmt.Errorf("token %d of the text, at byte %d, is %d, the vocabulary has 0 to %d", i, length+4*int64(i), id, h.vocab-1)
		}
	}
	h.windows.Chunks = h.chunks
	b.Form, b.Windows, b.IDs, b.Vocab = h.form, h.windows, h.ids, h.vocab
	return nil
}

// readIDs reads n ids. Of a pipe nobody knows how long it is: memory is taken for what comes.
func readIDs(r io.Reader, n int64) ([]int32, error) {
	var ids []int32
	piece := make([]int32, 1<<14)
	for left := n; left > 0; left -= int64(len(piece)) {
		piece = piece[:min(int64(len(piece)), left)]
		if err := binary.Read(r, binary.LittleEndian, piece); err != nil {
			return nil, err
		}
		ids = append(ids, piece...)
	}
	return ids, nil
}

// fields reads numbers of the header.
func (b *BaseFile) fields(n int, length *int64) ([]int32, error) {
	f := make([]int32, n)
	if err := binary.Read(b.in, binary.LittleEndian, f); err != nil {
		return nil, fmt.Errorf("the header at byte %d: %w", *length, err)
	}
	*length += int64(4 * n)
	return f, nil
}

// maxSamples bounds the sample of a row.
const maxSamples = 1 << 16

// maxBaseTokens bounds the text of a base file.
const maxBaseTokens = 1 << 30

// check bounds what a header says.
func (h *baseHeader) check() error {
	switch {
	case h.windows.Context < LeastWindow || h.windows.Context > arch.MaxContext:
		return fmt.Errorf("windows of %d tokens, expected %d to %d", h.windows.Context, LeastWindow, arch.MaxContext)
	case h.vocab < 1 || h.vocab > arch.MaxVocab:
		return fmt.Errorf("a vocabulary of %d tokens, expected 1 to %d", h.vocab, arch.MaxVocab)
	case h.chunks < 1 || h.chunks > maxBaseTokens/h.windows.Context:
		return fmt.Errorf("%d windows of %d tokens, expected 1 to %d tokens in all", h.chunks, h.windows.Context, maxBaseTokens)
	case h.windows.BOS < -1 || int(h.windows.BOS) >= h.vocab:
		return fmt.Errorf("the windows start with token %d, the vocabulary has 0 to %d", h.windows.BOS, h.vocab-1)
	case h.form == Small && (h.top < 1 || h.top > h.vocab || h.samples < 0 || h.samples > maxSamples):
		return fmt.Errorf("rows of %d tokens and %d samples, expected 1 to the vocabulary's %d and at most %d", h.top, h.samples, h.vocab, maxSamples)
	}
	return nil
}

// rowsAtOnce is how many rows of a base file are compared together.
const rowsAtOnce = 32

// distributions reads the rows in order, several at a time. They are valid until the next ones are asked for.
func (b *BaseFile) distributions() iter.Seq2[[]baseRow, error] {
	h := &b.header
	return func(yield func([]baseRow, error) bool) {
		data := make([]byte, h.rowBytes())
		decoders := make([]func([]byte) (baseRow, error), min(rowsAtOnce, h.rows()))
		for i := range decoders {
			decoders[i] = h.decoder()
		}
		rows := make([]baseRow, 0, len(decoders))
		for i := range h.rows() {
			_, err := io.ReadFull(b.in, data)
			var row baseRow
			if err == nil {
				row, err = decoders[len(rows)](data)
			}
			if err != nil {
				if len(rows) == 0 || yield(rows, nil) {
					yield(nil, fmt.Errorf("%s: row %d: %w", b.path, i, err))
				}
				return
			}
			if rows = append(rows, row); len(rows) == cap(rows) || i == h.rows()-1 {
				if !yield(rows, nil) {
					return
				}
				rows = rows[:0]
			}
		}
	}
}

// decoder makes a function that decodes rows, each into the place of the one before.
func (h *baseHeader) decoder() func([]byte) (baseRow, error) {
	if h.form == Llama {
		return h.llamaDecoder()
	}
	return h.smallDecoder()
}

func (h *baseHeader) llamaDecoder() func([]byte) (baseRow, error) {
	r := llamaRow{levels: make([]uint16, h.vocab)}
	return func(data []byte) (baseRow, error) {
		r.step, r.least = float(data), float(data[4:])
		if r.step < 0 || !finite(r.step) || !finite(r.least) {
			return nil, fmt.Errorf("log-probabilities from %v in steps of %v", r.least, r.step)
		}
		for i := range r.levels {
			r.levels[i] = binary.LittleEndian.Uint16(data[8+2*i:])
		}
		return r, nil
	}
}

func (h *baseHeader) smallDecoder() func([]byte) (baseRow, error) {
	entries := make([]likely, h.top+h.samples)
	r := smallRow{top: entries[:h.top], samples: entries[h.top:]}
	return func(data []byte) (baseRow, error) {
		r.next, r.tail = float(data), float(data[4:])
		if !(r.next <= 0) || !(r.tail >= 0 && r.tail <= 1) {
			return nil, fmt.Errorf("log-probability %v, tail %v", r.next, r.tail)
		}
		for i := range entries {
			entry := data[8+8*i:]
			id := binary.LittleEndian.Uint32(entry)
			if id >= uint32(h.vocab) {
				return nil, fmt.Errorf("token %d, the vocabulary has 0 to %d", id, h.vocab-1)
			}
			entries[i] = likely{int32(id), float(entry[4:])}
			if !(entries[i].log <= 0) {
				return nil, fmt.Errorf("token %d has log-probability %v", id, entries[i].log)
			}
		}
		return r, nil
	}
}

func float(data []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(data)) }

func finite(x float32) bool { return x-x == 0 }

// BaseWriter writes a base file.
type BaseWriter struct {
	out    *bufio.Writer
	header baseHeader
	rows   int
	data   []byte
	order  []int32 // scratch
	rest   []float32
}

// NewBaseWriter starts a base file for a text cut into windows (of stride 0) and writes its header. vocab is the number of tokens of the vocabulary.
func NewBaseWriter(w io.Writer, form BaseForm, ids []int32, o Windows, vocab int) (*BaseWriter, error) {
	if o.Stride != 0 {
		return nil, errors.New("a base file holds windows side by side, without a stride")
	}
	list, err := o.cut(len(ids), o.Context)
	if err != nil {
		return nil, err
	}
	b := &BaseWriter{out: bufio.NewWriterSize(w, 1<<16), header: baseHeader{
		form: form, windows: o, vocab: vocab, chunks: len(list), ids: ids[:len(list)*o.Context],
	}}
	h := &b.header
	if form == Small {
		h.top, h.samples = smallEntries(vocab)
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	if form == Llama {
		b.out.WriteString(llamaMagic)
		binary.Write(b.out, binary.LittleEndian, []int32{int32(o.Context), int32(vocab), int32(h.chunks)})
	} else {
		b.out.WriteString(smallMagic)
		binary.Write(b.out, binary.LittleEndian, []int32{smallVersion, int32(o.Context), int32(vocab), int32(h.chunks), o.BOS, int32(h.top), int32(h.samples)})
	}
	return b, binary.Write(b.out, binary.LittleEndian, h.ids) // a buffered writer keeps its first error
}

// add writes the row of a scored token.
func (b *BaseWriter) add(r logitRow, next int32) error {
	b.rows++
	b.data = b.data[:0]
	if b.header.form == Llama {
		b.llama(r.logits)
	} else {
		b.small(r, next)
	}
	_, err := b.out.Write(b.data)
	return err
}

// Close writes out what is buffered. It fails unless every row was written.
func (b *BaseWriter) Close() error {
	if want := b.header.rows(); b.rows != want {
		return fmt.Errorf("%d of %d rows of the base file were written", b.rows, want)
	}
	return b.out.Flush()
}

// llama appends a row of the form Llama: the 16 nats below the top in steps of a 65535th, whatever is below at its lower end.
func (b *BaseWriter) llama(logits []float32) {
	top, least := slices.Max(logits), slices.Min(logits)
	least = max(least, top+llamaFloor)
	step := (top - least) / 65535
	b.float(step)
	b.float(least - top - logSum(logits, top))
	inverse := float32(0)
	if step > 0 {
		inverse = 1 / step
	}
	for _, l := range logits {
		level := math.RoundToEven(float64(float32(inverse * (max(l, least) - least))))
		b.data = binary.LittleEndian.AppendUint16(b.data, uint16(level))
	}
	for len(b.data) < b.header.rowBytes() {
		b.data = append(b.data, 0)
	}
}

// small appends a row of the form Small.
func (b *BaseWriter) small(r logitRow, next int32) {
	logits, total := r.logits, r.total
	b.order = kernel.TopK(b.order[:0], logits, b.header.top)
	for id := 0; len(b.order) < b.header.top; id++ { // impossible tokens are listed only where no others are left
		if math.IsInf(float64(logits[id]), -1) {
			b.order = append(b.order, int32(id))
		}
	}
	b.rest = append(b.rest[:0], logits...)
	for _, id := range b.order {
		b.rest[id] = float32(math.Inf(-1))
	}
	tail := kernel.LogSumExp(b.rest) - total
	b.float(float32(min(float64(logits[next])-total, 0)))
	b.float(float32(math.Exp(min(tail, 0))))
	entry := func(id int32, log float64) {
		b.data = binary.LittleEndian.AppendUint32(b.data, uint32(id))
		b.float(float32(min(log, 0)))
	}
	for _, id := range b.order {
		entry(id, float64(logits[id])-total)
	}
	for _, id := range b.sample() {
		entry(id, float64(logits[id])-total)
	}
}

// sample draws tokens by the logits b.rest, at equal distances of probability from a start that depends on the row alone: the same model gives the same
// file. Without a tail nobody looks at it.
func (b *BaseWriter) sample() []int32 {
	n := b.header.samples
	out := make([]int32, 0, n)
	if kernel.ArgMax(b.rest) >= 0 {
		kernel.Softmax(b.rest, 1)
		start, sum := rand.New(rand.NewPCG(1, uint64(b.rows))).Float64(), 0.0
		for id, p := range b.rest {
			for sum += float64(p); len(out) < n && sum*float64(n) > float64(len(out))+start; {
				out = append(out, int32(id))
			}
		}
	}
	last := int32(0)
	if len(out) > 0 {
		last = out[len(out)-1]
	}
	for len(out) < n { // the sum may stay below 1 by rounding
		out = append(out, last)
	}
	return out
}

func (b *BaseWriter) float(x float32) {
	b.data = binary.LittleEndian.AppendUint32(b.data, math.Float32bits(x))
}
