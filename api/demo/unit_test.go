package demo

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
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/api/demo/book"
	"onced/api/demo/callee"
	"onced/kv"
)

// A checkout says pending only when something takes long.
func TestTimesFitTogether(t *testing.T) {
	for _, c := range []struct {
		what       string
		less, more time.Duration
	}{
		{"a lost call is looked up while a checkout waits", callee.SettlesAfter + 2*callTimeout, outcomeWait},
		{"a dropped callback is looked up while a checkout waits", awaitFor*time.Millisecond + 2*callTimeout,
			outcomeWait},
		{"a late callback comes while a run waits for it", 1300*time.Millisecond + 250*time.Millisecond,
			awaitFor * time.Millisecond},
	} {
		if c.less >= c.more {
			t.Errorf("%s: %s is not less than %s", c.what, c.less, c.more)
		}
	}
}

// newTestWorld opens books without anybody who works with them.
func newTestWorld(t *testing.T) *world {
	t.Helper()
	w := &world{config: Config{Data: t.TempDir(), Clock: kv.SystemClock()}, stories: newStories(),
		crash: &crasher{kill: func() {}, tell: func(string) {}, killed: func(string, string) {}}}
	w.toggles = newToggles(Faults{}, false, w.crash)
	if err := w.openBooks(); err != nil {
		t.Fatal(err)
	}
	w.services = callee.New(callee.Env{}, w.ledgers)
	t.Cleanup(func() {
		for _, closeBook := range w.books {
			_ = closeBook()
		}
	})
	return w
}

// fill places orders as name:state; of those that were paid all four effects stand.
func fill(t *testing.T, w *world, orders string) {
	t.Helper()
	add := func(s book.Service, e book.Entry) {
		if err := w.ledgers[s].Add(e); err != nil {
			t.Fatal(err)
		}
	}
	for field := range strings.FieldsSeq(orders) {
		id, state, _ := strings.Cut(field, ":")
		kinds := map[string][]string{"paid": {kindAsked, kindAccepted}, "failed": {kindAsked, kindDeclined},
			"pending": {kindAsked}}[state]
		for _, kind := range kinds {
			if err := w.shop.add(orderEntry{Kind: kind, Order: id}); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range book.Services() {
			e := book.Entry{Kind: book.Effect, ID: string(s) + "_" + id, Order: id,
				Reference: callee.Reference(id, 1), Value: values()[s]}
			if s == book.Order {
				e.Value = "charge_" + id
			}
			if state == "paid" {
				add(s, e)
			}
		}
		if state == "failed" {
			add(book.Loyalty,
				book.Entry{Kind: book.Refusal, ID: "no", Order: id, Reference: callee.Reference(id, 1)})
		}
	}
}

// The verdict is made of what is in the files, not of what the services remember.
func TestFinalProofReadsTheFiles(t *testing.T) {
	w := newTestWorld(t)
	fill(t, w, "A:paid B:failed")
	if p, err := w.finalProof(); err != nil || !p.Proven {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, s := range book.Services() {
		file := filepath.Join(w.config.Data, s.File())
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for what, content := range map[string]string{"gone": "", "twice": string(text) + string(text)} {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if p, err := w.finalProof(); err != nil || p.Proven {
				t.Errorf("%s: the effect is %s in the file: %+v, %v", s, what, p, err)
			}
			if !w.proof().Proven {
				t.Error("this test shows nothing: memory says so too")
			}
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVerdict(t *testing.T) {
	w := newTestWorld(t)
	if err := w.proof().verdict(0); !errors.Is(err, ErrProof) {
		t.Errorf("no order: %v", err)
	}
	fill(t, w, "A:paid B:failed")
	if err := w.proof().verdict(2); err != nil {
		t.Error(err)
	}
	if err := w.proof().verdict(3); !errors.Is(err, ErrProof) {
		t.Errorf("too few orders: %v", err)
	}
	fill(t, w, "C:pending")
	w.shop.unknownNow("C", "held: for the test")
	if err := w.proof().verdict(3); !errors.Is(err, ErrProof) || !strings.Contains(err.Error(), "person") {
		t.Errorf("held: %v", err)
	}
	if p := w.proof(); p.NeedPerson != 1 || p.People[0].Why != "held: for the test" || p.Unknowns != 1 {
		t.Errorf("held: %+v", p)
	}
}

// What waits for a person, and what is wrong, is listed by name.
func TestReportNamesOrders(t *testing.T) {
	w := newTestWorld(t)
	fill(t, w, "A:paid B:failed C:pending")
	w.shop.unknownNow("C", "stuck: step charge: the undo was refused")
	var out strings.Builder
	if err := report(Config{Orders: 3, Stdout: &out}, w.proof(), time.Second); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "C waits for a person: stuck: step charge") ||
		!strings.Contains(text, "the proof FAILED") || strings.Contains(text, "proven:") {
		t.Errorf("a run that is stuck:\n%s", text)
	}
	e := book.Entry{Kind: book.Effect, ID: "again", Order: "A", Reference: "A.1",
		Value: values()[book.Charge]}
	if err := w.ledgers[book.Charge].Add(e); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := report(Config{Orders: 3, Stdout: &out}, w.proof(), time.Second); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "A (paid): a charge 2 times") ||
		!strings.Contains(text, "WRONG") {
		t.Errorf("charged twice:\n%s", text)
	}
}

// What the service answers is told apart.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   resultKind
	}{
		{201, `{"state":"completed"}`, accepted}, {200, `{"state":"completed"}`, accepted},
		{201, `{"state":"compensated"}`, declined}, {201, `{"state":"running"}`, outcomeUnknown},
		{201, `{"state":"compensating"}`, outcomeUnknown}, {201, `{"state":"held"}`, needsPerson},
		{200, `{"state":"stuck"}`, needsPerson}, {200, `{"state":"closed"}`, needsPerson},
		{503, `{"state":"completed"}`, outcomeUnknown}, {422, `{"code":"x"}`, outcomeUnknown},
		{200, `<html>`, outcomeUnknown},
	} {
		w := httptest.NewRecorder()
		w.WriteHeader(c.status)
		_, _ = w.WriteString(c.body)
		if r := readAnswer(w.Result()); r.kind != c.want || r.kind == outcomeUnknown && r.after < askAgain {
			t.Errorf("%d %s: %+v", c.status, c.body, r)
		}
	}
}

// payers answer in turn; what they are asked while another call is under way is a
// fault of the shop.
type payers struct {
	t       *testing.T
	mu      sync.Mutex
	busy    bool
	calls   int
	results []result
}

func (p *payers) pay(ctx context.Context, _ call) result {
	p.mu.Lock()
	if p.busy {
		p.t.Error("two calls for one order at a time")
	}
	p.busy = true
	r := p.results[min(p.calls, len(p.results)-1)]
	p.calls++
	p.mu.Unlock()
	callee.Pause(ctx, time.Second)
	p.mu.Lock()
	p.busy = false
	p.mu.Unlock()
	return r
}

// One at a time pursues an order, and one that has failed is not carried out again.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.config.Clock = kv.ClockFunc(time.Now)
		p := &payers{t: t, results: []result{{kind: outcomeUnknown, after: time.Second}, {kind: declined},
			{kind: accepted}}}
		w.shop.payer = p
		var clients sync.WaitGroup
		for range 5 {
			clients.Go(func() {
				v, _, err := w.shop.checkout(t.Context(), "A", outcomeWait)
				if err != nil || v.Status != stateFailed {
					t.Errorf("%+v, %v", v, err)
				}
			})
		}
		clients.Wait()
		if p.calls != 2 {
			t.Errorf("%d calls, want 2", p.calls)
		}
	})
}

func TestCrashIsOncePerArming(t *testing.T) {
	var killed []string
	c := &crasher{kill: func() {}, tell: func(string) {},
		killed: func(p, _ string) { killed = append(killed, p) }}
	for range 2 * len(crashPoints) {
		point := c.flip("", "")
		for range 3 {
			for _, p := range crashPoints {
				c.pass(p, "A")
			}
		}
		if c.point() != "" || killed[len(killed)-1] != point {
			t.Fatalf("armed at %s, killed at %v", point, killed)
		}
	}
	if want := append(crashPoints, crashPoints...); fmt.Sprint(killed) != fmt.Sprint(want) {
		t.Errorf("killed at %v, want %v", killed, want)
	}
	c.flip("on", beforeIntent)
	if c.flip("", "") != "" || c.pass(beforeIntent, "A") {
		t.Error("disarmed, and killed all the same")
	}
}

// While the service does not come up, a checkout is answered 503, and when to
// ask again.
func TestCheckoutWhileTheServiceIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestWorld(t).shop
		s.payer = guarded{service: newService(nil, nil, ""), client: http.DefaultClient}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := &demo{ctx: ctx, world: &world{shop: s, stories: s.stories, ctx: ctx}}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/checkout",
			strings.NewReader(`{"orderId":"A"}`))
		began := time.Now()
		d.handler().ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
		var v view
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || v.Status != statePending {
			t.Errorf("%s: %v", w.Body, err)
		}
		if took := time.Since(began); took > outcomeWait+time.Second {
			t.Errorf("it waited %s", took)
		}
		if left := s.left(10, false); len(left) != 1 {
			t.Errorf("nobody will pursue the order: %v", left)
		}
	})
}

func TestListensOnLoopbackOnly(t *testing.T) {
	listeners, err := listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(listeners)
	for _, l := range listeners {
		if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() || a.Port != portOf(listeners[0]) {
			t.Errorf("it listens at %s", l.Addr())
		}
	}
	_, err = listen(t.Context(), portOf(listeners[0]))
	taken, ok := errors.AsType[*PortError](err)
	if !ok || taken.Free == portOf(listeners[0]) ||
		!strings.Contains(taken.Remedy(), fmt.Sprintf("--port=%d", taken.Free)) {
		t.Fatalf("a port that is taken: %v", err)
	}
	free, err := listen(t.Context(), taken.Free)
	if err != nil {
		t.Fatalf("the port that it names is not free: %v", err)
	}
	closeAll(free)
	if taken.Owner != "" && !strings.Contains(taken.Owner, fmt.Sprint(os.Getpid())) {
		t.Errorf("the owner is %s, not this process", taken.Owner)
	}
}

func TestParseFaults(t *testing.T) {
	every := Faults{Delay: true, Lose: true, Error: true, Refuse: true, Duplicate: true, Drop: true,
		Early: true, Crash: true}
	withKeys := every
	withKeys.Keys = true
	for text, want := range map[string]Faults{
		"": {}, "none": {}, "all": every, "keys": {Keys: true}, "delay, drop": {Delay: true, Drop: true},
		"all,keys": withKeys, "lose,error,refuse,early": {Lose: true, Error: true, Refuse: true, Early: true},
		"crash,duplicate": {Crash: true, Duplicate: true},
	} {
		if got, err := ParseFaults(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"All", "delay,", "fire", "all,none"} {
		if _, err := ParseFaults(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// A switch that each service has is turned on at the usual one, at one, or at all.
func TestSwitchesOfServices(t *testing.T) {
	c := &crasher{kill: func() {}, tell: func(string) {}, killed: func(string, string) {}}
	s := newToggles(Faults{}, false, c)
	for _, step := range []struct{ name, to, at, want string }{
		{"delay", "", "", "charge"},
		{"delay", "", "order", "charge,order"},
		{"delay", "", "charge", "order"},
		{"delay", "on", "", "charge,order"},
		{"delay", "", "", ""},
		{"delay", "on", "all", "loyalty,voucher,charge,order"},
		{"delay", "off", "voucher", "loyalty,charge,order"},
		{"delay", "", "all", "loyalty,voucher,charge,order"},
		{"delay", "", "all", ""},
		{"refuse", "", "", "order"},
		{"refuse", "off", "", ""},
		{"drop", "", "", ""},
	} {
		got, err := s.flip(step.name, step.to, step.at)
		on := step.want != "" || step.name == "drop"
		if err != nil || got.At != step.want || got.Value != on || got.Meaning == "" ||
			s.is(step.name) != on {
			t.Errorf("%v: %+v, %v", step, got, err)
		}
	}
	if on := newToggles(Faults{Refuse: true}, true, c); len(on.where("refuse")) != 4 {
		t.Errorf("under load it is on at %v", on.where("refuse"))
	}
}

func TestStoriesAreBounded(t *testing.T) {
	s := newStories()
	for i := range 3 * storiesKept {
		for range 5 {
			s.tell(fmt.Sprint(i), "again")
		}
		for j := range 2 * linesKept {
			s.tell(fmt.Sprint(i), fmt.Sprint(j))
		}
	}
	last := s.last()
	if len(last) != storiesKept || len(s.live) != storiesKept ||
		last[0].order != fmt.Sprint(3*storiesKept-1) {
		t.Errorf("%d stories, the newest of %s", len(last), last[0].order)
	}
	got := last[0]
	if len(got.lines) != linesKept || got.more != linesKept+1 || got.lines[0] != (line{"again", 5}) {
		t.Errorf("%d lines, %d more, first %v", len(got.lines), got.more, got.lines[0])
	}
}

// The child reads which point is armed, stops there and says so, and ends with
// its parent.
func TestChild(t *testing.T) {
	stdin, parent := io.Pipe()
	said, stdout := io.Pipe()
	exited := make(chan int, 1)
	c := NewChild(stdin, stdout, func(code int) { exited <- code })
	lines := bufio.NewReader(said)
	expect := func(want string) {
		t.Helper()
		if line, err := lines.ReadString('\n'); err != nil || line != want+"\n" {
			t.Fatalf("the child said %q, %v; want %q", line, err, want)
		}
	}
	status, body := http.StatusServiceUnavailable, ""
	h := c.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		if body != "" {
			_, _ = io.WriteString(w, body)
		}
	}))
	ask := func(method, path string, headers ...string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
		r.Header.Set(orderHeader, "ord_A")
		for _, name := range headers {
			r.Header.Set(name, "yes")
		}
		h.ServeHTTP(w, r)
		if w.Code != status || w.Body.String() != body {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	number := 0
	arm := func(point string) {
		t.Helper()
		number++
		if _, err := fmt.Fprintf(parent, "%d %s\n", number, point); err != nil {
			t.Fatal(err)
		}
		expect(fmt.Sprintf("ok %d", number))
	}
	const callback = callbacksPath + "token"
	arm(afterOutcome)
	ask(http.MethodPost, runsPath) // 503 tells no outcome, nor does this:
	status, body = http.StatusCreated, `{"id":"r","state":"running","steps":[{"state":"done"}]}`
	ask(http.MethodPost, runsPath)
	body = `{"id":"r","state":"compensated"}`
	ask(http.MethodGet, runsPath)
	ask(http.MethodPost, callback)
	ask(http.MethodPost, runsPath, againHeader) // it was written down before
	go ask(http.MethodPost, runsPath)           // it stops for ever
	expect("at " + afterOutcome + " ord_A")
	arm(beforeIntent)
	ask(http.MethodPost, runsPath, againHeader) // its intent is there already
	go ask(http.MethodPost, runsPath)
	expect("at " + beforeIntent + " ord_A")
	arm(beforeCallback)
	ask(http.MethodPost, runsPath)
	go ask(http.MethodPost, callback)
	expect("at " + beforeCallback + " ord_A")
	arm(afterCallback)
	status, body = http.StatusNotFound, ""
	ask(http.MethodPost, callback)
	status = http.StatusAccepted
	ask(http.MethodPost, runsPath)
	go ask(http.MethodPost, callback)
	expect("at " + afterCallback + " ord_A")
	arm("")
	_ = parent.Close()
	exitsWell(t, exited)
}

func exitsWell(t *testing.T, exited <-chan int) {
	t.Helper()
	select {
	case code := <-exited:
		if code != 0 {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(time.Minute):
		t.Error("the child outlives its parent")
	}
}

func TestProgressBar(t *testing.T) {
	w := newTestWorld(t)
	w.crash.count = map[string]int{afterCharge: 2}
	fill(t, w, "A:paid B:failed C:pending")
	for _, live := range []bool{true, false} {
		var out strings.Builder
		d := &demo{config: Config{Stderr: &out, Terminal: live, Orders: 3, Clients: 2, Seed: 9}, world: w}
		p := newProgress(d, "http://localhost:1")
		done := make(chan struct{})
		close(done)
		p.run(done)
		text := out.String()
		if !strings.Contains(text, "3 orders by 2 clients, seed 9; watch at http://localhost:1\n") {
			t.Errorf("it begins with %q", text)
		}
		bar := "\r[" + strings.Repeat("#", 20) + strings.Repeat(".", 10) +
			"] 2/3 orders ended, 1 charges, most on one 1, killed 2 times\x1b[K"
		if strings.Contains(text, bar) != live || strings.Contains(text, "\r") != live {
			t.Errorf("terminal %v: %q", live, text)
		}
	}
}
