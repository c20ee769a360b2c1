//go:build unix

package sendonce

import (
	"errors"
	"io"
	"syscall"
)

// there reads what has come, without waiting.
func (w *wire) there(b []byte) (int, error) {
	if w.raw == nil {
		return 0, errNothing
	}
	w.into = b
	err := w.raw.Read(w.visit)
	w.into = nil
	switch {
	case err != nil:
		return 0, err
	case errors.Is(w.err, syscall.EAGAIN):
		return 0, errNothing
	case w.err != nil:
		return 0, w.err
	case w.n == 0:
		return 0, io.EOF
	}
	return w.n, nil
}

// tryRead reads once: sockets of package net do not block.
func (w *wire) tryRead(fd uintptr) bool {
	for {
		w.n, w.err = syscall.Read(int(fd), w.into)
		if !errors.Is(w.err, syscall.EINTR) {
			return true
		}
	}
}
