package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"onced/kv/claim"
	"onced/kv/memkv"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

const plain = `
routes:
- path: /charges
  upstream: UPSTREAM
  principal: shop
`

const checked = plain + `
  settles_after: 1ms
  check:
    path: /charges/{downstream_key}
    done: {status: 200}
    absent: {status: 404}
    reply_status: 201
`

const repeatable = plain + "  repeatable: true\n"

func TestIK01_OneChargeAndTheSameAnswer(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, plain, g.URL)
	s.pays(201, `{"charges":1}`, false)
	for range 3 {
		s.pays(201, `{"charges":1}`, true)
	}
	g.charged(t, 1)
	g.oneKey(t, 1)
	if g.bodies[0] != `{"amount":"10.00"}` {
		t.Errorf("body %q", g.bodies[0])
	}
}

func TestIK02_FiftyAtOnce(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, plain, g.URL)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			resp, err := s.try(context.Background(), "POST", "/charges", "{}", "Idempotency-Key", "k")
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 201 || string(body) != `{"charges":1}` {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	}
	wg.Wait()
	g.charged(t, 1)
}

func TestIK04_OtherBody(t *testing.T) {
	g := newGateway(t)
	release, entered := make(chan struct{}), make(chan struct{})
	g.answer = func(int, http.ResponseWriter, *http.Request) bool {
		close(entered)
		<-release
		return false
	}
	s := newSetup(t, plain, g.URL)
	var wg sync.WaitGroup
	wg.Go(func() { s.pays(201, "", false) })
	<-entered
	resp, body := s.call("POST", "/charges", "other", "Idempotency-Key", "k")
	want(t, reply{resp, body}, 422, `"idempotency_mismatch"`, false)
	close(release)
	wg.Wait()
	resp, body = s.call("POST", "/charges", "other", "Idempotency-Key", "k")
	want(t, reply{resp, body}, 422, `"idempotency_mismatch"`, false)
	g.charged(t, 1)
}

func TestIK05_PrincipalsByToken(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, "routes:\n- path: /charges\n  upstream: UPSTREAM\n", g.URL)
	resp, body := s.pay()
	want(t, reply{resp, body}, 401, `"unauthorized"`, false)
	resp, body = s.pay("Authorization", "Bearer a-1")
	want(t, reply{resp, body}, 201, `{"charges":1}`, false)
	if g.last().Header.Get("Authorization") != "" {
		t.Error("the token went to the upstream")
	}
	first := g.last().Header.Get("Idempotency-Key")
	resp, body = s.pay("Authorization", "Bearer b-1")
	want(t, reply{resp, body}, 201, `{"charges":2}`, false)
	if g.last().Header.Get("Idempotency-Key") == first {
		t.Error("two principals have one downstream key")
	}
	resp, body = s.pay("Authorization", "Bearer a-2") // rotated
	want(t, reply{resp, body}, 201, `{"charges":1}`, true)
	resp, _ = s.call("GET", "/charges", "")
	if resp.StatusCode != 401 {
		t.Errorf("without a token: %d", resp.StatusCode)
	}
}

func TestIK06_TwoRoutes(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, plain+"- path: /refunds\n  upstream: UPSTREAM\n  principal: shop\n", g.URL)
	s.pays(201, `{"charges":1}`, false)
	resp, body := s.call("POST", "/refunds", `{"amount":"10.00"}`, "Idempotency-Key", "k")
	want(t, reply{resp, body}, 201, `{"charges":2}`, false)
}

func TestIK08_LostAnswerFoundByTheLookUp(t *testing.T) {
	g := newGateway(t)
	g.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool { cut(w); return true }
	s := newSetup(t, checked, g.URL)
	s.pays(502, `"upstream_failed"`, false)
	s.pays(201, `{"charge":"oc_`, true)
	s.pays(201, `{"charge":"oc_`, true)
	g.charged(t, 1)
	g.oneKey(t, 1)
}

func TestIK09_LookUpTellsNothing(t *testing.T) {
	for name, answer := range map[string]string{
		"error":       "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
		"redirect":    "HTTP/1.1 302 Found\r\nLocation: /charges\r\nContent-Length: 0\r\n\r\n",
		"no HTTP":     "hello\r\n\r\n",
		"broken":      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx",
		"nothing":     "",
		"wrong field": "HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{\"state\":\"paid!\"}",
	} {
		t.Run(name, func(t *testing.T) {
			var charges atomic.Int64
			w := newWire(t, func(w *wire, _ int, conn net.Conn, r *bufio.Reader) {
				req, ok := w.request(r)
				if !ok {
					return
				}
				if req.Method == http.MethodGet {
					_, _ = io.WriteString(conn, answer)
					return
				}
				charges.Add(1) // and no answer
			})
			s := newSetup(t, strings.Replace(checked, "done: {status: 200}",
				"done: {status: 200, field: state, equals: [paid]}", 1), w.url())
			s.pays(502, `"upstream_failed"`, false)
			for range 2 {
				resp, body := s.pay()
				want(t, reply{resp, body}, 409, `"outcome_unknown"`, false)
				if resp.Header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
			}
			if charges.Load() != 1 {
				t.Errorf("%d charges", charges.Load())
			}
		})
	}
}

// Absent counts only when the upstream had the time to show it.
func TestIK09_AbsentTooEarly(t *testing.T) {
	w := newWire(t, func(w *wire, _ int, conn net.Conn, r *bufio.Reader) {
		req, ok := w.request(r)
		if ok && req.Method == http.MethodGet {
			_, _ = io.WriteString(conn, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
		}
	})
	s := newSetup(t, strings.Replace(checked, "1ms", "1h", 1), w.url())
	s.pays(502, `"upstream_failed"`, false)
	s.pays(409, "too soon", false)
	if w.count() != 2 {
		t.Errorf("%q", w.got)
	}
}

func TestIK09_AbsentAfterTheTime(t *testing.T) {
	var posts atomic.Int64
	w := newWire(t, func(w *wire, _ int, conn net.Conn, r *bufio.Reader) {
		req, ok := w.request(r)
		switch {
		case !ok:
		case req.Method == http.MethodGet:
			_, _ = io.WriteString(conn, "HTTP/1.1 404 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		case posts.Add(1) == 1:
		default:
			_, _ = io.WriteString(conn, "HTTP/1.1 201 Yes\r\nConnection: close\r\n"+
				"Content-Length: 2\r\n\r\nok")
		}
	})
	clock, store := clockAndStore()
	s := setupOn(t, store, routesOf(t, strings.Replace(checked, "1ms", "1h", 1), w.url()))
	s.pays(502, `"upstream_failed"`, false)
	clock.Add(time.Hour - time.Second)
	s.pays(409, "too soon", false)
	clock.Add(2 * time.Second)
	s.pays(201, "ok", false)
	s.pays(201, "ok", true)
	if posts.Load() != 2 {
		t.Errorf("%d posts", posts.Load())
	}
}

func TestIK10_TimeoutAfterTheCharge(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]string{"plain": plain, "checked": checked, "repeatable": repeatable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			g.honoursKeys = true
			release := make(chan struct{})
			g.answer = func(n int, _ http.ResponseWriter, r *http.Request) bool {
				if n == 1 {
					select {
					case <-release:
					case <-r.Context().Done():
					}
				}
				return false
			}
			s := newSetup(t, way+"  timeout: 1s\n", g.URL)
			s.pays(504, `"upstream_timeout"`, false)
			switch way {
			case plain:
				s.pays(409, "a person", false)
				s.pays(409, `"outcome_unknown"`, false)
				g.oneKey(t, 1)
			case checked:
				s.pays(201, `{"charge":"oc_`, true)
				g.oneKey(t, 1)
			case repeatable:
				s.pays(201, `{"charges":1}`, false)
				s.pays(201, `{"charges":1}`, true)
				g.oneKey(t, 2)
			}
			g.charged(t, 1)
			close(release)
		})
	}
}

func TestIK10_RepeatOnlyWhileTheKeyIsValid(t *testing.T) {
	g := newGateway(t)
	g.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool { cut(w); return true }
	clock, store := clockAndStore()
	s := setupOn(t, store, routesOf(t, repeatable+"  key_valid_for: 1h\n", g.URL))
	s.pays(502, "", false)
	clock.Add(time.Hour - time.Second)
	s.pays(502, "", false)
	clock.Add(2 * time.Second)
	s.pays(409, "a person", false)
	g.oneKey(t, 2)
}

// After an unknown try, a refusal of a later one proves nothing.
func TestIK10_RefusalAfterDoubt(t *testing.T) {
	g := newGateway(t)
	g.answer = func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			cut(w)
		} else {
			w.WriteHeader(402)
		}
		return true
	}
	clock, store := clockAndStore()
	s := setupOn(t, store, routesOf(t, repeatable, g.URL))
	s.pays(502, "", false)
	s.pays(409, `"outcome_unknown"`, false)
	s.pays(409, `"retry_after_s":60`, false)
	g.oneKey(t, 2)
	// It is the outcome of the key, once the upstream has come to one.
	clock.Add(time.Minute)
	s.pays(402, "", false)
	s.pays(402, "", true)
	g.oneKey(t, 3)
}

func TestIK10_ServerErrorsAreUnknown(t *testing.T) {
	for _, status := range []int{500, 502, 503, 504, 408, 418} {
		g := newGateway(t)
		g.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "as the gateway said")
			return true
		}
		s := newSetup(t, plain, g.URL)
		s.pays(status, "as the gateway said", false)
		s.pays(409, `"outcome_unknown"`, false)
		g.charged(t, 1)
	}
}

func TestIK12_RefusalsAreFinal(t *testing.T) {
	for _, status := range []int{400, 402, 404, 422} {
		g := newGateway(t)
		g.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "text/x")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "declined")
			return true
		}
		s := newSetup(t, plain, g.URL)
		s.pays(status, "declined", false)
		s.pays(status, "declined", true)
		g.oneKey(t, 1)
	}
}

func TestIK13_NotDoneFreesTheKey(t *testing.T) {
	for _, status := range []int{409, 425, 429} {
		g := newGateway(t)
		g.answer = func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n == 1 {
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(status)
			}
			return n == 1
		}
		s := newSetup(t, plain, g.URL)
		resp, body := s.pay()
		want(t, reply{resp, body}, status, "", false)
		if resp.Header.Get("Retry-After") != "3" {
			t.Errorf("%v", resp.Header)
		}
		resp, body = s.call("POST", "/charges", "corrected", "Idempotency-Key", "k")
		want(t, reply{resp, body}, 201, "", false)
		g.oneKey(t, 2)
	}
}

// An upstream that does not accept our credentials is no reason to blame those of
// the client, and one to wake an operator.
func TestIK13_OurCredentialsAreWrong(t *testing.T) {
	const own = plain + "  headers: [{name: Authorization, value: of-the-route}]\n"
	byToken := strings.Replace(plain, "principal: shop", "principal: token", 1)
	for _, c := range []struct {
		yaml    string
		status  int
		through bool // the upstream's own words are passed on
	}{
		{plain, 401, true}, {plain, 407, false}, {own, 401, false},
		{byToken, 401, false}, {byToken, 407, false},
		{own + "  outcomes: {refused: [401]}\n", 401, true},
	} {
		g := newGateway(t)
		g.answer = func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n == 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				w.WriteHeader(c.status)
			}
			return n == 1
		}
		var told outcomes
		var log bytes.Buffer
		s := newSetup(t, c.yaml, g.URL, func(cfg *Config) {
			cfg.Observer, cfg.Logger = &told, slog.New(slog.NewTextHandler(&log, nil))
		})
		resp, body := s.pay("Authorization", "Bearer shop")
		if c.through {
			want(t, reply{resp, body}, c.status, "", false)
			continue
		}
		want(t, reply{resp, body}, 502, `"upstream_credentials"`, false)
		if len(resp.Header["Www-Authenticate"]) > 0 || resp.Header.Get("Idempotency-Outcome") != "" ||
			told.all() != "credentials" || !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("%v %q %s", resp.Header, told.all(), log.String())
		}
		resp, body = s.pay("Authorization", "Bearer shop")
		want(t, reply{resp, body}, 201, "", false)
		if told.all() != "credentials done" {
			t.Errorf("%q", told.all())
		}
	}
}

// outcomes is an Observer.
type outcomes struct {
	mu  sync.Mutex
	got []string
}

func (o *outcomes) UpstreamDone(_, outcome string, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, outcome)
}

func (o *outcomes) GuardedRefused(route string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, "busy at "+route)
}

func (o *outcomes) all() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.got, " ")
}

// Whom to wait for is said as it is.
func TestIK10_WhoSettlesIt(t *testing.T) {
	for yaml, part := range map[string]string{plain: "A person has to find out",
		checked:    "Send the same request",
		repeatable: "Send the same request"} {
		g := newGateway(t)
		g.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool { cut(w); return true }
		newSetup(t, yaml, g.URL).pays(502, part, false)
	}
}

func TestIK13_OutcomesAreSettable(t *testing.T) {
	g := newGateway(t)
	g.answer = func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			w.WriteHeader(503)
		}
		return n == 1
	}
	s := newSetup(t, plain+"  outcomes: {retry: [503]}\n", g.URL)
	s.pays(503, "", false)
	s.pays(201, "", false)
}

// What was never sent did not happen, and the key is free.
func TestIK13_NeverSent(t *testing.T) {
	refused := says(t, "")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	notTLS := newWire(t, func(_ *wire, _ int, conn net.Conn, _ *bufio.Reader) {
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad\r\n\r\n")
	})
	for name, upstream := range map[string]string{
		"connection refused": "http://" + closed.Addr().String(),
		"no such host":       "http://no-such-host.invalid",
		"no TLS":             "https://" + notTLS.addr,
		"wrong certificate":  tlsURL(t),
	} {
		for _, way := range []string{plain, repeatable} {
			s := newSetup(t, way, upstream)
			for range 2 {
				resp, body := s.pay()
				if resp.StatusCode != 502 || !strings.Contains(body, "nothing was done") {
					t.Errorf("%s: %d %s", name, resp.StatusCode, body)
				}
				if _, ok, err := s.book.Get(t.Context(), ClaimID("shop", "charges", "k")); ok || err != nil {
					t.Errorf("%s: the key is not free: %v", name, err)
				}
			}
		}
	}
	if refused.count() != 0 {
		t.Error("sent")
	}
}

// A connection that never comes about is a time-out before the send.
func TestIK13_DialTimeout(t *testing.T) {
	silent := newWire(t, func(_ *wire, _ int, _ net.Conn, r *bufio.Reader) {
		_, _ = r.ReadByte()
		_,
			_ = io.Copy(io.Discard, r)
	})
	s := newSetup(t, plain+"  timeout: 100ms\n", "https://"+silent.addr) // the handshake gets no answer
	s.pays(504, "nothing was done", false)
	if _, ok, _ := s.book.Get(t.Context(), ClaimID("shop", "charges", "k")); ok {
		t.Error("the key is not free")
	}
}

func TestIK17_Waiting(t *testing.T) {
	g := newGateway(t)
	release, entered := make(chan struct{}), make(chan struct{})
	g.answer = func(int, http.ResponseWriter, *http.Request) bool {
		close(entered)
		<-release
		return false
	}
	s := newSetup(t, plain+"  wait: 0s\n", g.URL)
	var wg sync.WaitGroup
	wg.Go(func() { s.pays(201, "", false) })
	<-entered
	resp, body := s.pay()
	want(t, reply{resp, body}, 409, `"in_flight"`, false)
	if resp.Header.Get("Retry-After") == "" || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%v", resp.Header)
	}
	close(release)
	wg.Wait()
	s.pays(201, "", true)
}

func TestIK18_ClientGone(t *testing.T) {
	g := newGateway(t)
	release, entered := make(chan struct{}), make(chan struct{})
	gone := make(chan error, 1)
	g.answer = func(n int, _ http.ResponseWriter, r *http.Request) bool {
		if n == 1 {
			close(entered)
			<-release
			gone <- r.Context().Err()
		}
		return false
	}
	served := make(chan struct{})
	s := newSetup(t, plain, g.URL, func(c *Config) {
		c.OnRoute = func(ctx context.Context, _ string) { context.AfterFunc(ctx, func() { close(served) }) }
	})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		resp, err := s.try(ctx, "POST", "/charges", `{"amount":"10.00"}`, "Idempotency-Key", "k",
			"Content-Type", "application/json")
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-entered
	cancel()
	if <-failed == nil {
		t.Fatal("the client got an answer")
	}
	<-served // the server has noticed
	close(release)
	if err := <-gone; err != nil {
		t.Errorf("the upstream's request was cut off: %v", err)
	}
	s.Proxy.cfg.OnRoute = func(context.Context, string) {}
	s.pays(201, `{"charges":1}`, true)
	g.charged(t, 1)
}

func TestIK19_ByteForByte(t *testing.T) {
	g := newGateway(t)
	body := strings.Repeat("\x00\xff<>", 1<<18) // 1 MiB
	g.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		h := w.Header()
		h.Set("Content-Encoding", "gzip") // it is not, and nobody looks
		h["Content-Type"] = nil
		h.Add("Many", "1")
		h.Add("Many", "2")
		h.Set("Set-Cookie", "a=b")
		h.Set("Keep-Alive", "timeout=5")
		h.Set("Trailer", "Sum")
		h.Set("Idempotency-Replayed", "true")
		h.Set("Request-Id", "theirs")
		w.WriteHeader(203)
		_, _ = io.WriteString(w, body)
		h.Set("Sum", "42")
		return true
	}
	s := newSetup(t, plain, g.URL)
	for i := range 3 {
		resp, got := s.pay()
		if resp.StatusCode != 203 || got != body || len(resp.Header["Many"]) != 2 ||
			resp.Trailer.Get("Sum") != "42" ||
			resp.Header.Get("Content-Encoding") != "gzip" || len(resp.Header["Content-Type"]) != 0 ||
			resp.Header.Get("Keep-Alive") != "" || resp.Header.Get("Request-Id") != "" {
			t.Errorf("%d: %d %v %v", i, resp.StatusCode, resp.Header, resp.Trailer)
		}
		if replayed := resp.Header.Get("Idempotency-Replayed") != ""; replayed != (i > 0) {
			t.Errorf("%d: replayed %v", i, replayed)
		}
		if cookie := resp.Header.Get("Set-Cookie") != ""; cookie != (i == 0) {
			t.Errorf("%d: cookie %v", i, cookie)
		}
	}
	g.charged(t, 1)
}

func TestIK19_EmptyAnswers(t *testing.T) {
	for _, status := range []int{200, 204, 205, 304} {
		g := newGateway(t)
		g.answer = func(_ int, w http.ResponseWriter,
			_ *http.Request) bool {
			w.WriteHeader(status)
			return true
		}
		s := newSetup(t, plain+"  outcomes: {done: [2xx, 3xx]}\n", g.URL)
		s.pays(status, "", false)
		s.pays(status, "", true)
	}
}

func TestIK19_LargerThanWhatIsKept(t *testing.T) {
	for _, status := range []int{201, 402} {
		for _, length := range []string{"", "300000"} {
			g := newGateway(t)
			body := strings.Repeat("x", 300_000)
			g.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Location", "/charges/1")
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
				return true
			}
			s := newSetup(t, plain+"  max_response: 1KiB\n", g.URL)
			resp, got := s.pay()
			if resp.StatusCode != status || got != body {
				t.Errorf("the first client got %d and %d bytes", resp.StatusCode, len(got))
			}
			for range 2 {
				resp, got = s.pay()
				want(t, reply{resp, got}, status, `"result_too_large"`, true)
				if resp.Header.Get("Location") != "/charges/1" {
					t.Errorf("%v", resp.Header)
				}
			}
			g.charged(t, 1)
		}
	}
}

func TestIK20_KeysOverTheWire(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, plain, g.URL)
	head := "POST /charges HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n"
	for _, keys := range []string{
		"", "Idempotency-Key:\r\n", "Idempotency-Key:  \r\n", "Idempotency-Key: \"\"\r\n",
		"Idempotency-Key: a\r\nIdempotency-Key: a\r\n", "Idempotency-Key: a\r\nIDEMPOTENCY-KEY: b\r\n",
		"Idempotency-Key: a, b\r\n", "Idempotency-Key: \"a\r\n", "Idempotency-Key: a\x00b\r\n",
		"Idempotency-Key: a\x7fb\r\n", "Idempotency-Key: a\tb\r\n", "Idempotency-Key: \xc3\x28\r\n",
		"Idempotency-Key: " + strings.Repeat("k", 256) + "\r\n",
		"Idempotency-Key: " + strings.Repeat("k", 10<<10) + "\r\n",
		"Idempotency-Key : a\r\n", "Idempotency_Key: a\r\n",
	} {
		if resp, body := s.raw(head + keys + "\r\n"); resp.StatusCode != 400 {
			t.Errorf("%.60q: %d %s", keys, resp.StatusCode, body)
		}
	}
	g.charged(t, 0)
	for i, key := range []string{"a", `"a"`, " a ", ` "a" `} {
		resp, body := s.raw(head + "Idempotency-Key: " + key + "\r\n\r\n")
		want(t, reply{resp, body}, 201, `{"charges":1}`, i > 0)
	}
	g.charged(t, 1)
}

func TestIK25_RawBytes(t *testing.T) {
	g := newGateway(t)
	s := newSetup(t, plain, g.URL)
	for i, body := range []string{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{"a":1, "b":2}`} {
		resp, got := s.call("POST", "/charges", body, "Idempotency-Key", "k")
		want(t, reply{resp, got}, []int{201, 422, 422}[i], "", false)
	}
	resp, got := s.call("POST", "/charges?x=1", `{"a":1,"b":2}`, "Idempotency-Key", "k")
	want(t, reply{resp, got}, 422, "", false)
}

func TestIK27_AfterAPersonHasDecided(t *testing.T) {
	for verdict, status := range map[claim.Verdict]int{
		claim.VerdictDone: 200, claim.VerdictRefused: 422, claim.VerdictFree: 201,
	} {
		g := newGateway(t)
		g.answer = func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n == 1 {
				cut(w)
			}
			return n == 1
		}
		s := newSetup(t, plain, g.URL)
		s.pays(502, "", false)
		id := ClaimID("shop", "charges", "k")
		c, ok, err := s.book.Get(t.Context(), id)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		v := claim.Resolution{ID: id, Version: c.Record.Version, Verdict: verdict, Actor: "ada",
			Reason: "asked"}
		if verdict != claim.VerdictFree {
			v.Result = claim.Result{Type: "text/plain", Data: []byte("by ada")}
		}
		if _, err := s.book.Resolve(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		resp, body := s.pay()
		if verdict == claim.VerdictFree {
			want(t, reply{resp, body}, status, "", false)
			g.oneKey(t, 2)
		} else {
			want(t, reply{resp, body}, status, "by ada", true)
			g.oneKey(t, 1)
		}
	}
}

// Whoever claims keys over the API under the name of the route reaches nothing of
// what the proxy holds, and the other way round.
func TestScopesOfRoutesAreTheirOwn(t *testing.T) {
	g := newGateway(t)
	g.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool { cut(w); return true }
	s := newSetup(t, plain, g.URL)
	s.pays(502, "", false)
	ask := claim.Request{ID: claim.ID{Scope: claim.ScopeOf("shop", "charges"), Key: "k"}, TakeOver: true,
		Token: strings.Repeat("t", 20), Owner: claim.RemoteOwner(time.Hour)}
	if d, err := s.book.Begin(t.Context(), ask); err != nil || d.Kind != claim.Acquired {
		t.Errorf("%v %v", d.Kind, err)
	}
	if _, err := s.book.Release(t.Context(), ask.Ref()); err != nil {
		t.Error(err)
	}
	s.pays(409, `"outcome_unknown"`, false)
	c, ok, err := s.book.Get(t.Context(), ClaimID("shop", "charges", "k"))
	if !ok || err != nil || c.ID.Scope != "route/shop/charges" || c.Record.State != claim.Unknown {
		t.Errorf("%+v %v %v", c, ok, err)
	}
	ask.ID, ask.Fingerprint = c.ID, c.Record.Fingerprint
	if d, err := s.book.Begin(t.Context(), ask); err != nil || d.Kind != claim.InDoubt {
		t.Errorf("taken over from outside: %v %v", d.Kind, err)
	}
}

func TestIK21_AfterTheRetention(t *testing.T) {
	g := newGateway(t)
	clock, store := clockAndStore()
	s := setupOn(t, store, routesOf(t, plain, g.URL))
	s.pays(201, `{"charges":1}`, false)
	clock.Add(claim.DefaultRetention - time.Second)
	s.pays(201, `{"charges":1}`, true)
	clock.Add(2 * time.Second)
	s.pays(201, `{"charges":2}`, false)

	g.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool { cut(w); return true }
	resp, body := s.call("POST", "/charges", "{}", "Idempotency-Key", "lost")
	want(t, reply{resp, body}, 502, "", false)
	clock.Add(2 * claim.DefaultRetention) // an unknown key is never free by time
	resp, body = s.call("POST", "/charges", "{}", "Idempotency-Key", "lost")
	want(t, reply{resp, body}, 409, `"outcome_unknown"`, false)
}

// 202 is done unless the route says otherwise; unknown, it is settled as all else.
func TestIK13_AcceptedIsForTheRouteToSay(t *testing.T) {
	accepts := func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "accepted")
		}
		return n == 1
	}
	g := newGateway(t)
	g.answer = accepts
	s := newSetup(t, repeatable, g.URL)
	s.pays(202, "accepted", false)
	s.pays(202, "accepted", true)
	g.oneKey(t, 1)

	g = newGateway(t)
	g.answer, g.honoursKeys = accepts, true
	s = newSetup(t, repeatable+"  outcomes: {unknown: [202]}\n", g.URL)
	resp, body := s.pay()
	want(t, reply{resp, body}, 202, "accepted", false)
	if resp.Header.Get("Idempotency-Outcome") != "unknown" {
		t.Errorf("%v", resp.Header)
	}
	s.pays(201, `{"charges":1}`, false)
	s.pays(201, `{"charges":1}`, true)
	g.oneKey(t, 2)
}

// inFlight closes seen when that many answers were in_flight.
type inFlight struct {
	left atomic.Int64
	seen chan struct{}
}

// ClaimDecided implements claim.Observer.
func (o *inFlight) ClaimDecided(_ string, k claim.Kind) {
	if k == claim.InFlight && o.left.Add(-1) == 0 {
		close(o.seen)
	}
}

// Fifty equal requests at once, which the upstream does not take, are one send.
func TestIK13_FiftyAtOnceAreOneSend(t *testing.T) {
	for _, way := range []string{plain, checked, repeatable} {
		o := &inFlight{seen: make(chan struct{})}
		o.left.Store(2 * 49) // each looks once, and again before it waits
		g := newGateway(t)
		g.answer = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			<-o.seen
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		s := newSetup(t, way, g.URL, func(c *Config) {
			store := memkv.New(memkv.Options{})
			t.Cleanup(func() { _ = store.Close() })
			var err error
			if c.Claims, err = claim.New(t.Context(), store, claim.Config{Observer: o}); err != nil {
				t.Fatal(err)
			}
		})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if resp, body := s.pay(); resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "3" ||
					resp.Header.Get("Idempotency-Replayed") != "" {
					t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
				}
			})
		}
		all.Wait()
		g.oneKey(t, 1)
		s.pay()
		g.oneKey(t, 2) // the key is free
	}
}
