//go:build unix

package sendonce

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// seen dials, and lets a test wait until something has come.
type seen struct {
	mu   sync.Mutex
	last syscall.Conn
}

func (s *seen) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, _ = c.(syscall.Conn)
	return c, nil
}

// come waits until there is something to read on the last connection, and leaves it there.
func (s *seen) come(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	raw, err := last.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return err != syscall.EAGAIN && err != syscall.EINTR
	}); err != nil {
		t.Fatal(err)
	}
}

// TestLook: a kept connection that the other side has closed is not written to, nor is one
// on which something came that nobody asked for.
func TestLook(t *testing.T) {
	for name, act := range map[string]func(net.Conn){
		"closed":      func(c net.Conn) { _ = c.Close() }, // as the test says
		"half closed": func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() },
		"an answer":   func(c net.Conn) { sayf(c, stray) },
		"a byte":      func(c net.Conn) { sayf(c, "\n") },
		"a farewell": func(c net.Conn) {
			sayf(c, "HTTP/1.1 408 Too Late\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			_ = c.Close() // as the test says
		},
		"reset": func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0) // or it is closed
			_ = c.Close()                     // as the test says
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			go1, arrived := make(chan struct{}), make(chan string, 10)
			s := serve(t, func(n int, c net.Conn, r *bufio.Reader) {
				for i := 0; ; i++ {
					req, body, err := readRequest(r)
					if err != nil {
						return
					}
					arrived <- req.URL.Path
					own(c, req, body)
					if n == 1 {
						<-go1
						act(c)
						hold(r)
					}
				}
			})
			see := &seen{}
			tr := newTransport(t, Config{Dial: see.dial})
			tr.asks(t, s, "/1", "b")
			close(go1)
			see.come(t)
			r := request(t, "POST", s.url("/2"), "b")
			r.GetBody = nil // the body was not touched
			if _, got, err := tr.get(t.Context(), r, false); got != "/2 b" || err != nil {
				t.Error(got, err)
			}
			if s.dialed() != 2 || len(arrived) != 2 {
				t.Errorf("%d requests over %d connections; want 2 over 2", len(arrived), s.dialed())
			}
		})
	}
}

// TestLookEveryConnection: all that are dead are passed over, and closed.
func TestLookEveryConnection(t *testing.T) {
	tr, s, _ := keepThree(t)
	s.mu.Lock()
	for _, c := range s.conns {
		sayf(c, stray)
	}
	s.mu.Unlock()
	tr.mu.Lock()
	for _, conns := range tr.idle {
		for _, c := range conns {
			bent, _ := c.wire.Conn.(*bent)
			fresh := newWire(bent.Conn) // with a descriptor again
			c.wire, c.Conn = fresh, fresh
			(&seen{last: bent.Conn.(*net.TCPConn)}).come(t)
		}
	}
	tr.mu.Unlock()
	tr.asks(t, s, "/again", "b")
	if s.dialed() != 4 || tr.idles() != 1 {
		t.Errorf("%d connections, %d idle; want 4, 1", s.dialed(), tr.idles())
	}
}

// bundle is a connection whose writes may be put out together.
type bundle struct {
	net.Conn
	held *bytes.Buffer // nil puts out at once
}

// Write implements [io.Writer].
func (b *bundle) Write(p []byte) (int, error) {
	if b.held != nil {
		return b.held.Write(p)
	}
	return b.Conn.Write(p)
}

// SetWriteDeadline sets none: crypto/tls ends writing so when it has said farewell.
func (*bundle) SetWriteDeadline(time.Time) error { return nil }

// TestLookIntoTLS: what TLS has taken in together with the answer is seen, too, and what
// belongs to TLS alone does no harm.
func TestLookIntoTLS(t *testing.T) {
	id := newIdentity(t)
	for _, c := range []struct {
		name  string
		after func(*tls.Conn)
		later bool // it is put out by itself
		conns int
	}{
		{"nothing", func(*tls.Conn) {}, false, 1},
		{"an answer", func(c *tls.Conn) { sayf(c, stray) }, false, 2},
		{"an answer, later", func(c *tls.Conn) { sayf(c, stray) }, true, 2},
		{"a farewell", func(c *tls.Conn) { _ = c.CloseWrite() }, false, 2},
		{"a farewell, later", func(c *tls.Conn) { _ = c.CloseWrite() }, true, 2},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			go1 := make(chan struct{})
			s := serve(t, func(n int, raw net.Conn, _ *bufio.Reader) {
				b := &bundle{Conn: raw}
				conn := tls.Server(b, id.server(version))
				r := bufio.NewReader(conn)
				for {
					req, body, err := readRequest(r)
					if err != nil {
						return
					}
					b.held = &bytes.Buffer{}
					own(conn, req, body)
					if n == 1 && !c.later {
						c.after(conn)
					}
					_, _ = raw.Write(b.held.Bytes()) // or the client complains
					b.held = nil
					if n == 1 && c.later {
						<-go1
						c.after(conn)
					}
				}
			})
			see := &seen{}
			tr := newTransport(t, Config{Dial: see.dial, TLS: id.client()})
			for i, path := range []string{"/1", "/2", "/3"} {
				r := request(t, "POST", "https://"+s.Addr().String()+path, "b")
				if _, got, err := tr.get(t.Context(), r, false); got != path+" b" || err != nil {
					t.Errorf("%s, %x: the answer to %s is %q, %v", c.name, version, path, got, err)
				}
				if i == 0 && c.later {
					close(go1)
					see.come(t)
				}
			}
			if s.dialed() != c.conns {
				t.Errorf("%s, %x: %d connections, want %d", c.name, version, s.dialed(), c.conns)
			}
		}
	}
}
