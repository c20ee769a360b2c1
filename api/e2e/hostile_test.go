package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestTokenGuessing(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	s := start(t, g, shop)
	_, known := s.pay("sesame-before") // the token has been seen
	from := func(ip, token string) *http.Client {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		t.Cleanup(s.Client.CloseIdleConnections)
		return &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: d.DialContext,
			DisableKeepAlives: true}}
	}
	ask := func(ip, path, token string) (int, string, string) {
		resp, err := from(ip, token).Do(s.request("POST", path, `{"cents":100}`, "Authorization", token,
			"Idempotency-Key", "sesame-before"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		s.checkError(resp, string(body))
		id := resp.Header.Get("Request-Id")
		return resp.StatusCode, strings.ReplaceAll(string(body), id, ""), resp.Header.Get("Retry-After")
	}
	_, admin := s.send("GET", "/v1/tokens", "", "Authorization", "Bearer "+s.admin)
	id, _, _ := strings.Cut(strings.SplitAfter(admin, `"id":"`)[1], `"`)
	wrong := "onced_" + strings.Repeat("a", len(s.client)-6)
	bodies := map[string]bool{}
	for i, token := range []string{"Bearer " + wrong, "Bearer " + s.client[:len(s.client)-1] + "!",
		"Bearer " + id,
		"Basic " + s.client, "Bearer x"} {
		path := []string{"/charges", "/v1/claims"}[i%2]
		status, body, _ := ask("127.0.0.2", path, token)
		if status != 401 {
			t.Errorf("guess %d: %d %s", i, status, body)
		}
		bodies[body] = true
	}
	if len(bodies) != 1 {
		t.Errorf("refusals can be told apart: %v", bodies)
	}
	for _, path := range []string{"/charges", "/v1/claims"} {
		if status, body, after := ask("127.0.0.2", path, "Bearer "+wrong); status != 429 || after == "" ||
			after == "0" {
			t.Errorf("%s: %d %s, Retry-After %q", path, status, body, after)
		}
		if status, _, _ := ask("127.0.0.3", path, "Bearer "+wrong); status != 401 {
			t.Errorf("%s: somebody else is answered %d", path, status)
		}
	}
	// Who guesses locks nobody out who shares the address.
	if status, body, _ := ask("127.0.0.2", "/charges", "Bearer "+s.client); status != 201 || body != known {
		t.Errorf("a client behind the same address: %d %s", status, body)
	}
	if status, body, _ := ask("127.0.0.2", "/charges", "Bearer "+s.newToken("new", "viewer")); status != 403 {
		t.Errorf("a new token behind the same address: %d %s", status, body)
	}
	if n := len(g.got()); n != 1 {
		t.Errorf("%d charges", n)
	}
}

// What is not ours to see answers as what is not there.
func TestForeignClaimsDoNotExist(t *testing.T) {
	t.Parallel()
	s := start(t, newGateway(t), shop)
	other := s.newToken("other", "client")
	as := []string{"Authorization", "Bearer " + s.client, "Content-Type", "application/json"}
	resp, body := s.send("POST", "/v1/claims",
		`{"operation":"o","key":"sesame-k","token":"0123456789abcdef0123",`+
			`"payload":"x","lease_s":60}`, as...)
	if resp.StatusCode != 201 {
		t.Fatal(resp.StatusCode, body)
	}
	path := resp.Header.Get("Location")
	seen := map[string]bool{}
	for _, p := range []string{path, path[:len(path)-4] + "AAAA"} {
		resp, body := s.send("GET", p, "", "Authorization", "Bearer "+other)
		seen[fmt.Sprint(resp.StatusCode, strings.NewReplacer(resp.Header.Get("Request-Id"), "", p,
			"").Replace(body))] = true
	}
	if len(seen) != 1 || !strings.HasPrefix(strings.Join(keysOf(seen), ""), "404") {
		t.Errorf("%v", seen)
	}
	for _, token := range []string{"", s.client, other} {
		for _, p := range []string{"/metrics", "/v1/tokens"} {
			resp, body := s.send("GET", p, "", "Authorization", "Bearer "+token)
			if resp.StatusCode != 401 && resp.StatusCode != 403 || strings.Contains(body, "go_goroutines") {
				t.Errorf("%s: %d %s", p, resp.StatusCode, body)
			}
		}
	}
}

func keysOf(m map[string]bool) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

// A path is of the API, or goes on, or is refused; none is taken for two.
func TestPathConfusion(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	s := start(t, g, shop)
	ask := func(target string) answer {
		t.Helper()
		got := s.raw("GET "+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "GET")
		if len(got) != 1 {
			t.Fatalf("%q: %d answers", target, len(got))
		}
		return got[0]
	}
	for _, target := range []string{
		"//v1/claims", "/V1/claims", "/%76%31/claims", "/%56%31/claims", "/x/../v1/claims",
		"/x/%2e%2e/v1/claims",
		"/x/..%2fv1/claims", "/v1;x/claims", "/v1%3bx/claims", "/./v1/claims", "/v1/./claims", "/v1//claims",
		"/v1/claims/", "/v1%2fclaims", "/%2fv1/claims", "/v1%5cclaims", `/v1\claims`, `/\v1/claims`,
		"/v1%00/claims",
		"/v1%20/claims", "/v1./claims", "/.%2fv1/claims", "/%252e%252e/v1/claims", "/%2576%2531/claims",
		"/x/..;/v1/claims", "/LIVEZ", "/livez/", "/livez;x", "/%6civez", "/Metrics", "/metrics/",
		"/%6detrics",
		"//metrics", "/openapi%2eyaml", "/problems/", "/x/..", "/..", "/%2e", "/a%00b",
		"/a%0d%0aX-Evil:%20b", "*",
		"http://x//v1/claims", "http://x/V1/claims", "http://x", "x", "http:v1",
		"/http://evil.example/", "/v\x01",
	} {
		got := ask(target)
		if got.StatusCode != 400 || got.Header.Get("X-Evil") != "" {
			t.Errorf("%q: %d %.100s", target, got.StatusCode, got.body)
		}
		g.nothing(t, target)
	}
	for target, status := range map[string]int{
		"/v1/claims": 401, "/v1/nothing": 404, "/v1": 404, "/livez": 200, "http://evil.example/livez": 200,
		"http://" + g.addr + "/v1/claims": 401, "https://x:1/metrics": 401, "http:/v1/claims": 401,
	} {
		if got := ask(target); got.StatusCode != status {
			t.Errorf("%q: %d %.100s, want %d", target, got.StatusCode, got.body, status)
		}
		g.nothing(t, target)
	}
	// Whoever is named in the request, the configured service is asked.
	for target, sent := range map[string]string{
		"/v2/x": "/v2/x", "/xv1": "/xv1", "/a%2fb": "/a%2fb", "/a%20b?c=%0a": "/a%20b?c=%0a",
		"http://evil.example/a?b": "/a?b", "http://user:pw@evil.example:1/a": "/a",
		"/a?//v1/claims": "/a?//v1/claims", "/a;b": "/a;b", "/@evil.example": "/@evil.example",
	} {
		got := ask(target)
		sends := g.got()
		if len(sends) != 1 || sends[0].target != sent || sends[0].host != g.addr {
			t.Errorf("%q: %d %.100s, sent on %+v", target, got.StatusCode, got.body, sends)
		}
	}
	for _, request := range []string{"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example:80\r\n",
		"CONNECT / HTTP/1.1\r\nHost: x\r\n", "GET /livez HTTP/2.0\r\nHost: x\r\n",
		"GET /livez HTTP/1.2\r\nHost: x\r\n",
		"PRI * HTTP/2.0\r\n", "GET /livez\r\n", "G\x00T /livez HTTP/1.1\r\nHost: x\r\n",
		"GET  /livez HTTP/1.1\r\nHost: x\r\n"} {
		for _, got := range s.raw(request+"Connection: close\r\n\r\n", "GET") {
			if got.StatusCode < 400 && !strings.Contains(request, "1.2") {
				t.Errorf("%q: %d %s", request, got.StatusCode, got.body)
			}
		}
		g.nothing(t, request)
	}
}

// Whatever the service behind answers, a client gets one well-formed answer that
// cannot be taken for two, and the outcome is told.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		status int
	}{
		"split by a carriage return": {"HTTP/1.1 201 Yes\r\nX: a\rSet-Cookie: evil\r\nContent-Length: 0" +
			"\r\n\r\n", 0},
		"a header with a NUL":     {"HTTP/1.1 201 Yes\r\nX: evil\x00\r\nContent-Length: 0\r\n\r\n", 0},
		"a name with a blank":     {"HTTP/1.1 201 Yes\r\nX evil: b\r\nContent-Length: 0\r\n\r\n", 0},
		"a control character":     {"HTTP/1.1 201 Yes\r\nX: evil\x01\r\nContent-Length: 0\r\n\r\n", 502},
		"a status line with more": {"HTTP/1.1 201 evil\r\nContent-Length: 0\r\n\r\n", 201},
		"two lengths": {"HTTP/1.1 201 Yes\r\nContent-Length: 1\r\nContent-Length: 4" +
			"\r\n\r\nevil", 502},
		"length and chunks": {"HTTP/1.1 201 Yes\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"2\r\nok\r\n0\r\n\r\n", 201},
		"an answer behind the answer": {"HTTP/1.1 201 Yes\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 ev" +
			"il\r\n\r\n", 201},
		"no HTTP":               {"evil evil evil\r\n\r\n", 502},
		"a status of no answer": {"HTTP/1.1 999 evil\r\nContent-Length: 0\r\n\r\n", 502},
		"a switch of protocols": {"HTTP/1.1 101 evil\r\nUpgrade: evil\r\nConnection: Upgrade" +
			"\r\n\r\n", 502},
		"a header of 1 MiB": {"HTTP/1.1 201 Yes\r\nX: " + strings.Repeat("evil", 256<<10) +
			"\r\n\r\n", 502},
		"a broken chunk": {"HTTP/1.1 201 Yes\r\nTransfer-Encoding: chunked\r\n\r\nevil\r\n",
			502},
		"a body that breaks off": {"HTTP/1.1 201 Yes\r\nContent-Length: 9\r\n\r\nevil", 502},
		"claims to be a replay": {"HTTP/1.1 201 Yes\r\nIdempotency-Replayed: evil\r\nRequest-Id: evil\r\n" +
			"Content-Length: 0\r\n\r\n", 201},
		"hints without end": {strings.Repeat("HTTP/1.1 103 Hi\r\nX: evil\r\n\r\n", 10_000), 502},
	} {
		g := newWire(t, nil, c.answer)
		s := start(t, g, shop)
		for i := range 2 {
			got := s.raw(open + "Idempotency-Key: sesame-1\r\nContent-Length: 2\r\n\r\n{}")
			if len(got) != 1 {
				t.Fatalf("%s: %d answers", name, len(got))
			}
			want := c.status
			if want == 502 && i == 1 {
				want = 409 // it is not known what happened
			}
			if want != 0 && got[0].StatusCode != want || strings.Contains(fmt.Sprint(got[0].Header,
				got[0].body), "evil") {
				t.Errorf("%s: %d %.200s %v", name, got[0].StatusCode, got[0].body, got[0].Header)
			}
		}
		if n := len(g.got()); n != 1 {
			t.Errorf("%s: sent %d times", name, n)
		}
	}
}

func TestAnswersWithoutEnd(t *testing.T) {
	t.Parallel()
	g := newWire(t, func(c net.Conn) {
		block := bytes.Repeat([]byte("x"), 64<<10)
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}, "HTTP/1.1 201 Yes\r\nContent-Type: text/plain\r\n\r\n")
	s := start(t, g, shop)
	var got atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			resp, err := s.Do(s.request("POST", "/open", "{}", "Idempotency-Key", fmt.Sprint("sesame-", i)))
			if err != nil {
				t.Error(err)
				return
			}
			n, err := io.Copy(io.Discard, resp.Body)
			if err == nil {
				t.Error("an answer that was cut off looks whole")
			}
			got.Add(n)
			_ = resp.Body.Close()
		})
	}
	all.Wait()
	// The memory says that nobody has kept what went through.
	if m := s.memory(); m > 200<<20 {
		t.Errorf("%d MiB of memory for %d MiB of answers", m>>20, got.Load()>>20)
	}
	for i := range 8 {
		resp, body := s.send("POST", "/open", "{}", "Idempotency-Key", fmt.Sprint("sesame-", i))
		if resp.StatusCode != 201 || !strings.Contains(body, "result_too_large") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	if n := len(g.got()); n != 8 {
		t.Errorf("sent %d times", n)
	}
}

func TestServiceBehindThatHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	g := newWire(t, func(net.Conn) { <-release }, "")
	t.Cleanup(func() { close(release) })
	s := start(t, g, strings.ReplaceAll(shop, "timeout: 2s", "timeout: 1s"))
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			resp, err := s.Do(s.request("POST", "/open", "{}", "Idempotency-Key", fmt.Sprint("sesame-", i)))
			if err != nil || resp.StatusCode != 504 {
				t.Error(resp, err)
			}
		})
	}
	s.alive() // meanwhile
	all.Wait()
	for i := range 16 {
		resp, body := s.send("POST", "/open", "{}", "Idempotency-Key", fmt.Sprint("sesame-", i))
		if resp.StatusCode != 409 || !strings.Contains(body, "outcome_unknown") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	if n := len(g.got()); n != 16 {
		t.Errorf("sent %d times", n)
	}
}

func TestServiceBehindThatIsGone(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, &gateway{addr: l.Addr().String()}, shop)
	l.Close()
	for _, path := range []string{"/open", "/any"} {
		for range 2 { // nothing was done, so the key is free
			resp, body := s.send("POST", path, "{}", "Idempotency-Key", "sesame-gone")
			if resp.StatusCode != 502 || !strings.Contains(body, `"upstream_failed"`) {
				t.Errorf("%s: %d %s", path, resp.StatusCode, body)
			}
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	inside := newGateway(t)
	g := newGateway(t)
	g.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Location", "http://"+inside.addr+"/secrets")
		w.WriteHeader(http.StatusTemporaryRedirect)
		return true
	}
	s := start(t, g, shop)
	for _, path := range []string{"/open", "/any"} {
		resp, _ := s.send("POST", path, "{}", "Idempotency-Key", "sesame-r")
		if resp.StatusCode != 307 || resp.Header.Get("Location") != "http://"+inside.addr+"/secrets" {
			t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
		}
	}
	inside.nothing(t, "a redirect")
}

func TestBombsAreNotOpened(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = io.CopyN(z, zeros{}, 30<<20)
	_ = z.Close()
	g := newGateway(t)
	g.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
		return true
	}
	s := start(t, g, strings.ReplaceAll(shop, "64KiB", "1MiB"))
	for _, replayed := range []string{"", "true"} {
		resp, body := s.send("POST", "/open", bomb.String(), "Idempotency-Key", "sesame-b",
			"Content-Encoding", "gzip")
		if resp.StatusCode != 200 || body != bomb.String() || resp.Header.Get("Content-Encoding") != "gzip" ||
			resp.Header.Get("Idempotency-Replayed") != replayed {
			t.Errorf("%d, %d bytes %v", resp.StatusCode, len(body), resp.Header)
		}
	}
	resp, body := s.send("POST", "/v1/claims", bomb.String(), "Content-Encoding", "gzip", "Content-Type",
		"application/json", "Authorization", "Bearer "+s.client)
	if resp.StatusCode != 415 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if sends := g.got(); len(sends) != 1 || sends[0].body != bomb.String() {
		t.Errorf("%d sends", len(sends))
	}
	if m := s.memory(); m > 200<<20 {
		t.Errorf("%d MiB of memory", m>>20)
	}
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A request is served by one configuration, whole: the old or the new.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.answer = func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = fmt.Fprint(w, r.Header.Get("X-One"), r.Header.Get("X-Two"), " ", r.URL.Path)
		return true
	}
	config := func(name string) string {
		return strings.NewReplacer("UPSTREAM", "http://"+g.addr+"/"+name, "NAME", name).Replace(`
routes:
- {path: /a, upstream: UPSTREAM, principal: p, headers: [{name: X-One, value: NAME}, {name: X-Two,
	value: NAME}]}
- {path: /NAME, upstream: UPSTREAM, principal: p, headers: [{name: X-One, value: NAME}, {name: X-Two,
	value: NAME}]}
`)
	}
	s := start(t, g, config("old"))
	stop := make(chan struct{})
	var all sync.WaitGroup
	var n atomic.Int64
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := s.Do(s.request("POST", "/a", "", "Idempotency-Key", fmt.Sprint("sesame-",
					n.Add(1))))
				if err != nil {
					t.Error(err)
					return
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if text := string(body); text != "oldold /old/a" && text != "newnew /new/a" {
					t.Errorf("%d %q", resp.StatusCode, text)
				}
			}
		})
	}
	for i := range 10 {
		name := []string{"new", "old"}[i%2]
		s.write(config(name))
		s.hup("was reloaded", i+1)
		_, body := s.send("POST", "/a", "", "Idempotency-Key", fmt.Sprint("sesame-", n.Add(1)))
		if body != name+name+" /"+name+"/a" {
			t.Errorf("after the reload of %s: %s", name, body)
		}
		s.write(strings.Replace(config("bad"), "X-Two", "X Two", 1)) // its first route is right
		s.hup("was not reloaded", i+1)
	}
	close(stop)
	all.Wait()
	for path, status := range map[string]int{"/old": 200, "/new": 404, "/bad": 404} {
		if resp, body := s.send("POST", path, "", "Idempotency-Key",
			"sesame-end"); resp.StatusCode != status {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	resp, body := s.send("POST", "/a", "", "Idempotency-Key", "sesame-1")
	if resp.Header.Get("Idempotency-Replayed") != "true" || body != "oldold /old/a" &&
		body != "newnew /new/a" {
		t.Errorf("a key from before the reloads: %d %s", resp.StatusCode, body)
	}
}
