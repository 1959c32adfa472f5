package quantize

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/mix"
)

// childEnv names the folder in which the test program acts as a quantizer instead of running tests.
const childEnv = "GGUFKIT_TEST_QUANTIZE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(dir string) error {
	f, err := gguf.Open(filepath.Join(dir, "in.gguf"))
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := mix.Parse("Q8_0")
	if err != nil {
		return err
	}
	p, err := NewPlan(f, Options{Recipe: r})
	if err != nil {
		return err
	}
	_, err = p.Run(context.Background(), filepath.Join(dir, "out.gguf"), RunOptions{Threads: 4})
	return err
}

// A stack of experts of 512 MiB is quantized in less than 64 MiB, program and buffers included (field report R030).
func TestMemoryIsBounded(t *testing.T) {
	const peak = 64 << 20
	dir := t.TempDir()
	in := filepath.Join(dir, "in.gguf")
	x := gguf.Tensor{Name: "blk.0.ffn_up_exps.weight", Type: gguf.F32, Shape: []uint64{4096, 1024, 32}}
	writeSparse(t, in, x)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("no resource usage")
	}
	if got := usage.Maxrss << 10; got > peak {
		t.Errorf("peak memory %d MiB, want less than %d", got>>20, peak>>20)
	}
	if _, err := os.Stat(filepath.Join(dir, "out.gguf")); err != nil {
		t.Error(err)
	}
}
