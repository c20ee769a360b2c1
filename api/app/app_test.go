package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/api/auth"
	"onced/api/config"
	"onced/api/proxy"
	"onced/kv"
	"onced/kv/claim"
	"onced/kv/kvtest/testclock"
)

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// running is an App under test.
type running struct {
	t      *testing.T
	app    *App
	url    string
	notice *syncBuffer
	log    *syncBuffer
	stop   context.CancelFunc
	done   chan error
}

// options are those of an App in a folder of its own, with the given lines of
// configuration.
func options(t *testing.T, text string) Options {
	t.Helper()
	o := Options{Version: "test"}
	data := t.TempDir()
	o.Load = loader(data, &text)
	var err error
	if o.Loaded, err = o.Load(); err != nil {
		t.Fatal(err)
	}
	return o
}

// loader reads *text as the file.
func loader(data string, text *string) func() (*config.Loaded, error) {
	return func() (*config.Loaded, error) {
		return config.Load(config.Source{
			Flags:    map[string]string{"listen": "127.0.0.1:0", "data": data, "store.min_free": "0"},
			ReadFile: func(string) ([]byte, error) { return []byte(*text), nil },
		})
	}
}

func start(t *testing.T, o Options) *running {
	t.Helper()
	r := &running{t: t, notice: new(syncBuffer), log: new(syncBuffer), done: make(chan error, 1)}
	o.Notice = r.notice
	o.Level = new(slog.LevelVar)
	o.Logger = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: o.Level}))
	var err error
	if r.app, err = New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + r.app.Addr("api").String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r.stop = cancel
	go func() { r.done <- r.app.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-r.done
		http.DefaultClient.CloseIdleConnections()
	})
	return r
}

// end stops the App and returns its error.
func (r *running) end() error {
	r.stop()
	err := <-r.done
	r.done <- err
	return err
}

func (r *running) get(path string) (int, string) {
	r.t.Helper()
	status, body, err := r.do(http.MethodGet, path, "", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	return status, body
}

// do sends a request and returns its status and body.
func (r *running) do(method, path, token string, body io.Reader) (int, string, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, body)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// answer reads one answer.
func answer(in *bufio.Reader) (int, error) {
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func (r *running) dial() net.Conn {
	r.t.Helper()
	c, err := new(net.Dialer).DialContext(r.t.Context(), "tcp", r.app.Addr("api").String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

func TestFirstTokenIsShownOnce(t *testing.T) {
	o := options(t, "")
	r := start(t, o)
	if status, body := r.get("/livez"); status != 200 {
		t.Fatalf("livez: %d %s", status, body)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(r.notice.String(), "onced_")
	if !found || strings.Contains(rest, "onced_") || !strings.Contains(r.notice.String(), r.url) {
		t.Fatalf("the first start says %q", r.notice)
	}
	secret := "onced_" + strings.Fields(rest)[0]
	if strings.Contains(r.log.String(), secret) {
		t.Error("the token is in the log")
	}

	r = start(t, o)
	status, text, err := r.do(http.MethodGet, "/v1/tokens", secret, http.NoBody)
	if err != nil || status != http.StatusOK {
		t.Fatalf("the token after a restart: %d %s %v", status, text, err)
	}
	if err := r.end(); err != nil || strings.Contains(r.notice.String(), "onced_") {
		t.Fatalf("the second start says %q (%v)", r.notice, err)
	}
}

func TestASecondProcessIsRefused(t *testing.T) {
	o := options(t, "")
	start(t, o)
	_, err := New(t.Context(), o)
	if !errors.Is(err, kv.ErrLocked) {
		t.Fatalf("got %v", err)
	}
}

func TestAnAddressThatIsTaken(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	o := options(t, "metrics: {listen: \""+taken.Addr().String()+"\"}\n")
	o.Loaded.Config.Listen = taken.Addr().String()
	_, err = New(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) ||
		!strings.Contains(err.Error(), "listen") {
		t.Fatalf("got %v", err)
	}
	o.Loaded.Config.Listen, o.Loaded.Config.Metrics.Listen = "127.0.0.1:0", ""
	a, err := New(t.Context(), o) // the store was let go
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// held is a handler whose requests wait until they are let go.
type held struct {
	begun chan struct{} // gets one for each request
	free  chan struct{}
	ended chan error // the context's error of requests that ended with it
}

func hold(o *Options, path string) *held {
	h := &held{begun: make(chan struct{}, 8), free: make(chan struct{}), ended: make(chan error, 8)}
	o.Wrap = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path {
				next.ServeHTTP(w, r)
				return
			}
			h.begun <- struct{}{}
			select {
			case <-h.free:
				_, _ = io.WriteString(w, "finished")
			case <-r.Context().Done():
				h.ended <- r.Context().Err()
			}
		})
	}
	return h
}

// request asks for a path in the background.
func (r *running) request(path string) <-chan string {
	got := make(chan string, 1)
	go func() {
		status, body, err := r.do(http.MethodGet, path, "", http.NoBody)
		got <- fmt.Sprintf("%d %s %v", status, body, err)
	}()
	return got
}

func TestDrainFinishesWhatIsUnderWay(t *testing.T) {
	o := options(t, "")
	h := hold(&o, "/slow")
	r := start(t, o)
	idle := r.dial() // a connection between two requests is no reason to wait
	_, _ = io.WriteString(idle, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	in := bufio.NewReader(idle)
	if status, err := answer(in); err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	got := r.request("/slow")
	<-h.begun
	r.stop()
	waitRefused(t, r.app.Addr("api").String())
	for _, c := range r.app.health.Ready(t.Context()) {
		if c.OK != (c.Name != "process") {
			t.Errorf("while draining: %+v", c)
		}
	}
	close(h.free)
	if text := <-got; text != "200 finished <nil>" {
		t.Errorf("the request got %s", text)
	}
	if err := <-r.done; err != nil {
		t.Errorf("run: %v", err)
	}
	r.done <- nil
	if _, err := in.ReadByte(); err == nil {
		t.Error("the idle connection is still open")
	}
}

// waitRefused waits until nobody listens any more.
func waitRefused(t *testing.T, addr string) {
	t.Helper()
	for {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return
		}
		c.Close()
		if t.Context().Err() != nil {
			t.Fatal("still listening")
		}
		runtime.Gosched()
	}
}

func TestDrainIsBounded(t *testing.T) {
	o := options(t, "http: {drain_timeout: 50ms}\n")
	h := hold(&o, "/slow")
	r := start(t, o)
	got := r.request("/slow")
	<-h.begun
	if err := r.end(); err != nil {
		t.Errorf("run: %v", err)
	}
	if err := <-h.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the request's context: %v", err)
	}
	if text := <-got; strings.Contains(text, "finished") {
		t.Errorf("the request got %s", text)
	}
	if !strings.Contains(r.log.String(), "cut off") {
		t.Errorf("the log does not say so: %s", r.log)
	}
}

// TestWhatIsCutOffCanStillRecordItsOutcome: what works for a client that has gone
// learns of the end while the store is open.
func TestWhatIsCutOffCanStillRecordItsOutcome(t *testing.T) {
	o := options(t, "http: {drain_timeout: 20ms}\n")
	begun, recorded := make(chan struct{}), make(chan error, 1)
	var r *running
	o.Wrap = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(begun)
			<-r.app.work.Done()
			recorded <- r.app.store.Update(context.Background(), func(kv.Writer) error { return nil })
		})
	}
	r = start(t, o)
	r.request("/x")
	<-begun
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if err := <-recorded; err != nil {
		t.Errorf("recording the outcome: %v", err)
	}
}

func TestNothingRunsAfterTheEnd(t *testing.T) {
	for range 3 {
		r := start(t, options(t, "metrics: {listen: \"127.0.0.1:0\"}\n"))
		r.get("/readyz")
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	buf := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "onced/") && !strings.Contains(g, "testing.") {
			t.Errorf("still running:\n%s", g)
		}
	}
}

func TestReadyzSaysWhy(t *testing.T) {
	r := start(t, options(t, ""))
	if status, body := r.get("/readyz"); status != 200 || !strings.Contains(body, `"store","ok":true`) {
		t.Errorf("%d %s", status, body)
	}
	r.app.health.draining.Store(true)
	status, body := r.get("/readyz")
	var answer struct {
		Conditions []struct {
			Name   string `json:"name"`
			OK     bool   `json:"ok"`
			Reason string `json:"reason"`
		} `json:"conditions"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 503 {
		t.Fatalf("%d %s %v", status, body, err)
	}
	for _, c := range answer.Conditions {
		if c.Name == "process" && (c.OK || !strings.Contains(c.Reason, "stopping")) {
			t.Errorf("%+v", c)
		}
	}
	if status, _ := r.get("/livez"); status != 200 {
		t.Errorf("livez %d", status)
	}
}

// sick is a store that is not well.
type sick struct {
	kv.Store
	health, update error
}

func (s sick) Healthy() error                                      { return s.health }
func (s sick) Update(context.Context, func(kv.Writer) error) error { return s.update }

func TestReadinessLooksAtTheStore(t *testing.T) {
	asleep, why := new(sagas), "runs are not woken any more"
	asleep.stopped.Store(&why)
	for _, c := range []struct {
		store sick
		sagas *sagas
		bad   string
	}{
		{sick{}, new(sagas), ""},
		{sick{health: kv.ErrStopped, update: kv.ErrStopped}, new(sagas), "store"},
		{sick{update: fmt.Errorf("%w (1 MiB free)", kv.ErrNoSpace)}, new(sagas), "space"},
		{sick{}, asleep, "sagas"},
	} {
		for _, cond := range (&health{store: c.store, sagas: c.sagas}).Ready(t.Context()) {
			if cond.OK == (cond.Name == c.bad) || cond.OK != (cond.Reason == "") {
				t.Errorf("%+v: %+v", c.bad, cond)
			}
		}
	}
}

func TestSlowHeadersAreCutOff(t *testing.T) {
	r := start(t, options(t, "http: {header_timeout: 100ms}\n"))
	c := r.dial()
	if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil { // until the server closes
		t.Fatal(err)
	}
}

func TestOversizedHeadersAreRefused(t *testing.T) {
	r := start(t, options(t, "http: {max_header: 4KiB}\n"))
	c := r.dial()
	go func() {
		_, _ = io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("a",
			32<<10)+"\r\n\r\n")
	}()
	// The connection may be reset after the header of the answer.
	if status, err := answer(bufio.NewReader(c)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatalf("%d %v", status, err)
	}
}

// TestALongRequestIsNoSlowBody: a body has to arrive in time, and what the
// handler does after that takes as long as it takes.
func TestALongRequestIsNoSlowBody(t *testing.T) {
	t.Parallel()
	o := options(t, "http: {read_timeout: 1s, write_timeout: 1s}\n")
	cancelled := make(chan bool, 2)
	o.Wrap = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				cancelled <- true
				return
			}
			_, _ = io.WriteString(w, "first ")
			wait := time.NewTimer(1500 * time.Millisecond)
			defer wait.Stop()
			select {
			case <-wait.C:
				cancelled <- false
			case <-r.Context().Done():
				cancelled <- true
			}
		})
	}
	r := start(t, o)
	for _, body := range []io.Reader{strings.NewReader("all at once"), http.NoBody} {
		_, text, err := r.do(http.MethodPost, "/x", "", body)
		if <-cancelled || err != nil || text != "first " {
			t.Errorf("a long request was cut off: %q %v", text, err)
		}
	}
	c := r.dial()
	_, _ = io.WriteString(c, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nslow")
	if !<-cancelled {
		t.Error("a slow body was waited for")
	}
}

func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	o := options(t, "http: {write_timeout: 100ms}\n")
	failed := make(chan error, 1)
	o.Wrap = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			part := make([]byte, 64<<10)
			for {
				if _, err := w.Write(part); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	r := start(t, o)
	_, _ = io.WriteString(r.dial(), "GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := <-failed; err == nil {
		t.Error("no error")
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	r := start(t, options(t, "http: {max_connections: 1}\n"))
	ask := func(c net.Conn) string {
		_, _ = io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
		status, err := answer(bufio.NewReader(c))
		return fmt.Sprint(status, err)
	}
	a := r.dial()
	if got := ask(a); got != "200 <nil>" {
		t.Fatal(got)
	}
	second := make(chan string, 1)
	b := r.dial()
	go func() { second <- ask(b) }()
	for range 20 { // the second would be served meanwhile
		if got := ask(a); got != "200 <nil>" {
			t.Fatal(got)
		}
	}
	select {
	case got := <-second:
		t.Fatalf("two connections are served: %s", got)
	default:
	}
	a.Close()
	if got := <-second; got != "200 <nil>" {
		t.Errorf("after the first: %s", got)
	}
}

func TestReload(t *testing.T) {
	text := "log: {level: info}\n"
	o := options(t, text)
	o.Load = loader(o.Loaded.Config.Data, &text)
	r := start(t, o)
	level := r.app.o.Level

	text = "log: {level: debug}\nhttp: {max_body: 2MiB}\n"
	done, err := r.app.Reload()
	if err != nil || len(done.Restart) != 1 || done.Restart[0] != "http.max_body" {
		t.Errorf("%+v %v", done, err)
	}
	if c := r.app.Config(); level.Level() != slog.LevelDebug || c.Log.Level != "debug" ||
		c.HTTP.MaxBody != 1<<20 {
		t.Errorf("level %v, %+v", level, c)
	}

	before := r.app.Config()
	text = "log: {level: error}\nhttp: {max_bdy: 2MiB}\n"
	if _, err := r.app.Reload(); !errors.Is(err, config.ErrInvalid) {
		t.Errorf("a bad file: %v", err)
	}
	if level.Level() != slog.LevelDebug || r.app.Config() != before {
		t.Error("a bad file was put in place in part")
	}
	if status, _ := r.get("/readyz"); status != 200 {
		t.Errorf("readyz %d", status)
	}
}

func TestReloadIsNotAlwaysPossible(t *testing.T) {
	o := options(t, "")
	o.Load = nil
	if _, err := start(t, o).app.Reload(); !errors.Is(err, ErrNoReload) {
		t.Errorf("got %v", err)
	}
}

func TestClientIP(t *testing.T) {
	for _, c := range []struct {
		trusted, peer, forwarded, want string
	}{
		{"", "1.2.3.4:5", "6.6.6.6", "1.2.3.4"},
		{"10.0.0.0/8", "1.2.3.4:5", "6.6.6.6", "1.2.3.4"},
		{"10.0.0.0/8", "10.0.0.1:5", "", "10.0.0.1"},
		{"10.0.0.0/8", "10.0.0.1:5", "6.6.6.6", "6.6.6.6"},
		{"10.0.0.0/8", "10.0.0.1:5", "9.9.9.9, 6.6.6.6", "6.6.6.6"},
		{"10.0.0.0/8", "10.0.0.1:5", "9.9.9.9, 6.6.6.6, 10.0.0.2", "6.6.6.6"},
		{"10.0.0.0/8", "10.0.0.1:5", "9.9.9.9, x, 10.0.0.2", "10.0.0.2"},
		{"10.0.0.0/8", "10.0.0.1:5", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
		{"10.0.0.1", "[::ffff:10.0.0.1]:5", "::ffff:6.6.6.6", "6.6.6.6"},
		{"fd00::/8", "[fd00::1%eth0]:5", "fe80::1%x", "fe80::1"},
		{"", "@", "", "invalid IP"},
	} {
		var trusted []string
		if c.trusted != "" {
			trusted = []string{c.trusted}
		}
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{}}
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := clientIP(trusted)(r).String(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestUpkeepRemovesWhatHasExpired(t *testing.T) {
	o := options(t, "claims: {retention: 1h}\n")
	clock := testclock.Over(kv.SystemClock())
	o.Clock = clock
	a, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	book := a.parts.book
	token, _ := book.NewToken()
	id := claim.ID{Scope: claim.ScopeOf("shop", "charge"), Key: "k"}
	if _, err := book.Begin(t.Context(), claim.Request{ID: id, Token: token,
		Owner: claim.LocalOwner()}); err != nil {
		t.Fatal(err)
	}
	if _, err := book.Done(t.Context(), claim.Ref{ID: id, Token: token}, claim.Result{}); err != nil {
		t.Fatal(err)
	}
	rows := func() (n int) {
		page, err := book.List(t.Context(), claim.Query{})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Claims)
	}
	if a.upkeepOnce(t.Context()); rows() != 1 {
		t.Fatalf("%d claims before the end of the retention", rows())
	}
	clock.Add(2 * time.Hour)
	if a.upkeepOnce(t.Context()); rows() != 0 {
		t.Errorf("%d claims after it", rows())
	}
}

// Before the addresses close, whoever asks is told for a while that it is over.
func TestDrainDelay(t *testing.T) {
	asked, over := make(chan time.Duration, 1), make(chan time.Time)
	o := options(t, "http: {drain_delay: 7s}\n")
	o.After = func(d time.Duration) <-chan time.Time { asked <- d; return over }
	r := start(t, o)
	if status, text := r.get("/readyz"); status != http.StatusOK {
		t.Fatalf("before: %d %s", status, text)
	}
	r.stop()
	if d := <-asked; d != 7*time.Second {
		t.Errorf("the delay is %v", d)
	}
	http.DefaultClient.CloseIdleConnections() // those that follow are new
	if status, text := r.get("/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "stopping") {
		t.Errorf("readyz: %d %s", status, text)
	}
	if status, text := r.get("/livez"); status != http.StatusOK {
		t.Errorf("other requests: %d %s", status, text)
	}
	close(over)
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// A route that went away with its name leaves claims that guard nothing: a start
// and a reload say so.
func TestClaimsOfARouteThatIsGone(t *testing.T) {
	const old, other = "routes: [{path: /charges, upstream: 'http://127.0.0.1:1'}]\n",
		"routes: [{path: /v2/charges, upstream: 'http://127.0.0.1:1'}]\n"
	text := old
	o := options(t, text)
	o.Load = loader(o.Loaded.Config.Data, &text)
	r := start(t, o)
	r.get("/livez")
	for _, key := range []string{"a", "b"} {
		req := claim.Request{ID: proxy.ClaimID("shop", "charges", key), Token: "0123456789abcdef",
			Owner: claim.LocalOwner()}
		if _, err := r.app.parts.book.Begin(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	mustReload := func() {
		if _, err := r.app.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	mustReload()
	if strings.Contains(r.log.String(), "add name") {
		t.Errorf("the route is there: %s", r.log)
	}
	text = other
	mustReload()
	if got := r.log.String(); !strings.Contains(got, "add name: charges") ||
		!strings.Contains(got, "claims=2") || !strings.Contains(got, "level=ERROR") || strings.Count(got,
		"add name") != 1 {
		t.Errorf("a reload says %s", got)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	var err error
	if o.Loaded, err = o.Load(); err != nil {
		t.Fatal(err)
	}
	r = start(t, o)
	for !strings.Contains(r.log.String(), "add name: charges") {
		if t.Context().Err() != nil {
			t.Fatalf("a start says %s", r.log)
		}
		runtime.Gosched()
	}
	text = "routes: [{path: /v2/charges, name: charges, upstream: 'http://127.0.0.1:1'}]\n"
	mustReload()
	if strings.Count(r.log.String(), "add name") != 1 {
		t.Errorf("it was mended: %s", r.log)
	}
}

// Whoever starts in the wrong folder sees an empty store, and where it is.
func TestStartSaysWhereItsDataIsAndWhetherItIsNew(t *testing.T) {
	o := options(t, "")
	data := o.Loaded.Config.Data
	t.Chdir(filepath.Dir(data))
	o.Loaded.Config.Data = filepath.Base(data)
	for i, want := range []string{"data: " + data + " (a new, empty store: no key is known yet)\n",
		"data: " + data + "\n"} {
		r := start(t, o)
		r.get("/livez")
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.notice.String(), want) {
			t.Errorf("start %d says %q, want %q", i+1, r.notice, want)
		}
		if logged := strings.Contains(r.log.String(), "a new, empty store was made"); logged != (i == 0) {
			t.Errorf("start %d logs %s", i+1, r.log)
		}
	}
}

func TestOfflineMakesNoStore(t *testing.T) {
	o := options(t, "")
	err := Offline(t.Context(), o, func(*auth.Service) error { t.Error("it works on nothing"); return nil })
	if !errors.Is(err, ErrNoStore) {
		t.Errorf("%v", err)
	}
	if entries, _ := os.ReadDir(o.Loaded.Config.Data); len(entries) != 0 {
		t.Errorf("it made %v", entries)
	}
}
