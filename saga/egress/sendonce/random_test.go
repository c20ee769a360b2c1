package sendonce

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// moody is a server that treats each request in some way. It counts how often each came.
type moody struct {
	t    *testing.T
	seed uint64

	mu    sync.Mutex
	came  map[string]int
	fates map[Fate]int // of errors
}

// serve is for [serve].
func (m *moody) serve(n int, c net.Conn, r *bufio.Reader) {
	rnd := rand.New(rand.NewPCG(m.seed, uint64(n)))
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		id := req.URL.Path
		m.mu.Lock()
		m.came[id]++
		m.mu.Unlock()
		if mood := rnd.IntN(16); mood < 5 && !m.bad(mood, c, req, rnd) || mood >= 5 && !m.good(c, req, rnd) {
			return
		}
	}
}

// bad answers in a way that costs the connection, now or later.
func (m *moody) bad(mood int, c net.Conn, req *http.Request, rnd *rand.Rand) (goOn bool) {
	switch mood {
	case 0: // breaks, perhaps in the middle of the answer
		text := "HTTP/1.1 200 OK\r\nId: " + req.URL.Path + "\r\nContent-Length: 100\r\n\r\n"
		sayf(c, "%s", text[:rnd.IntN(len(text))*rnd.IntN(2)])
	case 1:
		_ = c.(*net.TCPConn).SetLinger(0) // or it is closed
	case 2: // answers early, and reads no more
		own(c, req, "")
	case 3: // answers, and says more; one write, so that it comes together
		hold(req.Body)
		id := req.URL.Path
		if req.Method == http.MethodHead {
			id = ""
		}
		sayf(c, "HTTP/1.1 200 OK\r\nId: %s\r\nContent-Length: %d\r\n\r\n%s%s", req.URL.Path, len(id), id,
			stray)
		return true
	case 4: // answers and leaves without a word
		body, _ := io.ReadAll(req.Body) // it may break off
		own(c, req, string(body))
	}
	return false
}

// good answers as one should.
func (m *moody) good(c net.Conn, req *http.Request, rnd *rand.Rand) (goOn bool) {
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return false
	}
	body := string(b)
	if rnd.IntN(4) == 0 {
		sayf(c, "HTTP/1.1 103 Hm\r\nId: none\r\n\r\n")
	}
	closing := ""
	if goOn = rnd.IntN(8) != 0 && !req.Close; !goOn {
		closing = "Connection: close\r\n"
	}
	switch {
	case req.Method == http.MethodHead || rnd.IntN(6) == 0:
		sayf(c, "HTTP/1.1 204 No\r\nId: %s\r\n%s\r\n", req.URL.Path, closing)
	case rnd.IntN(2) == 0:
		text := req.URL.Path + " " + body
		sayf(c, "HTTP/1.1 200 OK\r\nId: %s\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
			req.URL.Path, closing, len(text), text)
	case !goOn:
		sayf(c, "HTTP/1.1 200 OK\r\nId: %s\r\n\r\n%s %s", req.URL.Path, req.URL.Path, body)
	default:
		own(c, req, body)
	}
	return goOn
}

// client sends requests with identities of its own, and looks at what comes back.
func (m *moody) client(tr *Transport, s *server, name int) {
	rnd := rand.New(rand.NewPCG(m.seed, uint64(name)+1<<32))
	for i := range 120 {
		id := fmt.Sprintf("/%d-%d", name, i)
		method := []string{"POST", "PUT", "HEAD", "GET", "DELETE"}[rnd.IntN(5)]
		body := ""
		if method == "POST" || method == "PUT" {
			sizes := []int{1, 100, 6000, InlineBody, 3 * InlineBody, 10 * InlineBody}
			body = strings.Repeat("b", sizes[rnd.IntN(len(sizes))])
		}
		ctx, cancel := context.WithCancel(m.t.Context())
		if rnd.IntN(16) == 0 {
			go cancel()
		}
		resp, fate, err := tr.Send(ctx, request(m.t, method, s.url(id), body), rnd.IntN(8) == 0)
		m.mu.Lock()
		came := m.came[id]
		switch {
		case came > 1:
			m.t.Errorf("%s %s came %d times", method, id, came)
		case err == nil && came != 1:
			m.t.Errorf("%s %s has an answer and came %d times", method, id, came)
		case err == nil && resp.Header.Get("Id") != id:
			m.t.Errorf("%s %s got the answer %v", method, id, resp.Header)
		case err != nil && fate == NotSent && came != 0:
			m.t.Errorf("%s %s was not sent and came: %v", method, id, err)
		}
		if err != nil {
			m.fates[fate]++
		}
		m.mu.Unlock()
		if err == nil {
			m.read(resp, id, body, rnd.IntN(8) != 0)
		}
		cancel()
	}
}

// read reads the answer, perhaps not to its end, which says nothing that is wrong.
func (m *moody) read(resp *http.Response, id, body string, whole bool) {
	defer resp.Body.Close()
	if !whole {
		return
	}
	got, err := io.ReadAll(resp.Body)
	if want := id + " " + body; err == nil && len(got) > 0 && string(got) != want && string(got) != id &&
		string(got) != id+" " {
		m.t.Errorf("%s got %.60q", id, got)
	} else if err != nil && errors.Is(err, errHeader) {
		m.t.Error(err)
	}
}

// TestMoody: with a server that does all that servers do, many at a time: no request comes
// twice, none that was not sent comes, and each client gets the answer to its own.
func TestMoody(t *testing.T) {
	for seed := range uint64(2) {
		m := &moody{t: t, seed: seed, came: map[string]int{}, fates: map[Fate]int{}}
		s := serve(t, m.serve)
		tr := newTransport(t, Config{MaxIdlePerHost: 6})
		var clients sync.WaitGroup
		for i := range 12 {
			clients.Go(func() { m.client(tr, s, i) })
		}
		clients.Wait()
		tr.Close()
		s.stop()
		m.mu.Lock()
		for id, n := range m.came {
			if n != 1 {
				t.Errorf("%s came %d times", id, n)
			}
		}
		if n := len(m.came); n < 1000 || s.dialed() < 100 || s.dialed() > n*3/4 {
			t.Errorf("%d requests came over %d connections: that tests little", n, s.dialed())
		}
		if m.fates[Sent] == 0 || m.fates[Broke] == 0 || m.fates[Answered] == 0 {
			t.Errorf("the fates are %v: that tests little", m.fates)
		}
		m.mu.Unlock()
	}
}
