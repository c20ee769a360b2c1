//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltkv

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	bolterrors "go.etcd.io/bbolt/errors"
)

// lockEvery is how long to wait between two tries to lock.
const lockEvery = 20 * time.Millisecond

// lockFile takes the file's lock as bbolt does, which then finds it taken by
// itself. It reports whether the lock is held.
func lockFile(ctx context.Context, f *os.File, timeout time.Duration) (locked bool, err error) {
	end := time.After(timeout)
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return false, err
		}
		select {
		case <-time.After(lockEvery):
		case <-end:
			return false, bolterrors.ErrTimeout
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// unlockFile gives the lock back, if the file is still open.
func unlockFile(f *os.File) {
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _ = syscall.Flock(int(fd), syscall.LOCK_UN) })
	}
}
