package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// shop is the configuration of most tests: a route that charges, one that needs
// no token, and everything else to the service behind.
const shop = `
log: {level: debug}
http: {max_body: 64KiB, header_timeout: 1s, read_timeout: 2s}
auth: {max_failures: 5, failure_window: 10m}
routes:
- {path: /charges, upstream: UPSTREAM, timeout: 2s, max_response: 64KiB}
- {path: /open, upstream: UPSTREAM, principal: stall, timeout: 2s, max_response: 64KiB}
- path: /*
  upstream: UPSTREAM
  principal: stall
  key: ignore
  timeout: 2s
  headers: [{name: X-Own, value: "sesame-own"}]
`

// raw requests to the route without a token.
const open = "POST /open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"

// Headers that never end are cut off by a limit of their own, and however many
// clients are slow, somebody else is served.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	s := start(t, newGateway(t), strings.Replace(shop, "read_timeout: 2s",
		"read_timeout: 10m, max_connections: 8", 1))
	s.Client.CloseIdleConnections()
	begin := time.Now()
	var slow []net.Conn
	for range 6 {
		c := s.dial()
		slow = append(slow, c)
		_, _ = io.WriteString(c, "POST /open HTTP/1.1\r\nHost: x\r\nX-A: ")
	}
	s.alive() // with two places left nobody has to wait
	s.Client.CloseIdleConnections()
	for range 3 { // and when there is none, one comes free by itself
		slow = append(slow, s.dial())
	}
	s.alive()
	if time.Since(begin) < 900*time.Millisecond { // the first is cut off after a second
		t.Error("there are more than 8 connections")
	}
	for i, c := range slow {
		if got, err := io.ReadAll(c); err != nil || len(got) > 0 && !strings.HasPrefix(string(got),
			"HTTP/1.1 408") {
			t.Errorf("%d: %q %v", i, got, err)
		}
	}
}

// Bodies that never end are answered, have no effect, and take nothing from
// others.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	s := start(t, g, strings.Replace(shop, "read_timeout: 2s", "read_timeout: 1s", 1))
	var slow []net.Conn
	for range 16 {
		for _, request := range []string{
			"POST /open HTTP/1.1\r\nHost: x\r\nIdempotency-Key: sesame-slow\r\nContent-Length: 100\r\n\r\n{",
			"POST /charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: sesame-slow\r\nAuthorization: Bearer " +
				s.client +
				"\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
			"POST /v1/claims HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + s.client +
				"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		} {
			c := s.dial()
			slow = append(slow, c)
			_, _ = io.WriteString(c, request)
		}
	}
	s.alive()
	for i, c := range slow {
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 408 {
			t.Errorf("%d: %v %v", i, resp, err)
		}
	}
	g.nothing(t, "a body that never ended")
	if resp, body := s.pay("sesame-slow"); resp.StatusCode != 201 || len(g.got()) != 1 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestOversizedEverything(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	s := start(t, g, shop)
	key := "Idempotency-Key: sesame-big\r\n"
	api := "POST /v1/claims HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + s.client +
		"\r\nContent-Type: application/json\r\n"
	deep := `{"operation":"o","key":"k","token":"0123456789abcdef0123","payload":"","lease_s":9,"intent":` +
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}"
	chunked := "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1000\r\n"+strings.Repeat("x", 4096)+
		"\r\n", 64) + "0\r\n\r\n"
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"header":       {open + key + "X-A: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", 431},
		"many headers": {open + key + strings.Repeat("A: b\r\n", 50_000) + "\r\n", 431},
		"url": {strings.Replace(open, "/open", "/"+strings.Repeat("a", 1<<20), 1) + "\r\n",
			431},
		"path": {strings.Replace(open, "/open", "/"+strings.Repeat("a", 20<<10), 1) +
			"\r\n", 400},
		"method":            {strings.Repeat("A", 100<<10) + open + "\r\n", 431},
		"key":               {open + "Idempotency-Key: " + strings.Repeat("k", 10<<10) + "\r\n\r\n", 400},
		"token":             {strings.Replace(api, s.client, strings.Repeat("t", 20<<10), 1) + "\r\n", 401},
		"length of a route": {open + key + "Content-Length: 999999999999\r\n\r\n", 413},
		"body of a route":   {open + key + chunked, 413},
		"length of the API": {api + "Content-Length: 999999999999\r\n\r\n", 413},
		"body of the API":   {api + chunked, 413},
		"depth":             {api + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(deep), deep), 400},
		"length past int64": {open + key + "Content-Length: 99999999999999999999\r\n\r\n", 400},
		"chunk past int64": {open + key + "Transfer-Encoding: chunked\r\n\r\n" +
			"fffffffffffffffff\r\n", 400},
		"extension of chunk": {open + key + "Transfer-Encoding: chunked\r\n\r\n5;" + strings.Repeat("e",
			1<<20), 400},
		"many parameters": {strings.Replace(api, "/v1/claims HTTP", "/v1/claims?"+strings.Repeat("a&",
			20_000)+
			" HTTP", 1) + "\r\n", 400},
	} {
		if got := s.one(c.request); got.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", name, got.StatusCode, got.body, c.status)
		}
		g.nothing(t, name)
	}
	if m := s.memory(); m > 300<<20 {
		t.Errorf("%d MiB of memory", m>>20)
	}
}

// What a client says in a header is never taken for what we say.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	s := start(t, g, shop)
	for _, bad := range []string{
		"X-A: a\rX-Evil: b", "X-A: a\x00b", "X-A : b", "X\x01Y: b", ": b", "no colon",
		"Host: y", "X-A: a\x7f",
	} {
		got := s.one(open + "Idempotency-Key: sesame-h\r\n" + bad + "\r\n\r\n")
		if got.StatusCode != 400 || got.Header.Get("X-Evil") != "" {
			t.Errorf("%q: %d %s", bad, got.StatusCode, got.body)
		}
		g.nothing(t, bad)
	}
	for _, host := range []string{"", "a b", "a/b", "a\\b", "a\x01"} {
		got := s.raw("GET /x HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
		if len(got) == 1 && got[0].StatusCode < 300 {
			for _, r := range g.got() {
				if r.host != g.addr || r.header.Get("X-Forwarded-Host") != host {
					t.Errorf("host %q: %q %v", host, r.host, r.header)
				}
			}
		}
	}
	for _, id := range []string{"a b", "<script>", strings.Repeat("a", 65), `"`, "a\" \"x\":\"y", "ä",
		"%0d%0aX: y"} {
		if got := s.one("GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\nRequest-Id: " + id +
			"\r\n\r\n"); got.
			Header.Get("Request-Id") == id || !strings.HasPrefix(got.Header.Get("Request-Id"), "rq_") {
			t.Errorf("request id %q: %v", id, got.Header)
		}
	}
	got := s.one(strings.Replace(open, "/open", "/any", 1) + "X-Own: sesame-theirs\r\nX_Own: evil\r\n" +
		"X-Forwarded-For: 6.6.6.6\r\nX_Forwarded_For: evil\r\nX-Real-Ip: evil\r\nForwarded: for=evil\r\n" +
		"X-Forwarded-Host: evil\r\nX-Forwarded-Proto: evil\r\nConnection: X-Own, Idempotency-Key\r\n" +
		"Content-Length: 0\r\nProxy-Authorization: evil\r\nTe: evil\r\n\r\n")
	sends := g.got()
	if got.StatusCode != 201 || len(sends) != 1 {
		t.Fatalf("%d %s, %d sends", got.StatusCode, got.body, len(sends))
	}
	h := sends[0].header
	if h.Get("X-Forwarded-For") != "127.0.0.1" || h.Get("X-Own") != "sesame-own" ||
		strings.Contains(fmt.Sprint(h),
			"evil") || strings.Contains(fmt.Sprint(h), "theirs") || sends[0].host != g.addr {
		t.Errorf("%v", h)
	}
}

func TestKeySmuggling(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	s := start(t, g, shop)
	for _, bad := range []string{
		"", "Idempotency-Key:", "Idempotency-Key: \t", `Idempotency-Key: ""`, `Idempotency-Key: "a`,
		`Idempotency-Key: a"`,
		`Idempotency-Key: "a";p=1`, `Idempotency-Key: "a", "b"`, "Idempotency-Key: a, b",
		`Idempotency-Key: "a\n"`,
		"Idempotency-Key: a\x00b", "Idempotency-Key: a\x01b", "Idempotency-Key: a\x7fb",
		"Idempotency-Key: a\xffb",
		"Idempotency-Key: a\xc2\x85b", // a control character of Unicode
		"Idempotency-Key: a\r\nIdempotency-Key: a", "Idempotency-Key: a\r\nidempotency-key: b",
		"Idempotency_Key: a", "Idempotency-Key : a", "X-Idempotency-Key: a",
		"Idempotency-Key: " + strings.Repeat("k", 256), "Idempotency-Key: " + strings.Repeat("k", 10<<10),
		`Idempotency-Key: "` + strings.Repeat("k", 256) + `"`,
	} {
		if got := s.one(open + "Content-Length: 2\r\n" + bad + "\r\n\r\n{}"); got.StatusCode != 400 {
			// Without a line there is none, and the line is empty: the header ends there.
			t.Errorf("%.80q: %d %s", bad, got.StatusCode, got.body)
		}
		g.nothing(t, bad)
	}
	keys := map[string]bool{}
	for _, same := range [][]string{
		{"sesame-a", `"sesame-a"`, "\tsesame-a ", "sesame-a\r\nIdempotency_Key: sesame-b"},
		{`"sesame-\"q\\"`}, {"sesame A"}, {"sesame-ä"}, {"sesame-a\xcc\x88"}, {`"sesame,a"`}, {"SESAME-A"},
		{"../../sesame"}, {"sesame%0d%0a"}, {"${sesame}"}, {"' OR sesame=1 --"}, {strings.Repeat("s", 255)},
	} {
		for i, key := range same {
			got := s.one(open + "Content-Length: 2\r\nIdempotency-Key: " + key + "\r\n\r\n{}")
			if replayed := got.Header.Get("Idempotency-Replayed") == "true"; got.StatusCode != 201 ||
				replayed != (i > 0) {
				t.Errorf("%.80q: %d %s %v", key, got.StatusCode, got.body, got.Header)
			}
		}
		sends := g.got()
		if len(sends) != 1 {
			t.Fatalf("%.80q: %d charges", same, len(sends))
		}
		sent := sends[0].header["Idempotency-Key"]
		if len(sent) != 1 || !strings.HasPrefix(sent[0], "oc_") || keys[sent[0]] ||
			strings.Contains(strings.ToLower(fmt.Sprint(sends[0].header)), "sesame-b") {
			t.Errorf("%.80q: %v", same, sends[0].header)
		}
		keys[sent[0]] = true
	}
}

// However the bytes are cut into requests, those that reach the service behind
// are whole, are as many as the answers, and none is one that nobody guarded.
func TestRequestSmuggling(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	s := start(t, g, shop)
	k := "Idempotency-Key: sesame-%d\r\n"
	evil := "POST /charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: sesame-evil\r\nContent-Length: 0\r\n\r\n"
	refused := []string{
		"Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello", "Content-Length: +5\r\n\r\nhello",
		"Content-Length: -1\r\n\r\nhello", "Content-Length: 0x5\r\n\r\nhello",
		"Content-Length: 5, 6\r\n\r\nhello",
		"Content-Length: 5 5\r\n\r\nhello", "Content-Length : 5\r\n\r\nhello",
		"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n5 5\r\nhello\r\n0\r\n\r\n",
	}
	for i, request := range refused {
		got := s.raw(open + fmt.Sprintf(k, i) + request + evil)
		if len(got) != 1 || got[0].StatusCode < 400 {
			t.Errorf("%q: %d answers, %v", request, len(got), got)
		}
		g.nothing(t, request)
	}
	keep := strings.Replace(open, "Connection: close\r\n", "", 1)
	last := "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for i, request := range []string{
		// What is inside of a body is a body.
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(evil), evil),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(evil), evil),
		fmt.Sprintf("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
			len(evil), evil),
		fmt.Sprintf("Content-Length: %d\r\nContent-Length: %[1]d\r\n\r\n%s", len(evil), evil),
		"Transfer-Encoding: chunked\r\nTrailer: Idempotency-Key\r\n\r\n2\r\n{}\r\n0\r\nIdempotency-Key:" +
			" evil\r\n\r\n",
		// A line that begins with a blank goes on with the header before it.
		"X-Last: 1\r\n Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
	} {
		got := s.raw(keep+fmt.Sprintf(k, 100+i)+request+last, "POST", "GET")
		sends := g.got()
		if len(got) == 0 || got[0].StatusCode != 201 && got[0].StatusCode != 400 || len(sends) > 1 {
			t.Fatalf("%q: %v, %d sends", request, got, len(sends))
		}
		for _, r := range sends {
			if r.target != "/open" || r.length != int64(len(r.body)) || len(r.encoding) > 0 ||
				len(r.header["Idempotency-Key"]) != 1 || r.header["Trailer"] != nil {
				t.Errorf("%q: %+v", request, r)
			}
		}
	}
	one := keep + "Idempotency-Key: sesame-pipe\r\nContent-Length: 2\r\n\r\n{}"
	got := s.raw(one+one+one+last, "POST", "POST", "POST", "GET")
	if len(got) != 4 || len(g.got()) != 1 || got[0].body != got[2].body ||
		got[0].Header.Get("Idempotency-Replayed") != "" ||
		got[2].Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("pipelined: %v", got)
	}
}
