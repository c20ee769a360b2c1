package sendonce

import (
	"net"
	"syscall"
)

// wire is the connection below TLS. It counts the writes that may have put something out:
// a call of the system that fails has put out nothing, unless it says how much.
type wire struct {
	net.Conn

	taken int64
	idle  bool // nobody waits for anything: Read takes what is there

	// Of reading without waiting. raw is nil when the connection has no descriptor.
	raw   syscall.RawConn
	visit func(fd uintptr) bool // tryRead, made once
	into  []byte
	n     int
	err   error
}

func newWire(raw net.Conn) *wire {
	w := &wire{Conn: raw}
	if s, ok := raw.(syscall.Conn); ok {
		if rc, err := s.SyscallConn(); err == nil {
			w.raw, w.visit = rc, w.tryRead
		}
	}
	return w
}

// Write implements [io.Writer].
func (w *wire) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	if n > 0 || err == nil {
		w.taken++
	}
	return n, err
}

// Read implements [io.Reader].
func (w *wire) Read(b []byte) (int, error) {
	if w.idle {
		return w.there(b)
	}
	return w.Conn.Read(b)
}

// errNothing says that nothing is there to be read.
var errNothing error = new(nothing)

// nothing is the type of errNothing. It is temporary, so that TLS goes on later.
type nothing struct{}

// Error implements error.
func (*nothing) Error() string { return "sendonce: nothing is there" }

// Timeout implements [net.Error].
func (*nothing) Timeout() bool { return true }

// Temporary implements [net.Error].
func (*nothing) Temporary() bool { return true }
