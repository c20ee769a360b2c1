package sendonce

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipes serves connections that are pipes, in which nothing is held: a test in a bubble
// knows what waits for what.
type pipes struct {
	serve  func(n int, c net.Conn, r *bufio.Reader)
	dialed atomic.Int32
}

// dial is for Config.Dial.
func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	n := int(p.dialed.Add(1))
	go func() {
		defer there.Close()
		p.serve(n, there, bufio.NewReader(there))
	}()
	return here, nil
}

// piped returns a transport over pipes. It is closed by the test: the bubble must end.
func piped(f func(n int, c net.Conn, r *bufio.Reader), cfg Config) (*Transport, *pipes) {
	p := &pipes{serve: f}
	cfg.Dial = p.dial
	return New(cfg), p
}

// TestLongBodies: they arrive whole, and their connection is kept.
func TestLongBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, p := piped(echo, Config{})
		defer tr.Close()
		for i := range 20 {
			body := strings.Repeat("b", InlineBody+i*1000)
			if _, got, err := tr.get(t.Context(), request(t, "POST", "http://h/", body), false); err != nil ||
				got != "/ "+body {
				t.Fatalf("%d: %.40q, %v", i, got, err)
			}
		}
		if p.dialed.Load() != 1 {
			t.Errorf("%d connections", p.dialed.Load())
		}
	})
	s := serve(t, echo)
	tr := newTransport(t, Config{})
	for range 10 {
		tr.asks(t, s, "/", strings.Repeat("b", 1<<20))
	}
	if s.dialed() > 3 { // it depends on the scheduler, which may be late
		t.Errorf("%d connections, want about 1", s.dialed())
	}
}

// TestEarlyAnswers: an answer that comes before the request is read is read whole, however
// long both are.
func TestEarlyAnswers(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name  string
		first string // what is sent before the rest is read
		then  string // and after it
		kept  bool   // the rest is read
	}{
		{"refused", "HTTP/1.1 413 Large\r\nContent-Length: 3\r\n\r\nabc", "", false},
		{"refused without a body", "HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n", "", false},
		{"long", "HTTP/1.1 413 Large\r\nContent-Length: 1048576\r\n\r\n" + long, "", false},
		{"goes on", "HTTP/1.1 200 OK\r\nContent-Length: 1048579\r\n\r\n" + long, "abc", true},
		{"informs", "HTTP/1.1 103 Hm\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			stop := make(chan struct{})
			defer close(stop)
			tr, p := piped(func(n int, conn net.Conn, r *bufio.Reader) {
				if n > 1 {
					echo(n, conn, r)
					return
				}
				req, err := http.ReadRequest(r)
				if err != nil {
					t.Error(err)
					return
				}
				sayf(conn, "%s", c.first)
				if c.kept {
					hold(req.Body)
					sayf(conn, "%s", c.then)
					echo(n, conn, r)
				}
				<-stop // it keeps the connection, and reads nothing
			}, Config{})
			defer tr.Close()
			_, want, _ := strings.Cut(c.first+c.then, "\r\n\r\n")
			want = strings.TrimPrefix(want, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")
			began := time.Now()
			r := request(t, "POST", "http://h/", strings.Repeat("b", 1<<20))
			if _, got, err := tr.get(t.Context(), r, false); got != want || err != nil {
				t.Errorf("%s: %.40q, %v", c.name, got, err)
			}
			if took := time.Since(began); took > linger {
				t.Errorf("%s: it took %v", c.name, took)
			}
			if (tr.idles() == 1) != c.kept {
				t.Errorf("%s: %d idle connections", c.name, tr.idles())
			}
			r = request(t, "POST", "http://h/2", "b")
			if _, got, err := tr.get(t.Context(), r, false); got != "/2 b" || err != nil ||
				p.dialed.Load() != map[bool]int32{true: 1, false: 2}[c.kept] {
				t.Errorf("%s: then %q, %v, %d connections", c.name, got, err, p.dialed.Load())
			}
		})
	}
}

// slow is a body whose second read waits until it is let go.
type slow struct {
	reads int
	let   chan struct{}
	over  *atomic.Bool // nobody may read any more
	t     *testing.T
}

// Read implements [io.Reader].
func (s *slow) Read(p []byte) (int, error) {
	if s.over.Load() {
		s.t.Error("the body is read after the request is over")
	}
	if s.reads++; s.reads == 2 {
		<-s.let
	}
	return copy(p, "bbbb"), nil
}

// TestBodyIsLetGo: when the request is over, whatever way, its body is read no more.
func TestBodyIsLetGo(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		end          func(*http.Response)
	}{
		{"closed", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
			func(r *http.Response) { _ = r.Body.Close() }},
		{"read", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
			func(r *http.Response) { hold(r.Body) }},
		{"breaks off", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
			func(r *http.Response) { hold(r.Body) }},
		{"no body", "HTTP/1.1 204 No\r\n\r\n", func(*http.Response) {}},
		{"other protocol", "HTTP/1.1 101 Other\r\n\r\n", func(*http.Response) {}},
		{"none", "nonsense\r\n", nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			stop := make(chan struct{})
			defer close(stop)
			tr, _ := piped(func(_ int, conn net.Conn, r *bufio.Reader) {
				_, _ = r.ReadString('\n') // some of the request
				go hold(r)
				sayf(conn, "%s", c.answer)
				<-stop
			}, Config{})
			defer tr.Close()
			var over atomic.Bool
			body := &slow{let: make(chan struct{}), over: &over, t: t}
			r := request(t, "POST", "http://h/", "")
			r.Body, r.ContentLength = io.NopCloser(body), 4*InlineBody
			go func() {
				resp, _, err := tr.Send(t.Context(), r, false)
				if (err != nil) != (c.end == nil) {
					t.Errorf("%s: %v", c.name, err)
				} else if err == nil {
					c.end(resp)
				}
				over.Store(true)
			}()
			time.Sleep(10 * linger)
			if over.Load() {
				t.Errorf("%s: the body is still being read", c.name)
			}
			close(body.let)
			synctest.Wait()
			if !over.Load() {
				t.Errorf("%s: the request is not over", c.name)
			}
		})
	}
}

// TestBodyFails: neither side waits for the other when the request's body has failed.
func TestBodyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, _ := piped(echo, Config{})
		defer tr.Close()
		r := request(t, "POST", "http://h/", "")
		r.ContentLength = 3 * InlineBody
		r.Body = io.NopCloser(strings.NewReader(strings.Repeat("b", 2*InlineBody)))
		_, fate, err := tr.Send(t.Context(), r, false)
		if err == nil || fate != Sent || !strings.Contains(err.Error(), "ContentLength") {
			t.Errorf("fate %d, %v", fate, err)
		}
	})
}
