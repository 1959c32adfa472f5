package mmap

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// granularity is what offsets of mappings must be multiples of, in bytes: the allocation granularity, not the page.
func granularity() int64 { return 64 << 10 }

func (m *Mapping) mapRegion(f *os.File, off int64, n int, private bool) error {
	protect, access := uint32(windows.PAGE_READONLY), uint32(windows.FILE_MAP_READ)
	if private {
		protect, access = windows.PAGE_WRITECOPY, windows.FILE_MAP_COPY
	}
	h, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, protect, 0, 0, nil)
	if err != nil {
		return os.NewSyscallError("CreateFileMapping", err)
	}
	// The view keeps the mapping object alive; its handle is not needed any more.
	defer windows.CloseHandle(h)
	addr, err := windows.MapViewOfFile(h, access, uint32(uint64(off)>>32), uint32(off), uintptr(n))
	if err != nil {
		return os.NewSyscallError("MapViewOfFile", err)
	}
	// The address is not Go memory, so the conversion that vet asks about is safe.
	m.region = unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
	return nil
}

func (m *Mapping) unmap() error {
	return os.NewSyscallError("UnmapViewOfFile", windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(m.region)))))
}

// advise does nothing: Windows manages the pages of a view by itself.
func (m *Mapping) advise(first, last int, a Advice) error { return nil }

// mapHint says what to do about a failure to map; it starts a new line, or is empty.
func mapHint(err error) string {
	if errors.Is(err, windows.ERROR_NOT_ENOUGH_MEMORY) {
		return "\nhint: the address space or the page file is used up"
	}
	return ""
}
