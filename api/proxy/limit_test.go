package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"onced/api/config"
	"onced/saga/idemhttp"
)

// framed is a body in one of the forms that HTTP/1.1 has for it.
func framed(form string, body []byte) string {
	switch form {
	case "length":
		return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	case "chunked":
		var b strings.Builder
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		for part := range bytes.Lines(body) {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
		}
		return b.String() + "0\r\n\r\n"
	}
	return "Connection: close\r\n\r\n" + string(body)
}

// Answers are kept up to max_response and as long as there is room, whatever their
// form. Longer ones reach the first client whole.
func TestRoomForAnswers(t *testing.T) {
	const keep = 200 << 10
	for _, form := range []string{"length", "chunked", "close"} {
		for _, c := range []struct {
			size int
			room int64
			kept bool
		}{
			{0, 1 << 30, true}, {1, 1 << 30, true}, {firstRead, 1 << 30, true}, {70 << 10, 1 << 30, true},
			{keep - 1, 1 << 30, true}, {keep, 1 << 30, true}, {keep + 1, 1 << 30, false},
			{3 * keep, 1 << 30, false},
			{60 << 10, 1<<20 + 64<<10, true},
			{keep, 1<<20 + 64<<10, true}, {keep, 128 << 10, false},
			{idemhttp.ResponseRoom - 1, 128 << 10, true},
			{idemhttp.ResponseRoom + 8<<10, 70 << 10, false},
		} {
			body := bytes.Repeat([]byte("0123456789abcde\n"), c.size/16+1)[:c.size]
			up := says(t, "HTTP/1.1 201 Created\r\n"+framed(form, body))
			l := idemhttp.NewLimit(9, c.room)
			t.Cleanup(func() { // after the server has ended
				if n, b := l.InUse(); n != 0 || b != 0 {
					t.Errorf("%d requests with %d bytes are counted", n, b)
				}
			})
			s := newSetup(t, plain+"  max_response: 200KiB\n  max_body: 4KiB\n", up.url(),
				func(cfg *Config) { cfg.Limit = l })
			resp, got := s.pay()
			if resp.StatusCode != 201 || got != string(body) {
				t.Errorf("%s %+v: %d with %d bytes", form, c, resp.StatusCode, len(got))
			}
			// The client has all before the handler has ended.
			for n, _ := l.InUse(); n > 0; n, _ = l.InUse() {
				runtime.Gosched()
			}
			resp, got = s.pay()
			if kept := got == string(body); resp.StatusCode != 201 || kept != c.kept ||
				!kept && !strings.Contains(got, "result_too_large") {
				t.Errorf("%s %+v: replayed %d with %d bytes", form, c, resp.StatusCode, len(got))
			}
		}
	}
}

// An answer that breaks off is none, at whatever byte, also when there was no room
// for all of it.
func TestIK10_AnswersThatBreakOff(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcde\n"), 10_000)
	for _, form := range []string{"length", "chunked"} {
		whole := framed(form, body)
		for _, cut := range []int{1, 100, firstRead + 50, 100_000, len(whole) - 1} {
			up := newWire(t, func(w *wire, _ int, conn net.Conn, r *bufio.Reader) {
				if _, ok := w.request(r); ok {
					_, _ = io.WriteString(conn, "HTTP/1.1 201 Created\r\n"+whole[:len(whole)-cut])
				}
			})
			s := newSetup(t, plain, up.url())
			s.pays(502, "upstream_failed", false)
			s.pays(409, "outcome_unknown", false)
		}
	}
}

func TestBusyRoutes(t *testing.T) {
	g := newGateway(t)
	told := &outcomes{}
	entered, release := make(chan struct{}), make(chan struct{})
	g.answer = func(n int, _ http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			close(entered)
			<-release
		}
		return false
	}
	s := newSetup(t, plain+"- {path: /other, upstream: UPSTREAM, principal: shop}\n", g.URL,
		func(cfg *Config) { cfg.Limit, cfg.Observer = idemhttp.NewLimit(1, 1<<30), told })
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.pays(201, "charges", false)
	}()
	<-entered
	resp, body := s.call("POST", "/other", "{}", "Idempotency-Key", "k2")
	if resp.Header.Get("Retry-After") != "1" {
		t.Errorf("%v", resp.Header)
	}
	want(t, reply{resp, body}, 503, `"type":"/problems/busy"`, false)
	resp, body = s.call("GET", "/charges/x", "") // what is not guarded passes
	if resp.StatusCode != 404 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	close(release)
	<-done
	g.charged(t, 1)
	resp, body = s.call("POST", "/other", "{}", "Idempotency-Key", "k2")
	want(t, reply{resp, body}, 201, "charges", false)
	if told.all() != "busy at other done done" {
		t.Errorf("%q", told.all())
	}
}

func TestConfigKnowsTheRoomForAnswers(t *testing.T) {
	if config.ResponseRoom != idemhttp.ResponseRoom {
		t.Errorf("%d and %d", config.ResponseRoom, idemhttp.ResponseRoom)
	}
}
