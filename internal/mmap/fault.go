package mmap

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"
)

// FaultError is bytes of a mapping that could not be read: the file was cut after it had been mapped, or the disk or network it is on fails.
type FaultError struct {
	Path   string
	Where  string // in the file, such as a tensor; "" where that is not known
	Offset int64  // of the first of them, in the file, in bytes
	had    int64  // bytes of the file when it was mapped
	has    int64  // and now; had where that is not known
}

func (e *FaultError) Error() string {
	const hint = "\nhint: copy or convert it again, and change it no more while a command reads it"
	place := e.Path + ": "
	if e.Where != "" {
		place += e.Where + ": "
	}
	if e.has <= e.Offset {
		return fmt.Sprintf("%sthe file changed while it was read: it has %d bytes, it had %d%s", place, e.has, e.had, hint)
	}
	return fmt.Sprintf("%sthe file changed while it was read, or its disk fails: byte %d could not be read%s", place, e.Offset, hint)
}

// Guard calls f and returns its error, or a *FaultError if f reads bytes of a mapping that are no longer there. Other panics pass.
//
// Only faults of the calling goroutine, and of those whose panics are raised again in it (the loops of package par), become errors. A goroutine or
// coroutine that f starts needs a Guard of its own.
func Guard(f func() error) (err error) {
	open.enter()
	defer open.leave()
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

// registry has the mappings that are open, and those closed since the outermost Guard began: deferred calls close them before the fault is looked at.
type registry struct {
	mu     sync.Mutex
	list   map[*Mapping]struct{}
	guards int
	closed []place
}

// place is where a mapping lies or lay.
type place struct {
	start, length uintptr
	path          string
	offset, size  int64 // of the region in the file, of the file
}

func (m *Mapping) place() place {
	return place{
		start: uintptr(unsafe.Pointer(unsafe.SliceData(m.region))), length: uintptr(len(m.region)), path: m.path, offset: m.offset, size: m.size,
	}
}

func (r *registry) enter() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.guards++
}

func (r *registry) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.guards--; r.guards == 0 {
		r.closed = nil
	}
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
	if r.guards > 0 {
		r.closed = append(r.closed, m.place())
	}
}

// fault describes a fault at an address; nil if no mapping has or had it.
func (r *registry) fault(addr uintptr) *FaultError {
	r.mu.Lock()
	defer r.mu.Unlock()
	for m := range r.list {
		if p := m.place(); addr-p.start < p.length {
			return p.fault(addr)
		}
	}
	for _, p := range slices.Backward(r.closed) {
		if addr-p.start < p.length {
			return p.fault(addr)
		}
	}
	return nil
}

func (p place) fault(addr uintptr) *FaultError {
	return Cut(p.path, p.offset+int64(addr-p.start), p.size)
}

// Cut describes bytes from an offset on that a file of a known size should have and does not give.
func Cut(path string, offset, size int64) *FaultError {
	e := &FaultError{Path: path, Offset: offset, had: size, has: size}
	if st, err := os.Stat(path); err == nil {
		e.has = st.Size()
	}
	return e
}
