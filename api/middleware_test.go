package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"onced/api/auth"
	"onced/api/problem"
)

// echoFallback answers with the raw request line it was given.
func echoFallback(d *Deps) {
	d.Fallback = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("X-Fallback", "yes")
		_, _ = io.WriteString(w, r.RequestURI+" as "+r.Header.Get("Authorization"))
	})
}

// raw sends bytes as they are and returns the whole answer.
func (r *rig) raw(text string) string {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		r.t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil && len(got) == 0 {
		return "cut"
	}
	return string(got)
}

func (r *rig) rawGet(target string, headers ...string) string {
	r.t.Helper()
	lines := append([]string{"GET " + target + " HTTP/1.1", "Host: x", "Connection: close"}, headers...)
	return r.raw(strings.Join(lines, "\r\n") + "\r\n\r\n")
}

func TestOurPathsAreOurs(t *testing.T) {
	r := newRig(t, echoFallback)
	admin := "Authorization: Bearer " + r.secrets["admin"]
	for target, want := range map[string]string{
		// the API, and its refusal of strangers
		"/v1/tokens": "api", "/livez": "api", "/v1/nothing": "api", "/openapi.yaml": "api", "/metrics": "api",
		"/v1": "api", "/problems/stale": "api",
		// what a lenient reader could take for it
		"//v1/tokens": "refused", "/V1/tokens": "refused", "/%761/tokens": "refused",
		"/v%31/tokens": "refused",
		"/v1//tokens":  "refused", "/v1/tokens/": "refused", "/v1/": "refused", "/v1/%74okens": "refused",
		"/%2576%2531/tokens": "refused", "/%25252576%2531/x": "refused", "/x/../v1/tokens": "refused",
		"/./v1/tokens": "refused", "/v1/./tokens": "refused", "/v1/../x": "refused",
		"/x/%2e%2e/v1": "refused",
		"/x/..%2fv1":   "refused", "/v1%2ftokens": "refused", "/%2fv1/tokens": "refused",
		"/v1;a=b/tokens": "refused",
		"/;/v1/tokens":   "refused",
		`/\v1/tokens`:    "refused", `/x\..\v1`: "refused", "/x%5c..%5cv1": "refused",
		"/v1%00/tokens": "refused", "/v1%09": "refused", "/v1%20/x": "refused", "/v1./tokens": "refused",
		"/LiveZ": "refused", "/OPENAPI.yaml": "refused", "/metrics/": "refused", "/livez%3f": "other",
		"/x/%252e%252e/v1": "refused", "/x/..;/v1": "refused", "/x/.%2e/y": "refused",
		"/x/%0d%0aSet-Cookie:a": "refused",
		// what is not ours
		"/": "other", "/charge": "other", "/v2/tokens": "other", "/v10": "other", "/v1x": "other",
		"/x/v1/tokens": "other",
		"/x//y":        "other", "/x/%2f/y": "other", "/x/...": "other", "/x/.y": "other", "/100%25": "other",
		"/x?p=/v1":   "other",
		"/caf%C3%A9": "other", "/x/a;b=c": "other", "/%25zz": "other",
		"http://other.example/charge": "other", "http://other.example/v1/tokens": "api",
	} {
		got := r.rawGet(target, admin)
		kind := "api"
		switch {
		case strings.Contains(got, "X-Fallback"):
			kind = "other"
			if !strings.Contains(got, target+" as Bearer") {
				t.Errorf("%s: the fallback got another request: %s", target, got)
			}
		case strings.Contains(got, `"code":"bad_path"`), strings.HasPrefix(got,
			"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain"):
			kind = "refused"
		}
		if kind != want {
			t.Errorf("%s: %s, want %s\n%.300s", target, kind, want, got)
		}
	}
}

// Whatever the path is, an answer of the API without a token is 401, and the
// fallback sees nothing that could be the API's.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"/v1/tokens", "//v1", "/x/../v1", "/%761", "/V1;x", "/x%2f..%2fv1", "/\\v1",
		"/a/b?c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			return
		}
		where, why := placeOf(u)
		clean := strings.ToLower(u.Path)
		for _, cut := range []string{"/v1", "/metrics"} {
			ours := clean == cut || strings.HasPrefix(clean, cut+"/")
			if ours && where == otherPath {
				t.Errorf("%q goes to the fallback", raw)
			}
		}
		if where == apiPath && (u.RawPath != "" || u.EscapedPath() != u.Path || strings.Contains(u.Path,
			"//") ||
			strings.Contains(u.Path, "/.")) {
			t.Errorf("%q goes to the API and is not plain", raw)
		}
		if (where == refusedPath) != (why != "") {
			t.Errorf("%q: place %d, reason %q", raw, where, why)
		}
	})
}

func TestWithoutFallbackOthersAreNotFound(t *testing.T) {
	r := newRig(t)
	a := r.ask("", "GET /charge", nil).want(t, 404, problem.NotFound)
	if a.header.Get("Request-Id") != a.problem.RequestID {
		t.Errorf("%v %s", a.header, a.raw)
	}
	got := r.raw("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 400") {
		t.Errorf("CONNECT: %.100s", got)
	}
	if got := r.raw("OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); strings.HasPrefix(got,
		"HTTP/1.1 5") {
		t.Errorf("OPTIONS *: %.100s", got)
	}
}

func TestRequestIDs(t *testing.T) {
	r := newRig(t)
	for given, kept := range map[string]bool{
		"abc": true, "a.B-3_z": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "a\tb": false, "é": false, "a/b": false,
		"<script>": false, `a"b`: false, "a,b": false, strings.Repeat("x", 8000): false,
	} {
		a := r.ask("", "GET /v1/nothing", nil, "Request-Id", given).want(t, 404, problem.NotFound)
		id := a.header.Get("Request-Id")
		if (id == given) != kept || id == "" || a.problem.RequestID != id ||
			len(a.header.Values("Request-Id")) != 1 {
			t.Errorf("%.70q became %q, in the body %q", given, id, a.problem.RequestID)
		}
		if !strings.Contains(r.log.String(), `"request_id":"`+id+`"`) {
			t.Errorf("%q is not in the log", id)
		}
	}
	got := r.rawGet("/livez", "Request-Id: one", "Request-Id: two")
	if strings.Contains(got, "Request-Id: one") || strings.Contains(got, "Request-Id: two") {
		t.Errorf("one of two ids was taken: %s", got)
	}
	got = r.rawGet("/livez", "Request-Id: a\r\n Set-Cookie: b")
	if strings.Contains(got, "Set-Cookie") {
		t.Errorf("an injected header: %s", got)
	}
	first, second := r.ask("", "GET /livez", nil), r.ask("", "GET /livez", nil)
	if first.header.Get("Request-Id") == second.header.Get("Request-Id") {
		t.Error("two requests have one id")
	}
}

// The order of things: each step is seen to stand before the next one.
func TestOrderOfThings(t *testing.T) {
	boom := func(d *Deps) {
		d.Fallback = http.HandlerFunc(func(http.ResponseWriter,
			*http.Request) {
			panic("secret of the panic")
		})
	}
	r := newRig(t, boom)
	// 1 before 3, 2 around 3: a panic has an id, is logged and observed as 500.
	a := r.ask("", "POST /boom?key=value", map[string]any{"pan": "4242"}).want(t, 500, problem.Internal)
	if id := a.header.Get("Request-Id"); id == "" || a.problem.RequestID != id ||
		!strings.Contains(r.log.String(), id) {
		t.Errorf("%s", a.raw)
	}
	// What a handler panics with may be of the request: the log has its type only,
	// and where it was.
	if log := r.log.String(); strings.Contains(string(a.raw)+log, "secret") ||
		!strings.Contains(log, `"type":"string"`) || !strings.Contains(log, "middleware_test.go") {
		t.Errorf("%s\n%s", a.raw, log)
	}
	r.watch.saw(t, func(d Done) bool { return d.Status == 500 && d.Route == "proxy" && d.Method == "POST" })
	// 4 before 5: a suspicious path does not reach the fallback, and is no 500.
	r.ask("", "GET /x/../boom", nil).want(t, 400, problem.BadPath)
	// 5: the fallback's answers have no headers of ours but the id.
	if a.header.Get("Content-Security-Policy") != "" {
		t.Errorf("%v", a.header)
	}
	if b := r.ask("", "GET /v1/none", nil); b.header.Get("Content-Security-Policy") == "" ||
		b.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v", b.header)
	}
	// 6 before 7: what does not exist asks for no token.
	r.ask("", "GET /v1/none", nil).want(t, 404, problem.NotFound)
	if b := r.ask("", "DELETE /v1/claims", nil).want(t, 405, problem.MethodNotAllowed); !strings.Contains(
		b.header.Get("Allow"), "POST") {
		t.Errorf("Allow: %q", b.header.Get("Allow"))
	}
	// 7 before 8 before 9.
	r.ask("", "POST /v1/claims?x=1", "garbage").want(t, 401, problem.Unauthorized)
	r.ask("viewer", "POST /v1/claims?x=1", "garbage").want(t, 403, problem.Forbidden)
	r.ask("acme", "POST /v1/claims?x=1", "garbage").want(t, 400, problem.UnknownField)
	r.ask("acme", "POST /v1/claims", "garbage").want(t, 400, problem.InvalidJSON)
	r.ask("acme", "POST /v1/claims", "garbage", "Content-Type", "text/plain").want(t, 415,
		problem.UnsupportedMediaType)
}

func TestPanicAfterTheAnswerBeganCutsTheConnection(t *testing.T) {
	r := newRig(t, func(d *Deps) {
		d.Fallback = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic("now")
		})
	})
	resp, err := http.Get(r.url + "/x")
	if err == nil {
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
	}
	if err == nil {
		t.Error("a broken answer looked whole")
	}
	r.ask("", "GET /livez", nil).want(t, 200, "")
}

func TestLogSaysWhatWasReplayed(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	r.ask("acme", "POST "+path+"/done", own()).want(t, 200, "")
	r.watch.saw(t, func(d Done) bool { return strings.HasSuffix(d.Route, "/done") })
	if strings.Contains(r.log.String(), `"replayed":true`) {
		t.Errorf("nothing was replayed: %s", r.log)
	}
	r.ask("acme", "POST /v1/claims", claimBody("k")).want(t, 200, "")
	r.watch.saw(t, func(d Done) bool { return d.Route == "/v1/claims" && d.Status == 200 })
	if strings.Count(r.log.String(), `"replayed":true`) != 1 {
		t.Errorf("%s", r.log)
	}
}

func TestAbortIsNoPanicOfOurs(t *testing.T) {
	r := newRig(t, func(d *Deps) {
		d.Fallback = http.HandlerFunc(func(http.ResponseWriter,
			*http.Request) {
			panic(http.ErrAbortHandler)
		})
	})
	if got := r.rawGet("/x"); got != "" && got != "cut" {
		t.Errorf("%q", got)
	}
	if strings.Contains(r.log.String(), `"panic"`) || !strings.Contains(r.log.String(), `"route":"proxy"`) {
		t.Errorf("%s", r.log)
	}
}

func TestLogHasNoSecrets(t *testing.T) {
	r := newRig(t, func(d *Deps) {
		d.Fallback = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			SetRoute(r.Context(), "charges")
			SetCaller(r.Context(), auth.Identity{TokenID: "tk_of_the_proxy"})
		})
	})
	r.ask("acme", "POST /v1/claims", claimBody("card-4242", "payload", "pan=4242")).want(t, 201, "")
	r.ask("acme", "GET /v1/claims?operation=op-4242", nil)
	r.ask("wrong-token-4242-wrong-token-4242-wrong", "GET /v1/claims", nil)
	r.ask("acme", "GET /v1/claims/cl_4242", nil)
	r.ask("", "GET /pay/4242?pan=4242", nil, "Request-Id", "known-id", "Cookie", "c=4242", "User-Agent",
		"4242")
	log := r.log.String()
	for _, secret := range append([]string{"4242", tokenA}, r.secrets["acme"]) {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q:\n%s", secret, log)
		}
	}
	var last map[string]any
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]any{"request_id": "known-id", "route": "charges", "method": "GET",
		"status":   200.0,
		"token_id": "tk_of_the_proxy", "remote": "127.0.0.1"} {
		if k == "status" {
			v = 0.0 // nothing was written: net/http says 200 later
		}
		if last[k] != v {
			t.Errorf("%s: %v, want %v", k, last[k], v)
		}
	}
	if len(lines) != 5 {
		t.Errorf("%d lines for 5 requests", len(lines))
	}
}

func TestStrangeMethodsHaveOneLabel(t *testing.T) {
	r := newRig(t)
	r.raw("BREW /v1/claims HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	r.watch.saw(t, func(d Done) bool { return d.Method == "other" && d.Status == 405 })
}

func TestReadiness(t *testing.T) {
	cond := []Condition{{Name: "store", OK: true}, {Name: "space", OK: true}}
	r := newRig(t, func(d *Deps) { d.Readiness = readyFunc(func() []Condition { return cond }) })
	if a := r.ask("", "GET /readyz", nil).want(t, 200, ""); a.text("status") != "ready" {
		t.Errorf("%s", a.raw)
	}
	cond = []Condition{{Name: "store", OK: true}, {Name: "space", Reason: "the disk is nearly full"}}
	a := r.ask("", "GET /readyz", nil).want(t, 503, "")
	if a.text("status") != "not_ready" || !strings.Contains(string(a.raw), "nearly full") {
		t.Errorf("%s", a.raw)
	}
	r.ask("", "GET /livez?probe=1", nil).want(t, 200, "")
}

type readyFunc func() []Condition

// Ready implements Readiness.
func (f readyFunc) Ready(context.Context) []Condition { return f() }

func TestBodies(t *testing.T) {
	r := newRig(t, func(d *Deps) { d.MaxBody, d.MaxResultBody = 1000, 5000 })
	pad := func(n int) string {
		s := `{"operation":"charge","key":"k","token":"` + tokenA + `","lease_s":30,"payload":"`
		return s + strings.Repeat("p", n-len(s)-2) + `"}`
	}
	r.ask("acme", "POST /v1/claims", pad(1000)).want(t, 201, "")
	a := r.ask("acme", "POST /v1/claims", pad(1001)).want(t, 413, problem.TooLarge)
	if !strings.Contains(a.problem.Detail, "1000") {
		t.Errorf("%s", a.raw)
	}
	path := r.acquire("l")
	r.ask("acme", "POST "+path+"/heartbeat", own("lease_s", 5)).want(t, 200, "")
	r.ask("acme", "POST "+path+"/done", own("result", strings.Repeat("r", 4000))).want(t, 200, "")
	r.ask("acme", "POST "+path+"/done", own("result", strings.Repeat("r", 5000))).want(t, 413,
		problem.TooLarge)
	for _, ct := range []string{"", "text/json", "application/json; charset=latin1", "application/json; x=y",
		"application/jsonp", "a b"} {
		r.ask("acme", "POST /v1/claims", pad(900), "Content-Type", ct).want(t, 415,
			problem.UnsupportedMediaType)
	}
	r.ask("acme", "POST /v1/claims", pad(1000), "Content-Type", "application/json; charset=UTF-8").want(t,
		201, "")
	r.ask("acme", "POST /v1/claims", pad(1000), "Content-Encoding", "gzip").want(t, 415,
		problem.UnsupportedMediaType)
	head := "POST /v1/claims HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + r.secrets["acme"] + "\r\n"
	for name, c := range map[string]struct{ text, want string }{
		"two content types": {head +
			"Content-Type: application/json\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
			"415"},
		"chunked too large": {head +
			"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + pad(1001) +
			"\r\n0\r\n\r\n", "413"},
		"announced too large": {head + "Content-Type: application/json\r\nContent-Length: 99999999\r\n\r\n{",
			"413"},
		"two lengths": {head +
			"Content-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "400"},
		"length and chunks": {head +
			"Content-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n" +
			"Connection: close\r\n\r\n" +
			"2\r\n{}\r\n0\r\n\r\n", "400"},
		"two tokens": {strings.Replace(head, "\r\nAuth", "\r\nAuthorization: Bearer x\r\nAuth",
			1) + "Connection: close\r\n\r\n", "401"},
		"header too big": {head + "X: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", "431"},
	} {
		if got := r.raw(c.text); !strings.HasPrefix(got, "HTTP/1.1 "+c.want) && !(name == "header too big" &&
			got == "cut") {
			t.Errorf("%s: %.200s", name, got)
		}
	}
}

// A body that does not come is given up, and so is one that nobody will read.
func TestSlowBodies(t *testing.T) {
	r := newRig(t, func(d *Deps) { d.BodyTime = 50 * time.Millisecond })
	head := "POST /v1/claims HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n"
	got := r.raw(head + "Authorization: Bearer " + r.secrets["acme"] + "\r\n\r\n{")
	if !strings.HasPrefix(got, "HTTP/1.1 408") || !strings.Contains(got, "Connection: close") {
		t.Errorf("%.300s", got)
	}
	// These answer at once and close, although the body has not come: reading to
	// the end of the connection returns.
	for name, text := range map[string]string{
		"no token":  head + "\r\n{",
		"not found": strings.Replace(head, "/v1/claims", "/v1/none", 1) + "\r\n{",
		"bad path":  strings.Replace(head, "/v1/claims", "//v1", 1) + "\r\n{",
		"a GET":     strings.Replace(head, "POST /v1/claims", "GET /livez", 1) + "\r\n{",
	} {
		if got := r.raw(text); !strings.Contains(got, "Connection: close") {
			t.Errorf("%s: %.200s", name, got)
		}
	}
}

func TestConnectionIsKeptAfterAReadBody(t *testing.T) {
	r := newRig(t)
	a := r.ask("acme", "POST /v1/claims", `{"nonsense":1}`).want(t, 400, problem.UnknownField)
	if a.header.Get("Connection") == "close" {
		t.Error("a connection was wasted")
	}
}

func TestRequestTimeEnds(t *testing.T) {
	r := newRig(t, func(d *Deps) { d.RequestTime = time.Millisecond })
	r.deps.RequestTime = time.Minute
	server, err := New(r.deps)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	req := httptest.NewRequest("POST", "/v1/claims",
		strings.NewReader(`{"operation":"charge","key":"k","token":"`+tokenA+
			`","payload":"100 EUR","lease_s":30}`))
	req.Header.Set("Authorization", "Bearer "+r.secrets["acme"])
	req.Header.Set("Content-Type", "application/json")
	server.ServeHTTP(w, req)
	if w.Code != 201 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	r.ask("acme", "POST /v1/claims", claimBody("k", "token", tokenB, "wait_s", 5)).want(t, 503,
		problem.Unavailable)
}

func TestGuessingOverHTTP(t *testing.T) {
	r := newRig(t)
	for i := range 10 {
		r.ask(fmt.Sprintf("onced_%052d", i), "GET /v1/claims", nil).want(t, 401, problem.Unauthorized)
	}
	a := r.ask("onced_"+strings.Repeat("a", 52), "GET /v1/claims", nil).want(t, 429,
		problem.TooManyRequests)
	if a.header.Get("Retry-After") != "60" || a.problem.RetryAfter != 60 {
		t.Errorf("%v %s", a.header, a.raw)
	}
	r.ask("acme", "GET /v1/claims", nil).want(t, 200, "") // behind the same address
	r.ask("", "GET /livez", nil).want(t, 200, "")
	r.clock.Add(time.Minute)
	r.ask("onced_"+strings.Repeat("a", 52), "GET /v1/claims", nil).want(t, 401, problem.Unauthorized)
}

func TestClientIPIsTheConnectionsUnlessSet(t *testing.T) {
	r := newRig(t)
	for i := range 11 {
		r.ask(fmt.Sprintf("onced_%052d", i), "GET /v1/claims", nil, "X-Forwarded-For",
			fmt.Sprintf("10.0.0.%d", i),
			"X-Real-Ip", fmt.Sprintf("10.0.0.%d", i), "Forwarded", "for=10.0.0.9")
	}
	r.ask("onced_"+strings.Repeat("a", 52), "GET /v1/claims", nil, "X-Forwarded-For", "10.1.1.1").
		want(t, 429, problem.TooManyRequests)
}

func TestUpgradesReachTheFallback(t *testing.T) {
	r := newRig(t, func(d *Deps) {
		d.Fallback = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\nhello")
			_ = rw.Flush()
		})
	})
	got := r.rawGet("/ws", "Upgrade: x")
	if !strings.HasPrefix(got, "HTTP/1.1 103") || !strings.HasSuffix(got, "hello") {
		t.Errorf("%q", got)
	}
	r.watch.saw(t, func(d Done) bool { return d.Status == 101 })
}

func TestNewNeedsItsDeps(t *testing.T) {
	if _, err := New(Deps{}); err == nil {
		t.Error("a server without claims and tokens")
	}
}

func TestTokensOverHTTP(t *testing.T) {
	r := newRig(t)
	a := r.ask("admin", "POST /v1/tokens", map[string]any{"name": "shop", "role": "client",
		"principal":    "p1",
		"expires_in_s": 3600}).want(t, 201, "")
	secret, at := a.text("secret"), a.header.Get("Location")
	if a.header.Get("Cache-Control") != "no-store" || at != "/v1/tokens/"+a.text("token.id") {
		t.Errorf("%v", a.header)
	}
	r.ask(secret, "POST /v1/claims", claimBody("k")).want(t, 201, "")
	r.ask("admin", "POST /v1/tokens", map[string]any{"name": "shop", "role": "client"}).want(t, 409,
		problem.NameTaken)
	for member, value := range map[string]any{"name": "a b", "role": "root", "principal": "\n",
		"expires_in_s": -1} {
		body := map[string]any{"name": "x", "role": "viewer", member: value}
		if b := r.ask("admin", "POST /v1/tokens", body).want(t, 400,
			problem.InvalidField); b.problem.Param != member {
			t.Errorf("%s: at %q", member, b.problem.Param)
		}
	}
	r.ask("admin", "POST "+at+"/rotate", map[string]any{}).want(t, 428, problem.PreconditionRequired)
	b := r.ask("admin", "POST "+at+"/rotate", map[string]any{"overlap_s": 60}, "If-Match",
		a.header.Get("ETag")).want(t, 201, "")
	r.ask("admin", "POST "+at+"/rotate", map[string]any{"overlap_s": 60}, "If-Match", a.header.Get("ETag")).
		want(t, 412, problem.Stale)
	next := b.text("secret")
	if c := r.ask(next, "POST /v1/claims", claimBody("k")).want(t, 201,
		""); c.text("claim.principal") != "p1" {
		t.Errorf("the claims did not survive the rotation: %s", c.raw)
	}
	r.clock.Add(time.Minute)
	r.ask(secret, "GET /v1/claims", nil).want(t, 401, problem.Unauthorized)
	r.ask(next, "GET /v1/claims", nil).want(t, 200, "")
	r.ask("admin", "POST "+b.header.Get("Location")+"/revoke", map[string]any{"reason": "lost"}).want(t, 200,
		"")
	r.ask(next, "GET /v1/claims", nil).want(t, 401, problem.Unauthorized)
	list := r.ask("admin", "GET /v1/tokens?limit=200", nil).want(t, 200, "")
	for _, s := range r.secrets {
		if strings.Contains(string(list.raw), s) || strings.Contains(r.log.String(), s) {
			t.Error("a secret in a listing or a log")
		}
	}
	if strings.Contains(string(list.raw), "secret") {
		t.Errorf("%s", list.raw)
	}
	r.ask("admin", "GET /v1/tokens/tk_none", nil).want(t, 404, problem.NotFound)
	r.ask("admin", "POST /v1/tokens/tk_none/revoke", map[string]any{}).want(t, 404, problem.NotFound)
}

// A client that goes while it waits harms nothing.
func TestVanishedClient(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", r.url+path+"?wait_s=10", nil)
	req.Header.Set("Authorization", "Bearer "+r.secrets["acme"])
	done := make(chan error, 1)
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	r.ask("acme", "POST "+path+"/done", own()).want(t, 200, "")
	if strings.Contains(r.log.String(), `"level":"ERROR"`) {
		t.Errorf("%s", r.log)
	}
}

func TestDoneIsFlushedWhole(t *testing.T) {
	r := newRig(t, func(d *Deps) {
		d.Fallback = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			f, ok := w.(http.Flusher)
			if !ok {
				panic("no Flusher")
			}
			_, _ = io.WriteString(w, "one\n")
			f.Flush()
			_, _ = io.WriteString(w, "two\n")
		})
	})
	resp, err := http.Get(r.url + "/x")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n := 0
	for s := bufio.NewScanner(resp.Body); s.Scan(); n++ {
	}
	if n != 2 {
		t.Errorf("%d lines", n)
	}
}
