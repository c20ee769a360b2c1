//go:build unix

package demo

import (
	"os"
	"syscall"
)

// lockFile takes a lock that ends with the process. The child does not inherit
// it: files are closed on exec.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
