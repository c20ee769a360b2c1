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

	"onced/kv"
)

// What the demo shows depends on these.
func TestTimesFitTogether(t *testing.T) {
	for _, c := range []struct {
		what       string
		less, more time.Duration
	}{
		{"a late answer comes after the time-out", CallTimeout, answerFrom},
		{"a late charge comes after the time-out", CallTimeout, belatedFrom},
		{"a late charge is allowed", belatedTo, BookBy},
		{"and settled before a look-up is believed", BookBy + time.Second, SettlesAfter},
		{"a late callback is late", CallTimeout, callbackLate},
		{"a checkout says pending before reconciliation finds the charge", callbackWait, missingAfter},
		{"a checkout outlives a lost call", SettlesAfter + 2*CallTimeout, outcomeWait},
	} {
		if c.less >= c.more {
			t.Errorf("%s: %s is not less than %s", c.what, c.less, c.more)
		}
	}
}

func TestPlan(t *testing.T) {
	a, same, other := newPlan(7, true), newPlan(7, true), newPlan(8, true)
	differ, kinds, copies, drops, declines := 0, map[slowness]int{}, map[int]int{}, 0, 0
	const n = 10_000
	for i := range n {
		id := fmt.Sprintf("ord_%d", i)
		if a.slow(id, 1) != same.slow(id, 1) || a.copies(id) != same.copies(id) ||
			a.drops(id) != same.drops(id) || a.declines(id) != same.declines(id) ||
			a.between("x", id, 0, time.Hour) != same.between("x", id, 0, time.Hour) {
			t.Fatalf("%s: one seed, two plans", id)
		}
		if a.slow(id, 1) != other.slow(id, 1) {
			differ++
		}
		kinds[a.slow(id, 1)]++
		copies[a.copies(id)]++
		if a.drops(id) {
			drops++
		}
		if a.declines(id) {
			declines++
		}
		if a.slow(id, lastDelayed+1) != prompt {
			t.Fatalf("%s: delayed for ever", id)
		}
	}
	near := func(what string, got, percent int) {
		if want := n * percent / 100; got < want*9/10 || got > want*11/10 {
			t.Errorf("%s: %d of %d, want about %d", what, got, n, want)
		}
	}
	near("prompt", kinds[prompt], 85)
	near("delayed in all", kinds[tardy]+kinds[belated]+kinds[lost], 15)
	near("alone", copies[1], 70)
	near("three to five copies", copies[3]+copies[4]+copies[5], 30)
	near("dropped", drops, 15)
	if kinds[tardy] == 0 || kinds[belated] == 0 || kinds[lost] == 0 || declines == 0 || differ == 0 {
		t.Errorf("kinds %v, declined %d, other seed differs %d times", kinds, declines, differ)
	}
	by := newPlan(1, false)
	if by.slow("x", 1) == prompt || by.copies("x") < 3 || !by.drops("x") || by.declines("x") {
		t.Error("a switch that a person flips is always felt")
	}
}

func TestJournal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	j, err := openJournal(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	const n = 200
	for i := range n {
		writers.Go(func() {
			if err := j.append(i); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	if _, err := j.file.WriteString(`"torn`); err != nil { // a crash in the middle of a line
		t.Fatal(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	collect := func(line []byte) error { seen[string(line)] = true; return nil }
	if j, err = openJournal(name, collect); err != nil {
		t.Fatal(err)
	}
	if err := j.append("after"); err != nil {
		t.Fatal(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	if err := j.append("closed"); err == nil {
		t.Error("a line that was not written was acknowledged")
	}
	if err := j.append("again"); err == nil {
		t.Error("a file that nobody knows was written on")
	}
	clear(seen)
	if _, err := openJournal(name, collect); err != nil {
		t.Fatal(err)
	}
	if len(seen) != n+1 || !seen["0"] || !seen[`"after"`] {
		t.Errorf("%d lines, want %d", len(seen), n+1)
	}
	bad := errors.New("bad")
	if _, err := openJournal(name, func([]byte) error { return bad }); !errors.Is(err, bad) ||
		!strings.Contains(err.Error(), "line 1") {
		t.Errorf("a line that cannot be read: %v", err)
	}
}

// books opens an empty ledger and an empty shop.
func books(t *testing.T) (*ledger, *shop) {
	t.Helper()
	l, err := openLedger(filepath.Join(t.TempDir(), ledgerFile))
	if err != nil {
		t.Fatal(err)
	}
	s, err := openShop(filepath.Join(t.TempDir(), ordersFile),
		&shop{clock: kv.SystemClock(), stories: newStories()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = l.close(), s.close() })
	return l, s
}

// Each line: the orders as name:state, what the ledger has by order, and what the
// proof says. In the ledger A is a charge of A, A- a decline, and A$ a charge of
// another amount. The shop knows the charge ch_1.
func TestProofTable(t *testing.T) {
	ok := func(p Proof) Proof { p.ZeroDoubleCharges, p.Proven = true, true; return p }
	zero := func(p Proof) Proof { p.ZeroDoubleCharges = true; return p }
	for _, c := range []struct {
		orders, ledger string
		want           Proof
	}{
		{"", "", zero(Proof{})},
		{"A:paid", "A", ok(Proof{Paid: 1, RealCharges: 1, Most: 1, MostEffects: 1})},
		{"A:paid", "A A", Proof{Paid: 1, RealCharges: 2, Most: 2, MostEffects: 1, ChargesNot1: 1}},
		{"A:paid", "", zero(Proof{Paid: 1, NoCharge: 1, MostEffects: 1, ChargesNot1: 1})},
		{"A:paid B:paid", "A A",
			Proof{Paid: 2, RealCharges: 2, Most: 2, MostEffects: 1, NoCharge: 1, ChargesNot1: 2}},
		{"A:failed", "A-", ok(Proof{Failed: 1})},
		{"A:failed", "", zero(Proof{Failed: 1, NoDecline: 1})},
		{"A:gaveup", "", ok(Proof{Failed: 1})},
		{"A:failed", "A A-", zero(Proof{Failed: 1, RealCharges: 1, Most: 1, OnFailed: 1})},
		{"A:failed", "A A A-", Proof{Failed: 1, RealCharges: 2, Most: 2, OnFailed: 1, ChargesNot1: 1}},
		{"A:pending", "", zero(Proof{Pending: 1})},
		{"A:pending", "A", zero(Proof{Pending: 1, RealCharges: 1, Most: 1})},
		{"A:pending", "A A", Proof{Pending: 1, RealCharges: 2, Most: 2, ChargesNot1: 1}},
		{"A:unknown", "A", zero(Proof{Pending: 1, Unknowns: 1, RealCharges: 1, Most: 1})},
		{"", "X", zero(Proof{RealCharges: 1, Most: 1, NoOrder: 1})},
		{"A:paid", "A X X", Proof{Paid: 1, RealCharges: 3, Most: 2, MostEffects: 1, NoOrder: 2}},
		{"A:paid A:applied", "A", zero(Proof{Paid: 1, RealCharges: 1, Most: 1, MostEffects: 2})},
		{"A:paid", "A$", zero(Proof{Paid: 1, RealCharges: 1, Most: 1, MostEffects: 1, WrongAmount: 1})},
		{"A:paid", "X A",
			zero(Proof{Paid: 1, RealCharges: 2, Most: 1, MostEffects: 1, NoOrder: 1, WrongID: 1})},
	} {
		l, s := books(t)
		fillShop(t, s, c.orders)
		fillLedger(t, l, c.ledger)
		got := prove(s, s.snapshot(), l, time.Now().Add(time.Minute))
		for _, u := range got.OldUnknowns {
			if u.AgeMS < 59_000 {
				t.Errorf("%q, %q: an unknown of %d ms", c.orders, c.ledger, u.AgeMS)
			}
		}
		if (len(got.Wrong) > 0) == got.agrees() {
			t.Errorf("%q, %q: it names %v", c.orders, c.ledger, got.Wrong)
		}
		c.want.DistinctOrders = c.want.Paid + c.want.Failed + c.want.Pending
		c.want.Undelivered = c.want.RealCharges
		got.Wrong, got.OldUnknowns = nil, nil
		if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", c.want); a != b {
			t.Errorf("orders %q, ledger %q:\n got %s\nwant %s", c.orders, c.ledger, a, b)
		}
		if err := got.verdict(got.DistinctOrders); (err == nil) != c.want.Proven {
			t.Errorf("orders %q, ledger %q: the verdict is %v", c.orders, c.ledger, err)
		}
		if err := got.verdict(got.DistinctOrders + 1); !errors.Is(err, ErrProof) {
			t.Error("a run that placed too few orders counts")
		}
	}
}

func fillShop(t *testing.T, s *shop, orders string) {
	t.Helper()
	for field := range strings.FieldsSeq(orders) {
		id, state, _ := strings.Cut(field, ":")
		lines := map[string][]string{"paid": {kindAsked, kindAccepted, kindApplied},
			"failed": {kindAsked, kindDeclined}, "gaveup": {kindAsked, kindGaveUp},
			"pending": {kindAsked}, "unknown": {kindAsked}, "applied": {kindApplied}}[state]
		for _, kind := range lines {
			if err := s.add(orderEntry{Kind: kind, Order: id, Charge: "ch_1"}); err != nil {
				t.Fatal(err)
			}
		}
		if state == "unknown" {
			s.unknownNow(id)
		}
	}
}

func fillLedger(t *testing.T, l *ledger, entries string) {
	t.Helper()
	amount, err := price()
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.FieldsSeq(entries) {
		e := entry{Kind: kindCharge, Reference: strings.Trim(text, "-$"), Amount: amount}
		switch {
		case strings.HasSuffix(text, "-"):
			e.Kind, e.ID = kindDecline, "dec_"+e.Reference
		case strings.HasSuffix(text, "$"):
			if e.Amount, err = amount.Add(amount); err != nil {
				t.Fatal(err)
			}
			fallthrough
		default:
			e.ID = l.nextID()
		}
		if err := l.add(e); err != nil {
			t.Fatal(err)
		}
	}
}

// The verdict is made of what is in the file, not of what the gateway remembers.
func TestFinalProofReadsTheFile(t *testing.T) {
	dir := t.TempDir()
	w := &world{config: Config{Data: dir, Clock: kv.SystemClock()}, stories: newStories(),
		gateway: &gateway{}, crash: &crasher{}}
	w.toggles = newToggles(Faults{}, w.crash)
	if err := w.openBooks(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = w.shop.close(), w.ledger.close() }()
	fillShop(t, w.shop, "A:paid")
	fillLedger(t, w.ledger, "A")
	if p, err := w.finalProof(); err != nil || !p.Proven {
		t.Fatalf("%+v, %v", p, err)
	}
	file := filepath.Join(dir, ledgerFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, content := range map[string]string{"gone": "", "twice": string(text) + string(text)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := w.finalProof(); err != nil || p.Proven {
			t.Errorf("the charge is %s in the file: %+v, %v", what, p, err)
		}
		if !w.proof().Proven {
			t.Error("this test shows nothing: memory says so too")
		}
	}
}

// A shop without onced ships for each callback; one with it commits the event
// with its effect.
func TestRepeatedCallbacksAreJudged(t *testing.T) {
	for unguarded, want := range map[bool]int{false: 1, true: 3} {
		l, s := books(t)
		s.unguarded = unguarded
		for _, kind := range []string{kindAsked, kindAccepted} {
			if err := s.add(orderEntry{Kind: kind, Order: "A", Charge: "ch_1"}); err != nil {
				t.Fatal(err)
			}
		}
		fillLedger(t, l, "A")
		for range 3 {
			if err := s.apply(callback{ID: eventID("ch_1"), Reference: "A", Charge: "ch_1"}); err != nil {
				t.Fatal(err)
			}
		}
		if p := prove(s, s.snapshot(), l, time.Now()); p.MostEffects != want || p.Proven != (want == 1) {
			t.Errorf("unguarded %v: %+v", unguarded, p)
		}
	}
}

// newGateway makes a gateway without a shop.
func newGateway(t *testing.T, f Faults, clock kv.Clock) *gateway {
	t.Helper()
	l, _ := books(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := &crasher{kill: func() {}, tell: func(string) {}, killed: func(string, string) {}}
	g := &gateway{ledger: l, toggles: newToggles(f, c), crash: c, plan: newPlan(1, false), clock: clock,
		stories: newStories(), ctx: ctx, attempts: map[string]int{}, keys: map[string]chan struct{}{},
		callbackURL: func(context.Context) (string, error) { return "", errors.New("nobody listens") }}
	t.Cleanup(func() { cancel(); g.work.Wait() })
	return g
}

func (g *gateway) ask(key, reference string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(g.ctx, http.MethodPost, chargesPath,
		strings.NewReader(`{"reference":"`+reference+`","amount":{"amount":"10.00","asset":"USD"}}`))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	g.handler().ServeHTTP(w, r)
	return w
}

func TestGatewayIgnoresKeysUnlessToldOtherwise(t *testing.T) {
	for _, honours := range []bool{false, true} {
		g := newGateway(t, Faults{Keys: honours, Drop: true}, kv.SystemClock())
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				if w := g.ask("key", "A"); w.Code != http.StatusCreated {
					t.Errorf("keys %v: %d", honours, w.Code)
				}
			})
		}
		clients.Wait()
		want := map[bool]int{false: 8, true: 1}[honours]
		if all, _ := g.ledger.accounts(); len(all["A"].charges) != want {
			t.Errorf("keys %v: %d charges, want %d", honours, len(all["A"].charges), want)
		}
		g.ask("other", "A")
		if all, _ := g.ledger.accounts(); len(all["A"].charges) != want+1 {
			t.Errorf("keys %v: another key: %d charges", honours, len(all["A"].charges))
		}
	}
}

// The gateway keeps its promise: what it could not charge in time, it never charges.
func TestGatewayChargesNothingTooLate(t *testing.T) {
	now := time.Unix(1000, 0)
	g := newGateway(t, Faults{Drop: true}, kv.ClockFunc(func() time.Time { return now }))
	amount, err := price()
	if err != nil {
		t.Fatal(err)
	}
	j := job{chargeRequest: chargeRequest{Reference: "A", Amount: amount}, arrived: now}
	now = now.Add(BookBy + time.Millisecond)
	if _, booked := g.book(j); booked {
		t.Error("charged too late")
	}
	now = now.Add(-2 * time.Millisecond)
	if _, booked := g.book(j); !booked {
		t.Error("not charged in time")
	}
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
		_, s := books(t)
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
		if left := s.left(10); len(left) != 1 {
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
	for text, want := range map[string]Faults{
		"": {}, "none": {}, "all": {Delay: true, Duplicate: true, Drop: true, Crash: true},
		"keys": {Keys: true}, "delay, drop": {Delay: true, Drop: true},
		"all,keys":        {Delay: true, Duplicate: true, Drop: true, Crash: true, Keys: true},
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
	status := http.StatusConflict
	h := c.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Replay") != "" {
			w.Header().Set("Idempotency-Replayed", "true")
		}
		w.WriteHeader(status)
	}))
	ask := func(method, path string, headers ...string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
		r.Header.Set("Idempotency-Key", "ord_A")
		for _, name := range headers {
			r.Header.Set(name, "yes")
		}
		h.ServeHTTP(w, r)
		return w
	}
	if _, err := io.WriteString(parent, "7 "+afterOutcome+"\n"); err != nil {
		t.Fatal(err)
	}
	expect("ok 7")
	// None of these tells the outcome of a charge.
	for _, w := range []*httptest.ResponseRecorder{ask(http.MethodPost, chargesPath),
		ask(http.MethodGet, chargesPath), ask(http.MethodPost, callbacksPath)} {
		if w.Code != status {
			t.Errorf("answered with %d", w.Code)
		}
	}
	status = http.StatusCreated
	if w := ask(http.MethodPost, chargesPath, "Replay"); w.Code != status { // nothing was written down
		t.Errorf("a replay was answered with %d", w.Code)
	}
	go ask(http.MethodPost, chargesPath) // it stops for ever
	expect("at " + afterOutcome + " ord_A")
	if _, err := io.WriteString(parent, "8 "+beforeIntent+"\n"); err != nil {
		t.Fatal(err)
	}
	expect("ok 8")
	if w := ask(http.MethodPost, chargesPath, againHeader); w.Code != status { // its intent is there already
		t.Errorf("the second call for an order was answered with %d", w.Code)
	}
	go ask(http.MethodPost, chargesPath)
	expect("at " + beforeIntent + " ord_A")
	if _, err := io.WriteString(parent, "9 \n"); err != nil {
		t.Fatal(err)
	}
	expect("ok 9")
	if w := ask(http.MethodPost, chargesPath); w.Code != status {
		t.Errorf("disarmed, and answered with %d", w.Code)
	}
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
	case <-time.After(10 * time.Second):
		t.Error("the child outlives its parent")
	}
}

// A late charge is no point to crash at: by then it may have been looked up.
func TestNoCrashAfterALateCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for how, want := range map[slowness]int{prompt: 1, tardy: 1, belated: 0} {
			g := newGateway(t, Faults{Drop: true}, kv.ClockFunc(time.Now))
			g.crash.flip("on", afterCharge)
			amount, err := price()
			if err != nil {
				t.Fatal(err)
			}
			j := job{chargeRequest: chargeRequest{Reference: "A", Amount: amount}, arrived: time.Now(),
				how: how}
			func() {
				defer func() { _ = recover() }() // how a handler cuts off its caller
				g.perform(httptest.NewRecorder(), j)
			}()
			if n := g.crash.counts()[afterCharge]; n != want {
				t.Errorf("kind %d: %d kills, want %d", how, n, want)
			}
			if all, _ := g.ledger.accounts(); len(all["A"].charges) != 1 {
				t.Errorf("kind %d: charged %d times", how, len(all["A"].charges))
			}
		}
	})
}

func TestProgressBar(t *testing.T) {
	w := &world{config: Config{Data: t.TempDir(), Clock: kv.SystemClock()}, stories: newStories(),
		gateway: &gateway{}, crash: &crasher{count: map[string]int{afterCharge: 2}}}
	w.toggles = newToggles(Faults{}, w.crash)
	if err := w.openBooks(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = w.shop.close(), w.ledger.close() }()
	fillShop(t, w.shop, "A:paid B:failed C:pending")
	fillLedger(t, w.ledger, "A B-")
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

func TestTheLostOrderIsLost(t *testing.T) {
	const lostOrder = "ord_L34" // of TestDM04
	if p := newPlan(1, false); p.slow(lostOrder, 1) != lost {
		t.Errorf("the first call for %s is of the kind %d", lostOrder, p.slow(lostOrder, 1))
	}
}
