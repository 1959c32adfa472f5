package mmap

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"unsafe"
)

// FaultError is bytes of a mapping that could not be read: the file was cut after it had been mapped, or the disk or network it is on fails.
type FaultError struct {
	Path   string
	Offset int64 // of the first of them, in the file, in bytes
	had    int64 // bytes of the file when it was mapped
	has    int64 // and now; had where that is not known
}

func (e *FaultError) Error() string {
	const hint = "\nhint: copy or convert it again, and change it no more while a command reads it"
	if e.has <= e.Offset {
		return fmt.Sprintf("%s: the file changed while it was read: it has %d bytes, it had %d%s", e.Path, e.has, e.had, hint)
	}
	return fmt.Sprintf("%s: the file changed while it was read, or its disk fails: byte %d could not be read%s", e.Path, e.Offset, hint)
}

// Guard calls f and returns its error, or a *FaultError if f reads bytes of a mapping that are no longer there. Other panics pass.
//
// Only faults of the calling goroutine, and of those whose panics are raised again in it (the loops of package par), become errors. A goroutine or
// coroutine that f starts needs a Guard of its own.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			fault := faultOf(v)
			if fault == nil {
				panic(v)
			}
			err = fault
		}
	}()
	return f()
}

// faultOf is the fault behind a panic; nil if there is none in a mapping.
func faultOf(v any) *FaultError {
	// See debug.SetPanicOnFault.
	fault, ok := v.(interface{ Addr() uintptr })
	if !ok {
		return nil
	}
	return open.fault(fault.Addr())
}

// open is all mappings, to find the file that an address belongs to.
var open registry

type registry struct {
	mu   sync.Mutex
	list map[*Mapping]struct{}
}

func (r *registry) add(m *Mapping) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list == nil {
		r.list = map[*Mapping]struct{}{}
	}
	r.list[m] = struct{}{}
}

func (r *registry) remove(m *Mapping) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.list, m)
}

// fault describes a fault at an address; nil if no mapping has it.
func (r *registry) fault(addr uintptr) *FaultError {
	r.mu.Lock()
	defer r.mu.Unlock()
	for m := range r.list {
		start := uintptr(unsafe.Pointer(unsafe.SliceData(m.region)))
		if addr < start || addr-start >= uintptr(len(m.region)) {
			continue
		}
		e := &FaultError{Path: m.path, Offset: m.offset + int64(addr-start), had: m.size, has: m.size}
		if st, err := os.Stat(m.path); err == nil {
			e.has = st.Size()
		}
		return e
	}
	return nil
}
