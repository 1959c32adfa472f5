package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/windows"
)

// ErrLocked means that another open file holds the lock.
var ErrLocked = errors.New("file is locked by another process")

// The lock is one byte far behind any data: on Windows locked bytes cannot be read by others.
const lockLow, lockHigh = 0, 0x7fffffff

// TryLock takes the exclusive lock of an open file until it is closed. It returns ErrLocked when another holder has it.
func TryLock(f *os.File) error {
	err := lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// Lock is TryLock, but waits for another holder.
func Lock(f *os.File) error { return lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// RLock takes the shared lock of an open file until it is closed; it waits for a holder of the exclusive one.
func RLock(f *os.File) error { return lock(f, 0) }

func lock(f *os.File, flags uint32) error {
	at := &windows.Overlapped{Offset: lockLow, OffsetHigh: lockHigh}
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, at)
}

// alive reports whether a process with this number exists.
func alive(pid string) bool {
	n, err := strconv.ParseUint(pid, 10, 32)
	if err != nil {
		return false
	}
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(n))
	if err != nil {
		return errors.Is(err, windows.ERROR_ACCESS_DENIED)
	}
	windows.CloseHandle(h)
	return true
}

// keepOwner keeps the read-only attribute, the one part of a mode that Windows has.
func keepOwner(f *os.File, old fs.FileInfo) error { return f.Chmod(old.Mode().Perm()) }

// closedToRename says whether only closed files can be renamed.
const closedToRename = true

// owned is true: who may write a folder may remove what it has made there.
func owned(fs.FileInfo) bool { return true }

// writable tells why no file can be made in a folder: here only that there is none.
func writable(dir string) error {
	_, err := os.Stat(dir)
	return err
}

// SyncDir does nothing: Windows cannot sync a folder.
func SyncDir(string) error { return nil }

func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

func isTooLarge(err error) bool { return errors.Is(err, windows.ERROR_FILE_TOO_LARGE) }

// ReadOnly reports whether an error says that a file or folder may not be written.
func ReadOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, windows.ERROR_WRITE_PROTECT)
}

// TooManyOpen reports whether an error says that the process may open no more files at a time.
func TooManyOpen(err error) bool { return errors.Is(err, windows.ERROR_TOO_MANY_OPEN_FILES) }

// available is the number of bytes that this user may still write to the disk of dir.
func available(dir string) (uint64, bool) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return 0, false
	}
	return free, true
}
