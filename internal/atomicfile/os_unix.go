//go:build unix

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrLocked means that another open file description holds the lock.
var ErrLocked = errors.New("file is locked by another process")

// TryLock takes the advisory exclusive lock of an open file until it is closed. It returns ErrLocked when another
// holder has it, and another error where the file system has no locks.
func TryLock(f *os.File) error {
	err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// Lock is TryLock, but waits for another holder.
func Lock(f *os.File) error { return flock(f, unix.LOCK_EX) }

// RLock takes the advisory shared lock of an open file until it is closed; it waits for a holder of the exclusive one.
func RLock(f *os.File) error { return flock(f, unix.LOCK_SH) }

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// alive reports whether a process with this number exists.
func alive(pid string) bool {
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 {
		return false
	}
	return !errors.Is(unix.Kill(n, 0), unix.ESRCH)
}

// keepOwner gives a new file the mode of the one it replaces, and its owner where that is allowed.
func keepOwner(f *os.File, old fs.FileInfo) error {
	if st, ok := old.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid()) {
		// Only root may give files away; for others the file becomes theirs, as any new file does.
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
	return f.Chmod(old.Mode().Perm())
}

// closedToRename says whether only closed files can be renamed.
const closedToRename = false

// owned reports whether this user may remove a file from every folder that it may write, also one where each removes only its own (mode 1777).
func owned(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && (os.Geteuid() == 0 || int(sys.Uid) == os.Geteuid())
}

// writable tells why no file can be made in a folder, as far as its rights say.
func writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }

// SyncDir makes a rename in the folder last through a power cut. The rename is done, so what cannot be synced is forgiven: folders that this user may
// write but not read, and file systems that sync no folders.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	for _, refused := range []error{unix.EINVAL, unix.ENOTSUP, unix.ENOSYS, unix.EBADF, unix.EROFS} {
		if errors.Is(err, refused) {
			return nil
		}
	}
	return err
}

func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

func isTooLarge(err error) bool { return errors.Is(err, unix.EFBIG) }

// ReadOnly reports whether an error says that a file or folder may not be written.
func ReadOnly(err error) bool { return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) }

// TooManyOpen reports whether an error says that the process, or the system, may open no more files at a time.
func TooManyOpen(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// available is the number of bytes that this user may still write to the disk of dir.
func available(dir string) (uint64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return uint64(st.Bavail) * uint64(st.Bsize), true
}
