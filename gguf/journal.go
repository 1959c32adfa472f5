package gguf

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ggufkit/ggufkit/internal/atomicfile"
)

// An edit in place changes a few bytes of the header. Before it does, the old and the new bytes are written to a journal
// beside the file and synced. Whoever opens the file and finds a journal without a living editor brings back the old
// bytes, or, when all new ones are there already, just removes the journal.
//
// The journal is also what editors lock against each other; it is empty until an editor is about to write. An editor writes
// in place only while it holds the file's exclusive lock, and readers hold the shared one: so a reader never sees a file
// change, and a journal with contents that a reader finds belongs to an editor that died.
const journalSuffix = ".ggufkit-journal"

// journalMagic begins a journal.
const journalMagic = "GGUFKIT journal\x01"

// patch is a run of bytes that an edit changes; before and after have the same length.
type patch struct {
	at            uint64
	before, after []byte
}

// journal is what a journal file holds.
type journal struct {
	size    uint64   // of the edited file
	guarded uint64   // length of the region that guard covers, from the start of the file
	guard   [32]byte // SHA-256 of that region with the patched bytes taken as zeros
	patches []patch
}

// patchGap is how many equal bytes may lie inside a patch: as many as the bookkeeping of another patch takes.
const patchGap = 16

// diff lists where two regions of equal length differ.
func diff(before, after []byte) []patch {
	var out []patch
	last := -patchGap - 1 // the last byte that differed
	for i := range before {
		if before[i] == after[i] {
			continue
		}
		if i-last > patchGap {
			out = append(out, patch{at: uint64(i)})
		}
		p := &out[len(out)-1]
		p.before, p.after = before[p.at:i+1], after[p.at:i+1]
		last = i
	}
	return out
}

// guardOf is the checksum of a region with the patched bytes taken as zeros: it tells whether a journal belongs to a file.
func guardOf(region []byte, patches []patch) [32]byte {
	region = bytes.Clone(region)
	for _, p := range patches {
		clear(region[p.at:][:len(p.before)])
	}
	return sha256.Sum256(region)
}

// encode is the journal as bytes: magic, sizes, guard, patches, and the SHA-256 of all that.
func (j *journal) encode() []byte {
	le := binary.LittleEndian
	b := []byte(journalMagic)
	b = le.AppendUint64(b, j.size)
	b = le.AppendUint64(b, j.guarded)
	b = append(b, j.guard[:]...)
	b = le.AppendUint64(b, uint64(len(j.patches)))
	for _, p := range j.patches {
		b = le.AppendUint64(b, p.at)
		b = le.AppendUint64(b, uint64(len(p.before)))
		b = append(append(b, p.before...), p.after...)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decodeJournal reads a journal; false when it was not written to its end.
func decodeJournal(b []byte) (*journal, bool) {
	body := b[:max(0, len(b)-sha256.Size)]
	sum := sha256.Sum256(body)
	if !bytes.HasPrefix(b, []byte(journalMagic)) || !bytes.Equal(sum[:], b[len(body):]) {
		return nil, false
	}
	d := &decoder{buf: body, pos: len(journalMagic), size: uint64(len(body)), enc: current}
	j := &journal{}
	var err error
	number := func() (n uint64) {
		if err == nil {
			n, err = d.bits(8)
		}
		return n
	}
	take := func(n uint64) []byte {
		if err == nil {
			err = d.need(n)
		}
		if err != nil {
			return nil
		}
		d.pos += int(n)
		return body[d.pos-int(n) : d.pos]
	}
	j.size, j.guarded = number(), number()
	copy(j.guard[:], take(sha256.Size))
	for n := number(); n > 0 && err == nil; n-- {
		p := patch{at: number()}
		length := number()
		p.before, p.after = take(length), take(length)
		if p.at > j.guarded || length > j.guarded-p.at {
			return nil, false
		}
		j.patches = append(j.patches, p)
	}
	return j, err == nil
}

// journalPath is where the journal of a file lies whose links are resolved.
func journalPath(target string) string { return target + journalSuffix }

// openSettled opens a file for reading, under the shared lock, after an interrupted edit is undone.
func openSettled(path string) (*os.File, error) {
	target, err := atomicfile.Resolve(path)
	if err != nil {
		return nil, err
	}
	// Opening a pipe would wait for someone to write to it.
	if st, err := os.Stat(path); err != nil {
		return nil, unopened(path, err)
	} else if err := checkRegular(path, st); err != nil {
		return nil, err
	}
	const attempts = 10 // each failure but the last means that another process was edited and killed meanwhile
	for range attempts {
		f, err := os.Open(path)
		if err != nil {
			return nil, unopened(path, err)
		}
		// Where there are no locks there is no edit in place either.
		_ = atomicfile.RLock(f)
		st, err := os.Lstat(journalPath(target))
		if err != nil {
			return f, nil
		}
		if st.Size() == 0 && st.Mode().IsRegular() {
			removeIdle(journalPath(target))
			return f, nil
		}
		f.Close()
		if err := settle(target); err != nil {
			return nil, err
		}
	}
	return nil, &Error{Path: path, Offset: noOffset, Err: fmt.Errorf("%w: the file is being edited again and again", ErrJournal)}
}

// removeIdle deletes an empty journal that no editor holds. Failures are ignored: it says nothing about the file.
func removeIdle(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	if atomicfile.TryLock(f) == nil && atomicfile.IsAt(f, path) {
		os.Remove(path)
	}
}

// maxJournal is more than the largest journal: old and new bytes of a header, and the bookkeeping of each patch.
const maxJournal = 4 * MaxHeader

// checkJournal refuses what an edit cannot have left: a link, a pipe, a device, or more bytes than two headers.
func checkJournal(target string) error {
	st, err := os.Lstat(journalPath(target))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return errors.New("the journal beside it is not a regular file")
	case st.Size() > maxJournal:
		return fmt.Errorf("the journal beside it has %d bytes, more than an edit writes", st.Size())
	}
	return nil
}

func hintJournal(target string) string {
	return "delete " + journalPath(target) + ", which no edit has left"
}

// settle undoes (or finishes) an edit that was interrupted.
func settle(target string) error {
	fault := func(err error, hint string) error {
		return &Error{Path: target, Offset: noOffset, Err: fmt.Errorf("%w: %w", ErrJournal, err), Hint: hint}
	}
	if err := checkJournal(target); err != nil {
		return fault(err, hintJournal(target))
	}
	f, err := os.OpenFile(target, os.O_RDWR, 0)
	if err != nil {
		return fault(err, "open it once with a program and a user that may write it")
	}
	defer f.Close()
	if err := atomicfile.Lock(f); err != nil {
		return fault(err, "")
	}
	b, err := os.ReadFile(journalPath(target))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) == 0 {
		return nil // someone else was faster
	}
	if err != nil {
		return fault(err, "")
	}
	if j, ok := decodeJournal(b); ok {
		if err := j.undo(f); err != nil {
			return fault(err, "if the file was replaced since the edit, delete "+journalPath(target))
		}
	}
	// A journal that was not written to its end had no edit after it.
	if err := os.Remove(journalPath(target)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault(err, "")
	}
	return atomicfile.SyncDir(filepath.Dir(target))
}

// undo brings back the old bytes, unless all new ones are there.
func (j *journal) undo(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if uint64(st.Size()) != j.size || j.guarded > min(j.size, MaxHeader) {
		return errors.New("the journal beside it belongs to another file")
	}
	region := make([]byte, j.guarded)
	if _, err := f.ReadAt(region, 0); err != nil {
		return err
	}
	if guardOf(region, j.patches) != j.guard {
		return errors.New("the journal beside it belongs to another file")
	}
	finished := true
	for _, p := range j.patches {
		now := region[p.at:][:len(p.before)]
		for i, b := range now {
			if b != p.before[i] && b != p.after[i] {
				return errors.New("the journal beside it belongs to another file")
			}
		}
		finished = finished && bytes.Equal(now, p.after)
	}
	if !finished {
		for _, p := range j.patches {
			if _, err := f.WriteAt(p.before, int64(p.at)); err != nil {
				return err
			}
		}
	}
	return f.Sync()
}

// editLock is an editor's hold on a file: an empty journal that it has locked.
type editLock struct {
	f      *os.File
	target string
}

// lockEditor waits until no other process edits the file, and settles what a killed one left.
func lockEditor(target string) (*editLock, error) {
	fault := func(err error, hint string) error {
		return &Error{Path: target, Offset: noOffset, Err: err, Hint: hint}
	}
	for {
		if err := checkJournal(target); err != nil {
			return nil, fault(fmt.Errorf("%w: %w", ErrJournal, err), hintJournal(target))
		}
		f, err := os.OpenFile(journalPath(target), os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, fault(err, "an edit needs to write in the folder of the file; "+hintCopy)
		}
		// Without locks editors are not kept apart; each still leaves a whole file.
		_ = atomicfile.Lock(f)
		if !atomicfile.IsAt(f, journalPath(target)) {
			f.Close() // the one before has removed it
			continue
		}
		st, err := f.Stat()
		if err == nil && st.Size() == 0 {
			return &editLock{f, target}, nil
		}
		f.Close()
		if err == nil {
			err = settle(target)
		}
		if err != nil {
			return nil, err
		}
	}
}

// release lets other editors go on. The journal is removed if it is empty: one with contents is still needed.
func (l *editLock) release() {
	st, err := l.f.Stat()
	empty := err == nil && st.Size() == 0
	if empty && os.Remove(journalPath(l.target)) == nil {
		empty = false
	}
	l.f.Close()
	if empty {
		os.Remove(journalPath(l.target)) // Windows removes closed files only
	}
}

// clear empties the journal: the edit is done, or undone.
func (l *editLock) clear() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	return l.f.Sync()
}

// write makes the journal last. After an error there is none.
func (l *editLock) write(j *journal) error {
	b := j.encode()
	_, err := l.f.WriteAt(b, 0)
	if err == nil {
		err = l.f.Sync()
	}
	if err == nil {
		err = atomicfile.SyncDir(filepath.Dir(l.target))
	}
	if err != nil {
		return errors.Join(atomicfile.Full(err, l.f.Name(), uint64(len(b))), l.clear())
	}
	return nil
}
