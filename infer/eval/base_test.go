package eval

import (
	"bytes"
	"runtime"
	"testing"
)

// A header that promises more than a pipe holds takes no memory for what does not come.
func TestReadIDsOfLittle(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := readIDs(bytes.NewReader(make([]byte, 1<<20)), maxBaseTokens); err == nil {
		t.Error("no error")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
	ids, err := readIDs(bytes.NewReader(bytes.Repeat([]byte{1, 0, 0, 0}, 40000)), 40000)
	if err != nil || len(ids) != 40000 || ids[39999] != 1 {
		t.Errorf("%d ids: %v", len(ids), err)
	}
}
