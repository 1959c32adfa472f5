package gguf

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// interrupted gives the bytes before and after an edit in place, and the journal that it writes.
func interrupted(t *testing.T) (before, after []byte, j *journal) {
	t.Helper()
	m, tensors := model()
	before = writeBytes(t, m, tensors)
	after = edited(t, func(m *Meta) error {
		m.Set("llama.rope.freq_base", New(float32(1e6)))
		m.Set("general.name", New("A longer name of more characters than that"))
		return nil
	})
	region := readBytes(t, before).DataOffset
	patches := diff(before[:region], after[:region])
	if len(before) != len(after) || len(patches) < 2 {
		t.Fatalf("%d and %d bytes, %d patches", len(before), len(after), len(patches))
	}
	return before, after, &journal{size: uint64(len(before)), guarded: region, guard: guardOf(before[:region], patches), patches: patches}
}

// crash writes a file and a journal and opens the file; it gives the bytes that the file has then.
func crash(t *testing.T, file, journal []byte) ([]byte, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := errors.Join(os.WriteFile(path, file, 0o666), os.WriteFile(journalPath(path), journal, 0o666)); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		return readFile(t, path), err
	}
	f.Close()
	onlyFile(t, path)
	return readFile(t, path), nil
}

// Whatever part of an edit has reached the disk, the file has its old or its new bytes when it is opened.
func TestJournalUndoes(t *testing.T) {
	before, after, j := interrupted(t)
	written := j.encode()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		torn := bytes.Clone(before)
		for _, p := range j.patches {
			for i := range p.after {
				if rng.IntN(2) == 0 {
					torn[p.at+uint64(i)] = p.after[i]
				}
			}
		}
		want := before
		if bytes.Equal(torn, after) {
			want = after
		}
		if got, err := crash(t, torn, written); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v\n%x\nwant %x", err, got, want)
		}
	}
	if got, err := crash(t, before, written); err != nil || !bytes.Equal(got, before) {
		t.Error("nothing written:", err)
	}
	if got, err := crash(t, after, written); err != nil || !bytes.Equal(got, after) {
		t.Error("all written:", err)
	}
	// A journal that was cut off had no edit after it.
	for n := range written {
		if got, err := crash(t, before, written[:n]); err != nil || !bytes.Equal(got, before) {
			t.Fatalf("journal cut to %d bytes: %v", n, err)
		}
	}
}

// A journal that belongs to another file is not applied.
func TestJournalOfAnother(t *testing.T) {
	before, _, j := interrupted(t)
	for what, file := range map[string][]byte{
		"size":   append(bytes.Clone(before), 0),
		"header": bytes.Replace(before, []byte("llama"), []byte("qwen2"), 1),
	} {
		got, err := crash(t, file, j.encode())
		if !errors.Is(err, ErrJournal) || !strings.Contains(err.Error(), "hint: if the file was replaced") || !bytes.Equal(got, file) {
			t.Errorf("%s: %v", what, err)
		}
	}
	other := bytes.Clone(before)
	other[j.patches[0].at] ^= 0x55
	if got, err := crash(t, other, j.encode()); !errors.Is(err, ErrJournal) || !bytes.Equal(got, other) {
		t.Error(err)
	}
}

func TestJournalDecode(t *testing.T) {
	_, _, j := interrupted(t)
	b := j.encode()
	got, ok := decodeJournal(b)
	if !ok || !bytes.Equal(got.encode(), b) {
		t.Error("a journal does not read as it was written")
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if _, ok := decodeJournal(bad); ok {
			t.Errorf("byte %d changed, and the journal is taken for good", i)
		}
	}
}

func TestDiff(t *testing.T) {
	before := make([]byte, 100)
	after := bytes.Clone(before)
	for _, i := range []int{0, 3, 50, 67, 99} {
		after[i] = 1
	}
	var got []uint64
	for _, p := range diff(before, after) {
		got = append(got, p.at, uint64(len(p.after)))
	}
	want := []uint64{0, 4, 50, 1, 67, 1, 99, 1}
	if len(got) != len(want) {
		t.Fatal(got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatal(got)
		}
	}
}

// editEnv makes the test binary edit the file that it names, over and over.
const editEnv = "GGUFKIT_TEST_EDIT"

// states are what the killed editor gives the file in turn: the first two in place, the third by another file.
var states = []func(*Meta) error{
	setKey("general.name", New("a name of thirty-four characters..")),
	setKey("general.name", New("A longer name of more characters than that")),
	setKey("general.name", New(strings.Repeat("long", 30))),
}

func TestMain(m *testing.M) {
	if path := os.Getenv(editEnv); path != "" {
		os.Stdout.WriteString("x") // the parent may take aim now
		for i := 0; ; i++ {
			if _, err := Edit(path, "", states[i%len(states)]); err != nil {
				os.Stderr.WriteString(err.Error())
				os.Exit(1)
			}
		}
	}
	os.Exit(m.Run())
}

// An editor that is killed at any moment leaves a whole file, and the next one works.
func TestEditKilled(t *testing.T) {
	path, _ := modelFile(t)
	var want [][]byte
	for _, s := range states {
		want = append(want, edited(t, s))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), editEnv+"="+path)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := stdout.Read(make([]byte, 1)); err != nil {
			t.Fatal(err, stderr.String())
		}
		time.Sleep(rand.N(20 * time.Millisecond))
		cmd.Process.Kill()
		cmd.Wait()
		if stderr.Len() > 0 {
			t.Fatal(stderr.String())
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		got := readFile(t, path)
		if !bytes.Equal(got, want[0]) && !bytes.Equal(got, want[1]) && !bytes.Equal(got, want[2]) {
			t.Fatalf("the file is none of the three: %x", got)
		}
	}
	if _, err := Edit(path, "", states[2]); err != nil {
		t.Fatal(err)
	}
	if _, err := Edit(path, "", states[0]); err != nil || !bytes.Equal(readFile(t, path), want[0]) {
		t.Fatal(err)
	}
	onlyFile(t, path)
}
