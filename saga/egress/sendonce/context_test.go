package sendonce

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// TestContextEnds: wherever a request is when its context ends, the wait is over, the error
// says so, and the connection is closed.
func TestContextEnds(t *testing.T) {
	for _, c := range []struct {
		name, begin string // what the server says before the context ends
		size        int    // of the request's body
		reads       bool   // the server reads the request
	}{
		{"before the answer", "", 1, true},
		{"in the status", "HTTP/1.1 2", 1, true},
		{"in the header", "HTTP/1.1 200 OK\r\nA: b", 1, true},
		{"after it informed", "HTTP/1.1 103 Early\r\n\r\n", 1, true},
		{"in a long body", "", 8 << 20, false},
		{"in a long body, in the header", "HTTP/1.1 200 OK\r\nA: b", 8 << 20, false},
		{"in the answer", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 1, true},
		{"in the answer to a long body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 8 << 20, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			there, gone, end := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
			s := serve(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				if c.reads {
					if _, _, err := readRequest(r); err != nil {
						return
					}
				} else if _, err := r.ReadByte(); err != nil {
					return
				}
				sayf(conn, "%s", c.begin)
				there <- struct{}{}
				if !c.reads {
					<-end
				}
				hold(r)
				gone <- struct{}{}
			})
			t.Cleanup(func() { close(end) })
			tr := newTransport(t, Config{})
			ctx, cancel := context.WithCancel(t.Context())
			r := request(t, "POST", s.url("/"), strings.Repeat("b", c.size))
			if !strings.Contains(c.begin, "\r\n\r\nabc") {
				go func() {
					<-there
					cancel()
				}()
				// What the server has begun to say may have come by then, or not.
				if _, fate, err := tr.Send(ctx, r, false); !errors.Is(err, context.Canceled) ||
					fate != Sent && fate != Answered {
					t.Error(fate, err)
				}
			} else {
				resp, _, err := tr.Send(ctx, r, false)
				if err != nil {
					t.Fatal(err)
				}
				cancel()
				if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			cancel()
			if c.reads {
				wait(t, gone, "the end of the connection")
			}
			if tr.idles() != 0 {
				t.Error("the connection is kept")
			}
		})
	}
}

// TestContextHasEnded: nothing is sent then, and a kept connection is left alone.
func TestContextHasEnded(t *testing.T) {
	s := serve(t, echo)
	tr := newTransport(t, Config{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		tr.asks(t, s, "/own", "b")
		if err := tr.fails(ended, t, request(t, "POST", s.url("/"), "b"), NotSent); !errors.Is(err,
			context.Canceled) {
			t.Error(err)
		}
	}
	if s.dialed() != 1 {
		t.Errorf("%d connections", s.dialed())
	}
}

// TestContextEndsInDial: also when the connection stands by then.
func TestContextEndsInDial(t *testing.T) {
	got := make(chan int, 10)
	s := serve(t, func(_ int, _ net.Conn, r *bufio.Reader) {
		n, _ := io.Copy(io.Discard, r) // how it ends does not matter
		got <- int(n)
	})
	for _, stands := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		tr := newTransport(t, Config{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !stands {
				cancel()
				<-ctx.Done()
				return nil, errors.New("no connection")
			}
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			cancel()
			return c, err
		}})
		if err := tr.fails(ctx, t, request(t, "POST", s.url("/"), "b"), NotSent); !errors.Is(err,
			context.Canceled) {
			t.Error(err)
		}
		if stands && wait(t, got, "the end of the connection") != 0 {
			t.Error("something was sent")
		}
	}
}

// TestContextEndsInHandshake has a server that listens and says nothing.
func TestContextEndsInHandshake(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	s := serve(t, func(_ int, _ net.Conn, r *bufio.Reader) {
		_, _ = r.ReadByte() // the greeting
		cancel()
		hold(r)
		close(gone)
	})
	tr := newTransport(t, Config{})
	r := request(t, "POST", "https://"+s.Addr().String(), "b")
	if err := tr.fails(ctx, t, r, NotSent); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	wait(t, gone, "the end of the connection")
}

// TestContextEndsLater: that of one request has no say in the next one over its connection.
func TestContextEndsLater(t *testing.T) {
	s := serve(t, echo)
	tr := newTransport(t, Config{})
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		if _, got, err := tr.get(ctx, request(t, "POST", s.url("/1"), "b"), false); got != "/1 b" ||
			err != nil {
			t.Fatal(got, err)
		}
		cancel()
		tr.asks(t, s, "/2", "b")
	}
	if s.dialed() != 1 {
		t.Errorf("%d connections, want 1", s.dialed())
	}
}

// TestContextEndsBeforeTheEnd: of an answer that is there, but not read yet. Its connection is
// being closed, and must not be the next request's.
func TestContextEndsBeforeTheEnd(t *testing.T) {
	s := serve(t, echo)
	tr := newTransport(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, _, err := tr.Send(ctx, request(t, "POST", s.url("/1"), "b"), false)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_, _ = io.ReadAll(resp.Body) // it may be whole
	if tr.idles() != 0 {
		t.Error("the connection is kept")
	}
}

// watched is a context that counts who waits for its end.
type watched struct {
	context.Context
	asked, waiting atomic.Int32
}

// Value hides the context below from package context, which would go around this one.
func (*watched) Value(any) any { return nil }

// AfterFunc is what package context asks for.
func (w *watched) AfterFunc(f func()) func() bool {
	w.asked.Add(1)
	w.waiting.Add(1)
	stop := context.AfterFunc(w.Context, f)
	return func() bool {
		w.waiting.Add(-1)
		return stop()
	}
}

// TestContextIsLetGo: nothing waits for the end of a context whose request is over.
func TestContextIsLetGo(t *testing.T) {
	for _, o := range append([]odd{
		{name: "nothing", closes: true},
		{name: "half", answer: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", closes: true},
	}, odds...) {
		s := serve(t, serveOdd(&o))
		tr := newTransport(t, Config{})
		for _, read := range []bool{true, false} {
			w := &watched{Context: t.Context()}
			resp, _, err := tr.Send(w, request(t, o.method, s.url("/odd"), ""), false)
			if err == nil && read {
				_, _ = io.Copy(io.Discard, resp.Body) // it may break off
			} else if err == nil {
				_ = resp.Body.Close() // as the test says
			}
			if n := w.waiting.Load(); n != 0 || w.asked.Load() == 0 {
				t.Errorf("%s, read %v: %d of %d wait", o.name, read, n, w.asked.Load())
			}
		}
		s.stop()
	}
}
