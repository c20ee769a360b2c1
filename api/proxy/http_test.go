package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"onced/api/problem"
)

// The transport of net/http would send a POST with an Idempotency-Key again when
// a reused connection breaks, if it has no body or could rewind it.
func TestATransportThatSendsAgain(t *testing.T) {
	const ignore = "\nroutes:\n- path: /charges\n  upstream: UPSTREAM\n  principal: shop\n  key: ignore\n"
	for name, yaml := range map[string]string{"repeatable": repeatable, "checked": checked, "ignore": ignore,
		"x": repeatable + "  upstream_key_header: X-Idempotency-Key\n"} {
		for _, body := range []string{"", "{}"} {
			w := newWire(t, func(w *wire, _ int, conn net.Conn, r *bufio.Reader) {
				for {
					req, ok := w.request(r)
					if !ok || req.URL.Path != "/charges" || req.URL.RawQuery == "break" {
						return // it was read, and now the connection ends
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 201 Yes\r\nContent-Length: 2\r\n\r\nok")
				}
			})
			s := newSetup(t, yaml, w.url())
			header := []string{"Idempotency-Key", "k1", "X-Idempotency-Key", "x"}
			resp, got := s.call("POST", "/charges", body, header...)
			want(t, reply{resp, got}, 201, "ok", false)
			header[1] = "k2"
			resp, got = s.call("POST", "/charges?break", body, header...)
			want(t, reply{resp, got}, 502, `"upstream_failed"`, false)
			if w.count() != 2 {
				t.Errorf("%s, body %q: the upstream got %q", name, body, w.got)
			}
		}
	}
}

// Without a way to settle a doubt there is no reuse that could bring one about.
func TestConnectionReuse(t *testing.T) {
	for yaml, conns := range map[string]int64{plain: 3, repeatable: 1, checked: 1} {
		var n atomic.Int64
		w := newWire(t, func(w *wire, _ int, conn net.Conn, r *bufio.Reader) {
			n.Add(1)
			for {
				if _, ok := w.request(r); !ok {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 201 Yes\r\nContent-Length: 2\r\n\r\nok")
			}
		})
		s := newSetup(t, yaml, w.url())
		for _, key := range []string{"a", "b", "c"} {
			resp, body := s.call("POST", "/charges", "{}", "Idempotency-Key", key)
			want(t, reply{resp, body}, 201, "ok", false)
		}
		if n.Load() != conns {
			t.Errorf("%d connections, want %d for%s", n.Load(), conns, yaml)
		}
	}
}

func TestHeadersToTheUpstream(t *testing.T) {
	g := newGateway(t)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	s := newSetup(t, `
routes:
- path: /shop/{id}/pay
  strip_prefix: /shop
  upstream: UPSTREAM/base/
  principal: shop
  key_header: X-Pay-Key
  headers:
  - {name: Authorization, prefix: "Bearer ", value_env: GATEWAY_TOKEN}
`, g.URL)
	header := []string{"X-Pay-Key", "k", "Connection", "X-Hop", "X-Hop", "1", "Te", "trailers",
		"Keep-Alive", "1",
		"Proxy-Authorization", "Basic x", "Proxy-Connection", "keep-alive",
		"Forwarded", "for=1.1.1.1", "X-Forwarded-For", "1.1.1.1", "X-Forwarded-Host", "evil", "X-Real-Ip",
		"1.1.1.1",
		"X-Forwarded-Proto", "https", "X-Pay_key", "u", "Idempotency_Key", "u", "X_Forwarded_For", "u",
		"Idempotency-Key", "the client's", "Accept", "a/b", "Custom", "1", "Custom", "2", "Traceparent", "tp"}
	resp, body := s.call("POST", "/shop/a%2Fb;v=1/pay?q=%20;x&&", "{}", header...)
	want(t, reply{resp, body}, 201, "", false)
	r := g.last()
	if r.RequestURI != "/base/a%2Fb;v=1/pay?q=%20;x&&" {
		t.Errorf("%s", r.RequestURI)
	}
	if r.Host != strings.TrimPrefix(g.URL, "http://") {
		t.Errorf("host %s", r.Host)
	}
	for _, name := range []string{"X-Hop", "Te", "Keep-Alive", "Proxy-Connection", "Forwarded", "X-Real-Ip",
		"X-Pay_key",
		"X-Pay-Key", "Idempotency_Key", "Idempotency_key", "X_Forwarded_For", "X_forwarded_for",
		"Accept-Encoding",
		"Proxy-Authorization"} {
		if v, ok := r.Header[textproto.CanonicalMIMEHeaderKey(name)]; ok {
			t.Errorf("%s: %q", name, v)
		}
	}
	for name, value := range map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http",
		"X-Forwarded-Host": strings.TrimPrefix(s.url, "http://"), "Authorization": "Bearer of-the-gateway",
		"Accept": "a/b", "Custom": "1 2", "Traceparent": "tp"} {
		if got := strings.Join(r.Header[name], " "); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	if key := r.Header["Idempotency-Key"]; len(key) != 1 || !strings.HasPrefix(key[0], "oc_") {
		t.Errorf("%q", key)
	}
}

func TestTrustedPeers(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, plain, g.URL, func(c *Config) {
		c.Trusted = func(*http.Request) bool { return true }
		c.ClientIP = func(*http.Request) netip.Addr { return netip.MustParseAddr("9.9.9.9") }
	})
	s.pay("X-Forwarded-Proto", "https", "X-Forwarded-Host", "shop.example")
	h := g.last().Header
	if h.Get("X-Forwarded-Proto") != "https" || h.Get("X-Forwarded-Host") != "shop.example" ||
		h.Get("X-Forwarded-For") != "9.9.9.9" {
		t.Errorf("%v", h)
	}
}

func TestRedirectsArePassedOn(t *testing.T) {
	for _, yaml := range []string{plain, plain + "  outcomes: {done: [2xx, 3xx]}\n"} {
		g := newGateway(t)
		g.answer = func(_ int, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/elsewhere", http.StatusSeeOther)
			return true
		}
		s := newSetup(t, yaml, g.URL)
		resp, _ := s.pay()
		if resp.StatusCode != 303 || resp.Header.Get("Location") != "/elsewhere" {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
		g.oneKey(t, 1)
		resp, _ = s.call("GET", "/charges", "")
		if resp.StatusCode != 303 {
			t.Errorf("%d", resp.StatusCode)
		}
	}
}

func TestPassThrough(t *testing.T) {
	g := newGateway(t)
	g.answer = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Link", "</a>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "Sum")
		w.Header().Set("Method", r.Method)
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.WriteHeader(203)
		_, _ = io.WriteString(w, "body")
		w.Header().Set("Sum", "1")
		return true
	}
	s := newSetup(t, plain, g.URL)
	for range 2 { // with a key or not, never once per key
		for _, method := range []string{"GET", "OPTIONS", "HEAD"} {
			hints := 0
			r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(),
				&httptrace.ClientTrace{
					Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
						hints += code
						return nil
					},
				}), method, s.url+"/charges", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Idempotency-Key", "k")
			resp, err := s.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if method != "HEAD" && (string(body) != "body" || resp.Trailer.Get("Sum") != "1") ||
				resp.StatusCode != 203 || hints != 103 || resp.Header.Get("Method") != method ||
				resp.Header.Get("X-Hop") != "" {
				t.Errorf("%s: %d %q %v %v, hints %d", method, resp.StatusCode, body, resp.Header,
					resp.Trailer, hints)
			}
		}
	}
	if len(g.sends) != 6 {
		t.Errorf("%d sends", len(g.sends))
	}
	// Of a guarded one the hints are dropped: nothing leaves before its commit.
	if resp, body := s.pay(); resp.StatusCode != 203 || body != "body" || resp.Trailer.Get("Sum") != "1" {
		t.Errorf("%d %q %v", resp.StatusCode, body, resp.Trailer)
	}
}

func TestMethodsWithoutKeysCanBeRefused(t *testing.T) {
	g := newGateway(t)
	for _, key := range []string{"required", "ignore"} {
		s := newSetup(t, plain+"  others: refuse\n  methods: [POST]\n  key: "+key+"\n", g.URL)
		resp, body := s.call("GET", "/charges", "")
		want(t, reply{resp, body}, 405, `"method_not_allowed"`, false)
		if resp.Header.Get("Allow") != "POST" {
			t.Errorf("%v", resp.Header)
		}
	}
	g.charged(t, 0)
}

// An upstream that takes "post" for POST, or charges at a method that the route
// does not name, would charge without a key.
func TestMethodsDoNotGoRoundTheGuard(t *testing.T) {
	g := newGateway(t)
	for _, more := range []string{"", "  key: optional\n", "  key: ignore\n", "  others: refuse\n"} {
		s := newSetup(t, plain+"  methods: [POST]\n"+more, g.URL)
		for _, method := range []string{"post", "Post", "get", "PUT", "DELETE", "PROPFIND", "PRI", "TRACE"} {
			resp, body := s.raw(method + " /charges HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
				"Content-Length: 0\r\nIdempotency-Key: k\r\n\r\n")
			want(t, reply{resp, body}, 405, `"method_not_allowed"`, false)
			if !strings.HasPrefix(resp.Header.Get("Allow"), "POST") {
				t.Errorf("%s: %v", method, resp.Header)
			}
		}
		for _, target := range []string{"/charges", "x:443"} {
			resp, body := s.raw("CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
			want(t, reply{resp, body}, 405, `"method_not_allowed"`, false)
		}
	}
	g.charged(t, 0)
}

// An upstream that answers TRACE shows what it got: the secrets of the route.
func TestTraceShowsNoSecrets(t *testing.T) {
	echo := newWire(t, func(w *wire, _ int, conn net.Conn, r *bufio.Reader) {
		if req, ok := w.request(r); ok {
			got := "Authorization: " + req.Header.Get("Authorization")
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: message/http\r\n"+
				"Content-Length: %d\r\n\r\n%s", len(got), got)
		}
	})
	for _, more := range []string{"", "  key: ignore\n"} {
		s := newSetup(t,
			plain+"  headers: [{name: Authorization, value: secret-of-the-route}]\n"+more, echo.url())
		resp, body := s.raw("TRACE /charges HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		want(t, reply{resp, body}, 405, `"method_not_allowed"`, false)
		if strings.Contains(body, "secret-of-the-route") || echo.count() > 0 {
			t.Errorf("%s, %d", body, echo.count())
		}
	}
}

func TestKeyModes(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, plain, g.URL)
	resp, body := s.call("POST", "/charges", "{}")
	want(t, reply{resp, body}, 400, `"idempotency_key_missing"`, false)
	for _, part := range []string{"Idempotency-Key", "255", `"param"`} {
		if !strings.Contains(body, part) {
			t.Errorf("%q is not in %s", part, body)
		}
	}
	s = newSetup(t, plain+"  key: optional\n", g.URL)
	for i := range 2 {
		resp, body = s.call("POST", "/charges", "{}")
		want(t, reply{resp, body}, 201, fmt.Sprint(i+1), false)
	}
	s.pays(201, "3", false)
	s.pays(201, "3", true)
	s = newSetup(t, plain+"  key: ignore\n", g.URL)
	s.pays(201, "4", false)
	s.pays(201, "5", false)
	if g.last().Header.Get("Idempotency-Key") != "k" {
		t.Error("the client's key is not passed on where keys are ignored")
	}
}

func TestMethodOverrides(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, plain, g.URL)
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		resp, body := s.call("GET", "/charges", "", name, "POST")
		want(t, reply{resp, body}, 400, textproto.CanonicalMIMEHeaderKey(name), false)
	}
	g.charged(t, 0)
}

// The first bytes of a stream arrive before its end.
func TestPassThroughStreams(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	release := make(chan struct{})
	g.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = io.WriteString(w, "second\n")
		return true
	}
	s := newSetup(t, plain+"  timeout: 1s\n", g.URL)
	resp, err := s.try(t.Context(), "GET", "/charges", "")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); line != "first\n" || err != nil {
		t.Errorf("%q %v", line, err)
	}
	<-time.After(1200 * time.Millisecond) // a stream lives longer than the time-out
	close(release)
	if line, err := lines.ReadString('\n'); line != "second\n" || err != nil {
		t.Errorf("%q %v", line, err)
	}
}

// A client that does not send its body is not the upstream's fault.
func TestPassThroughOfSlowBodies(t *testing.T) {
	w := newWire(t, func(_ *wire, _ int, _ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) })
	s := newSetup(t, plain+"  timeout: 200ms\n  key: ignore\n", w.url())
	const head = "POST /charges HTTP/1.1\r\nHost: x\r\n"
	for request, code := range map[string]string{
		head + "Content-Length: 5\r\n\r\nab":                            "408 request_timeout",
		head + "Content-Length: 2\r\n\r\nab":                            "504 upstream_timeout",
		head + "Transfer-Encoding: chunked\r\n\r\nthis is no chunk\r\n": "400 bad_request",
	} {
		resp, body := s.raw(request)
		if got := fmt.Sprint(resp.StatusCode, " ", code[4:]); got != code ||
			!strings.Contains(body, `"`+code[4:]+`"`) {
			t.Errorf("%q: %s %s", request, got, body)
		}
	}
}

// Our credentials at an upstream are no matter of the client's on unguarded
// requests either.
func TestPassThroughWithWrongCredentials(t *testing.T) {
	g := newGateway(t)
	g.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(401); return true }
	s := newSetup(t, plain, g.URL)
	resp, body := s.call("GET", "/charges", "")
	want(t, reply{resp, body}, 502, `"upstream_credentials"`, false)
	resp, body = s.call("GET", "/charges", "", "Authorization", "Basic x")
	want(t, reply{resp, body}, 401, "", false)
}

func TestPassThroughTimeout(t *testing.T) {
	w := newWire(t, func(_ *wire, _ int, _ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) })
	s := newSetup(t, plain+"  timeout: 100ms\n", w.url())
	resp, body := s.call("GET", "/charges", "")
	want(t, reply{resp, body}, 504, `"upstream_timeout"`, false)
}

// Answers that are no HTTP, or try to smuggle headers.
func TestHostileAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		status int
		absent string // header that must not be there
	}{
		"garbage":      {"garbage\r\n\r\n", 502, ""},
		"nothing":      {"", 502, ""},
		"status 099":   {"HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n", 502, ""},
		"status 700":   {"HTTP/1.1 700 No\r\nContent-Length: 0\r\n\r\n", 502, ""},
		"switch":       {"HTTP/1.1 101 Sw\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 502, ""},
		"broken body":  {"HTTP/1.1 201 Yes\r\nContent-Length: 10\r\n\r\nx", 502, ""},
		"broken chunk": {"HTTP/1.1 201 Yes\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 502, ""},
		"two lengths":  {"HTTP/1.1 201 Yes\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 502, ""},
		"huge header": {"HTTP/1.1 201 Yes\r\nX: " + strings.Repeat("x", 80<<10) +
			"\r\nContent-Length: 0\r\n\r\n", 502, ""},
		"carriage return": {"HTTP/1.1 201 Yes\r\nX: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n", 0,
			"Set-Cookie"},
		"control":  {"HTTP/1.1 201 Yes\r\nX: a\x01b\r\nContent-Length: 0\r\n\r\n", 0, "X"},
		"bad name": {"HTTP/1.1 201 Yes\r\nX Y: a\r\nContent-Length: 0\r\n\r\n", 0, "X Y"},
		"own connection": {"HTTP/1.1 201 Yes\r\nConnection: x, X-Hop\r\nX-Hop: 1\r\nContent-Length: " +
			"0\r\n\r\n", 201, "X-Hop"},
		"speaks for us": {"HTTP/1.1 201 Yes\r\nIdempotency-Replayed: true\r\nContent-Length: 0\r\n\r\n",
			201, "Idempotency-Replayed"},
		"until the end": {"HTTP/1.1 201 Yes\r\nConnection: close\r\n\r\nok", 201, ""},
		"a second answer": {"HTTP/1.1 201 Yes\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 " +
			"Evil\r\nContent-Length: 4\r\n\r\nevil", 201, ""},
		"body of a 204": {"HTTP/1.1 204 No\r\nContent-Length: 4\r\n\r\nevil", 204, ""},
		"many hints first": {strings.Repeat("HTTP/1.1 103 Hi\r\n\r\n", 3) +
			"HTTP/1.1 201 Yes\r\nContent-Length: 0\r\n\r\n", 201, ""},
	} {
		w := says(t, c.answer)
		s := newSetup(t, plain, w.url())
		first, body := s.pay()
		if c.status != 0 && first.StatusCode != c.status || strings.Contains(body, "evil") {
			t.Errorf("%s: %d %s", name, first.StatusCode, body)
		}
		again, body := s.pay()
		if first.StatusCode == 502 && again.StatusCode != 409 || first.StatusCode != 502 &&
			again.StatusCode != first.StatusCode {
			t.Errorf("%s: then %d %s", name, again.StatusCode, body)
		}
		pass, err := s.try(t.Context(), "GET", "/charges", "")
		if err != nil { // what is cut off there is cut off here
			if !strings.HasPrefix(name, "broken") {
				t.Errorf("%s: passed through: %v", name, err)
			}
			continue
		}
		_ = pass.Body.Close()
		for _, resp := range []*http.Response{first, pass} {
			if c.absent != "" && len(resp.Header[c.absent]) > 0 {
				t.Errorf("%s: %v", name, resp.Header)
			}
		}
		if w.count() != 2 {
			t.Errorf("%s: the upstream got %q", name, w.got)
		}
	}
}

func TestUpgrades(t *testing.T) {
	var hits atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		if r.Header.Get("Upgrade") != "websocket" {
			t.Errorf("upgrade %q", r.Header.Get("Upgrade"))
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: " +
			"Upgrade\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString("echo " + line)
		_ = rw.Flush()
	}))
	defer up.Close()
	s := newSetup(t, plain+"- {path: /ws, upstream: UPSTREAM, principal: shop, key: ignore}\n", up.URL)
	ask := func(method, path, protocol string) string {
		return method + " " + path + " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: " + protocol +
			"\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n"
	}
	for _, request := range []string{ask("GET", "/charges", "websocket"), ask("POST", "/charges",
		"websocket"),
		ask("GET", "/charges", "h2c"), ask("GET", "/ws", "h2c"), ask("GET", "/ws", "websocket, h2c")} {
		resp, body := s.raw(request)
		want(t, reply{resp, body}, 400, `"Upgrade"`, false)
	}
	if hits.Load() != 0 {
		t.Errorf("%d upgrades reached the upstream", hits.Load())
	}
	conn := s.dial()
	defer conn.Close()
	_, _ = io.WriteString(conn, ask("GET", "/ws", "websocket"))
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if line, err := r.ReadString('\n'); line != "echo hello\n" {
		t.Errorf("%q %v", line, err)
	}
}

func TestBodyLimits(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, plain+"  max_body: 1KiB\n", g.URL)
	big := strings.Repeat("x", 1025)
	for _, method := range []string{"POST", "OPTIONS"} {
		resp, body := s.call(method, "/charges", big, "Idempotency-Key", "k")
		want(t, reply{resp, body}, 413, `"too_large"`, false)
		resp, body = s.raw(method + " /charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: " +
			"k\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"401\r\n" + big + "\r\n0\r\n\r\n")
		if method == "POST" {
			want(t, reply{resp, body}, 413, `"too_large"`, false)
		}
	}
	// One that waits for leave to send its body is told before it sends it.
	resp, body := s.raw("POST /charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nExpect: " +
		"100-continue\r\n" +
		"Content-Length: 1025\r\n\r\n")
	want(t, reply{resp, body}, 413, `"too_large"`, false)
	resp, body = s.call("POST", "/charges", big[:1024], "Idempotency-Key", "k")
	want(t, reply{resp, body}, 201, "", false)
	if g.bodies[len(g.bodies)-1] != big[:1024] {
		t.Error("another body arrived")
	}
}

func TestExpectContinue(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, plain, g.URL)
	conn := s.dial()
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nExpect: "+
		"100-continue\r\nContent-Length: 2\r\n\r\n")
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatal(line, err)
	}
	_, _ = r.ReadString('\n')
	_, _ = io.WriteString(conn, "{}")
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 201 {
		t.Fatal(resp, err)
	}
	if g.last().Header.Get("Expect") != "" || g.last().ContentLength != 2 {
		t.Errorf("%v", g.last().Header)
	}
}

// A body that comes too slowly, or not at all, claims nothing.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	s := newSetup(t, plain, g.URL, func(c *Config) { c.BodyTime = time.Second })
	resp, body := s.raw("POST /charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: " +
		"9\r\n\r\nabc")
	want(t, reply{resp, body}, 408, `"request_timeout"`, false)
	g.charged(t, 0)
	g.answer = func(int, http.ResponseWriter, *http.Request) bool {
		<-time.After(1200 * time.Millisecond) // longer than the body may take
		return false
	}
	s.pays(201, "", false)
}

func TestRequestSmuggling(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, plain, g.URL)
	head := "POST /charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nConnection: close\r\n"
	smuggled := "POST /charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: evil\r\nContent-Length: 0\r\n\r\n"
	for _, request := range []string{
		head + "Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
		head + "Content-Length: +5\r\n\r\nhello",
		head + "Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n\r\nhello",
		head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		head + "Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + smuggled,
	} {
		if resp, body := s.raw(request); resp.StatusCode < 400 {
			t.Errorf("%.120q: %d %s", request, resp.StatusCode, body)
		}
	}
	g.charged(t, 0)
	// Both lengths: the chunks count, one clean request goes on, the rest is cut off.
	resp, body := s.raw(head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\nTrailer: Sum, " +
		"Idempotency-Key\r\n\r\n" +
		"5\r\nhello\r\n0\r\nSum: 1\r\nIdempotency-Key: evil\r\n\r\n" + smuggled)
	if resp.StatusCode != 201 && resp.StatusCode != 400 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	for i, r := range g.sends {
		if r.ContentLength != int64(len(g.bodies[i])) || len(r.TransferEncoding) > 0 || len(r.Trailer) > 0 {
			t.Errorf("%d %v %v", r.ContentLength, r.TransferEncoding, r.Trailer)
		}
	}
	if len(g.sends) > 1 {
		t.Errorf("%d sends", len(g.sends))
	}
}

func TestPaths(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, `
routes:
- {path: "/x/pay", upstream: UPSTREAM, principal: shop, others: refuse, methods: [POST]}
- {path: "/x/{id}/pay", upstream: UPSTREAM, principal: shop, others: refuse, methods: [POST]}
- {path: "/x/*", upstream: UPSTREAM, principal: shop, key: ignore}
`, g.URL)
	for path, status := range map[string]int{
		// A POST without a key: 201 where keys are ignored, 400 where they are required.
		"/x/other": 201, "/x/a/b": 201, "/x/a%2Fpay": 201, "/x/a%20b": 201, "/x/pay/more": 201,
		"/x/pay": 400, "/x/p%61y": 400, "/x/%70%61%79": 400, "/x/1/pay": 400, "/x/a%2Fb/pay": 400,
		"/x/pay/": 400, "/x/pay;v=1": 400, "/x/1;a=b/pay": 400, "/x/1/pay/;x": 400, "/x/1/pay;": 400,
		"//x/other": 400, "/x//other": 400, "/x/./other": 400, "/x/../x/other": 400, "/x/%2e%2e/other": 400,
		"/x/%2E./other": 400, "/x/..;/other": 400, "/x/.;x=1/other": 400, "/x/%252e%252e/other": 400,
		"/x/..%2fother": 400, "/x/a%2f..%2fpay": 400, "/x/..%5cother": 400, "/x/a\\b": 400, "/x/a%5Cb": 400,
		"/x/a%00b": 400, "/x/a%0d%0ab": 400, "/x/a%7f": 400, "/x/a%2f%2fb": 400, "/x/%25252525252e": 400,
		"/x/\"": 400, "/x/" + strings.Repeat("a", 9000): 400,
		"/": 404, "/y": 404, "/x": 404, "/X/other": 404, "/v1/claims": 404, "/x%2Fother": 404, "/x/": 201,
		"http://evil/x/other": 201, "http://evil/x/../x/other": 400,
	} {
		g.sends = nil
		resp, body := s.raw("POST " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
			"0\r\n\r\n")
		if resp.StatusCode != status {
			t.Errorf("%.60s: %d %s", path, resp.StatusCode, body)
		}
		if sent := len(g.sends) > 0; sent != (status == 201) {
			t.Errorf("%.60s: sent is %v", path, sent)
		}
		if status == 201 && g.last().RequestURI != strings.TrimPrefix(path, "http://evil") {
			t.Errorf("%s became %s", path, g.last().RequestURI)
		}
	}
}

func TestRequestIDAndProblems(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, plain, g.URL)
	r := httptest.NewRequest(http.MethodPost, "/charges", nil)
	r = r.WithContext(problem.WithRequestID(r.Context(), "rq_1"))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), `"request_id":"rq_1"`) {
		t.Errorf("%s", w.Body)
	}
	r.Header.Set("Idempotency-Key", "k")
	s.ServeHTTP(httptest.NewRecorder(), r)
	if g.last().Header.Get("Request-Id") != "rq_1" {
		t.Errorf("%v", g.last().Header)
	}
}
