package callee

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/api/demo/book"
	"onced/kv"
)

// What a demo shows depends on these.
func TestTimesFitTogether(t *testing.T) {
	for _, c := range []struct {
		what       string
		less, more time.Duration
	}{
		{"a late answer comes after the time-out", CallTimeout, answerFrom},
		{"a late effect comes after the time-out", CallTimeout, belatedFrom},
		{"a late effect is allowed", belatedTo + settleTo, BookBy},
		{"and settled before a look-up is believed", BookBy + time.Second, SettlesAfter},
		{"a late callback is late", CallTimeout, callbackLate},
		{"an answer that waits for its callback comes in time", earlyWait, CallTimeout},
	} {
		if c.less >= c.more {
			t.Errorf("%s: %s is not less than %s", c.what, c.less, c.more)
		}
	}
}

func anyFault(string) bool { return true }

func TestPlan(t *testing.T) {
	a, same, other := NewPlan(7, true), NewPlan(7, true), NewPlan(8, true)
	differ, kinds, copies, drops, early, refused := 0, map[manner]int{}, map[int]int{}, 0, 0, 0
	const n = 10_000
	s := &service{name: book.Charge}
	for i := range n {
		o := &op{service: s, name: "charge",
			Request: Request{Order: fmt.Sprint(i), Reference: Reference(fmt.Sprint(i), 1)}}
		how := a.manner(o, 1, anyFault)
		if how != same.manner(o, 1, anyFault) || a.copies(o.Reference) != same.copies(o.Reference) ||
			a.drops(o.Reference) != same.drops(o.Reference) ||
			a.refuses(s.name, o, true) != same.refuses(s.name, o, true) ||
			a.between("x", o.Reference, 0, time.Hour) != same.between("x", o.Reference, 0, time.Hour) {
			t.Fatalf("%s: one seed, two plans", o.Reference)
		}
		if how != other.manner(o, 1, anyFault) {
			differ++
		}
		kinds[how]++
		copies[a.copies(o.Reference)]++
		count := func(n *int, is bool) {
			if is {
				*n++
			}
		}
		count(&drops, a.drops(o.Reference))
		count(&early, a.isEarly(o.Reference))
		count(&refused, a.refuses(s.name, o, true))
		if a.manner(o, lastFault+1, anyFault) != prompt {
			t.Fatalf("%s: it meets faults for ever", o.Reference)
		}
		if a.manner(o, 1, func(string) bool { return false }) != prompt || a.refuses(s.name, o, false) {
			t.Fatalf("%s: a fault that is off", o.Reference)
		}
	}
	near := func(what string, got, percent int) {
		t.Helper()
		if want := n * percent / 100; got < want*8/10 || got > want*12/10 {
			t.Errorf("%s: %d of %d, want about %d", what, got, n, want)
		}
	}
	near("prompt", kinds[prompt], 85)
	near("alone", copies[1], 70)
	near("three to five copies", copies[3]+copies[4]+copies[5], 30)
	near("dropped", drops, 12)
	near("early", early, 20)
	near("refused", refused, 3)
	for how := prompt; how <= failed; how++ {
		if kinds[how] == 0 {
			t.Errorf("no call goes in the manner %d: %v", how, kinds)
		}
	}
	if differ == 0 {
		t.Error("another seed changes nothing")
	}
	by := NewPlan(1, false)
	o := &op{service: s, name: "charge", Request: Request{Order: "x", Reference: "x.1"}}
	if by.manner(o, 1, anyFault) == prompt || by.copies("x") < 3 || !by.drops("x") || !by.isEarly("x") ||
		by.refuses(s.name, o, false) || !by.refuses(s.name, o, true) {
		t.Error("a switch that a person flips is always felt")
	}
	for name, order := range always {
		o := &op{service: &service{name: name}, Request: Request{Order: order + "-1"}}
		for _, other := range book.Services() {
			if by.refuses(other, o, false) != (other == name) {
				t.Errorf("%s refuses %s: %v", other, o.Order, other != name)
			}
		}
	}
}

// kit is services without a network.
type kit struct {
	*Services
	ledgers map[book.Service]*book.Ledger

	mu      sync.Mutex
	crashes []string
	armed   string
}

func newKit(t *testing.T, clock kv.Clock, faults ...string) *kit {
	t.Helper()
	k := &kit{ledgers: map[book.Service]*book.Ledger{}}
	for _, s := range book.Services() {
		l, err := book.Open(filepath.Join(t.TempDir(), s.File()))
		if err != nil {
			t.Fatal(err)
		}
		k.ledgers[s] = l
	}
	ctx, cancel := context.WithCancel(t.Context())
	k.Services = New(Env{Ctx: ctx, Clock: clock, Plan: NewPlan(1, false), Client: http.DefaultClient,
		Tell: func(string, string) {},
		On: func(fault string, _ book.Service) bool {
			return slices.Contains(faults, fault)
		},
		Crash: func(point, _ string) bool {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.crashes = append(k.crashes, point)
			return point == k.armed
		}}, k.ledgers)
	t.Cleanup(func() {
		cancel()
		k.Wait()
		for _, l := range k.ledgers {
			_ = l.Close()
		}
	})
	return k
}

// call asks a service; a call that is cut off has the status 0.
func (k *kit) call(path, order, key string) (status int, a Answer) {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, strings.NewReader(
		`{"order":"`+order+`","reference":"`+order+`.1","points":100,"voucher":"TENOFF","charge":"ch_1",`+
			`"amount":{"amount":"10.00","asset":"USD"}}`))
	r.Header.Set("Idempotency-Key", key)
	return k.serve(w, r)
}

func (k *kit) get(path, order string) (status int, a Answer) {
	path += "/" + Reference(order, 1)
	return k.serve(httptest.NewRecorder(),
		httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, http.NoBody))
}

func (k *kit) serve(w *httptest.ResponseRecorder, r *http.Request) (status int, a Answer) {
	defer func() {
		if recover() != nil { // how a handler cuts off its caller
			status = 0
		}
	}()
	k.Handler().ServeHTTP(w, r)
	_ = json.Unmarshal(w.Body.Bytes(), &a)
	return w.Code, a
}

// settled waits until nothing is under way, and counts what stands for an order.
func (k *kit) settled(s book.Service, order string) (effects, undos int) {
	k.Wait()
	a := k.ledgers[s].OfOrder(order)
	for _, u := range a.Undos {
		if u.Of != "" {
			undos++
		}
	}
	return len(a.Effects), undos
}

// Who honours keys does it once for a key, and again for another; who ignores them
// does it for every call.
func TestKeys(t *testing.T) {
	for _, honoured := range []bool{false, true} {
		for s, path := range map[book.Service]string{book.Loyalty: SpendPath, book.Voucher: RedeemPath,
			book.Charge: ChargesPath, book.Order: OrdersPath} {
			var faults []string
			if honoured {
				faults = []string{Keys}
			}
			k := newKit(t, kv.SystemClock(), faults...)
			var clients sync.WaitGroup
			for range 8 {
				clients.Go(func() {
					if status, _ := k.call(path, "A", "key"); status/100 != 2 {
						t.Errorf("%s: %d", s, status)
					}
				})
			}
			clients.Wait()
			want := 8
			if honoured || s == book.Loyalty || s == book.Order {
				want = 1
			}
			if n, _ := k.settled(s, "A"); n != want {
				t.Errorf("%s, keys %v: %d times, want %d", s, honoured, n, want)
			}
			k.call(path, "A", "other")
			if n, _ := k.settled(s, "A"); n != want+1 {
				t.Errorf("%s, keys %v: another key: %d times", s, honoured, n)
			}
		}
	}
}

// A refusal is remembered for a key, and told to a look-up.
func TestRefusals(t *testing.T) {
	k := newKit(t, kv.SystemClock())
	for _, c := range []struct {
		path, look, order string
		status            int
	}{
		{SpendPath, "", "nopoints", 422}, {RedeemPath, RedemptionsPath, "novoucher", 422},
		{OrdersPath, OrdersPath, "nostock", 422},
	} {
		for range 2 {
			if status, a := k.call(c.path, c.order, "key"); status != c.status || a.Error == "" {
				t.Errorf("%s: %d %+v", c.order, status, a)
			}
		}
		if c.look == "" {
			continue
		}
		if status, a := k.get(c.look, c.order); status != http.StatusOK || a.Status != StatusFailed {
			t.Errorf("%s: the look-up says %d %+v", c.order, status, a)
		}
	}
	once, later := 0, 0
	for i := range 20 {
		order := fmt.Sprint("declined-", i)
		switch status, _ := k.call(ChargesPath, order, ""); status {
		case http.StatusPaymentRequired:
			once++
		case http.StatusAccepted:
			later++
		}
		if n, _ := k.settled(book.Charge, order); n != 0 || !k.ledgers[book.Charge].OfOrder(order).Refused {
			t.Errorf("%s was charged", order)
		}
		if status, a := k.get(ChargesPath, order); status != http.StatusOK || a.Status != StatusFailed {
			t.Errorf("%s: the look-up says %d %+v", order, status, a)
		}
	}
	if once == 0 || later == 0 {
		t.Errorf("%d were declined at once, %d later", once, later)
	}
}

// What is taken back is taken back once; and what comes after it is refused, where
// nothing was there to take back.
func TestUndo(t *testing.T) {
	k := newKit(t, kv.SystemClock())
	for _, c := range []struct {
		s             book.Service
		do, undo, key string
	}{
		{book.Loyalty, SpendPath, ReturnPath, "u"}, {book.Voucher, RedeemPath, ReleasePath, ""},
		{book.Charge, ChargesPath, RefundsPath, ""},
	} {
		k.call(c.do, "A", "a")
		k.Wait()
		for range 3 {
			if status, _ := k.call(c.undo, "A", c.key); status != http.StatusOK {
				t.Errorf("%s: the undo is answered %d", c.s, status)
			}
		}
		if effects, undos := k.settled(c.s, "A"); effects != 1 || undos != 1 {
			t.Errorf("%s: %d effects, %d undos", c.s, effects, undos)
		}
		if c.s == book.Charge {
			if status, _ := k.call(c.undo, "B", ""); status != http.StatusUnprocessableEntity {
				t.Errorf("a refund of no charge: %d", status)
			}
			continue
		}
		if status, _ := k.call(c.undo, "B", "ub"); status != http.StatusOK {
			t.Errorf("%s: the undo of nothing is answered %d", c.s, status)
		}
		if status, _ := k.call(c.do, "B", "b"); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: what comes after its undo is answered %d", c.s, status)
		}
		if effects, undos := k.settled(c.s, "B"); effects+undos != 0 {
			t.Errorf("%s: %d effects, %d undos of nothing", c.s, effects, undos)
		}
	}
	// Without keys, giving back twice gives twice.
	k.call(SpendPath, "C", "c")
	k.call(ReturnPath, "C", "")
	k.call(ReturnPath, "C", "")
	if _, undos := k.settled(book.Loyalty, "C"); undos != 2 {
		t.Errorf("points were given back %d times", undos)
	}
}

// The services keep their promise: what they could not do in time they never do.
func TestNothingIsDoneTooLate(t *testing.T) {
	now := time.Unix(1000, 0)
	k := newKit(t, kv.ClockFunc(func() time.Time { return now }))
	for s, one := range k.all {
		o := &op{service: one, name: "x", Request: Request{Order: "A", Reference: "A.1"}, arrived: now}
		o.do = func(o *op) (reply, error) { return o.effect("x", "%s") }
		o.arrived = now.Add(-BookBy - time.Millisecond)
		if _, err := one.once(o); err == nil {
			t.Errorf("%s: done too late", s)
		}
		o.arrived = now.Add(-BookBy + time.Millisecond)
		if _, err := one.once(o); err != nil {
			t.Errorf("%s: not done in time: %v", s, err)
		}
	}
	o := &op{service: k.all[book.Charge], Request: Request{Order: "B", Reference: "B.1"}}
	o.arrived = now.Add(-BookBy - time.Millisecond)
	if k.gateway.book(o, o.entry(book.Effect, "ch")) {
		t.Error("settled too late")
	}
	o.arrived = now
	if !k.gateway.book(o, o.entry(book.Effect, "ch")) {
		t.Error("not settled in time")
	}
}

// A charge is pending until it is settled, and a look-up says so.
func TestLookUpOfACharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, kv.ClockFunc(time.Now))
		if status, _ := k.get(ChargesPath, "A"); status != http.StatusNotFound {
			t.Errorf("before: %d", status)
		}
		status, a := k.call(ChargesPath, "A", "")
		if status != http.StatusAccepted || a.Status != StatusPending {
			t.Errorf("%d %+v", status, a)
		}
		if status, a := k.get(ChargesPath, "A"); status != http.StatusOK || a.Status != StatusPending {
			t.Errorf("meanwhile: %d %+v", status, a)
		}
		k.Wait()
		status, a = k.get(ChargesPath, "A")
		if status != http.StatusOK || a.Status != StatusDone || a.ID == "" {
			t.Errorf("after: %d %+v", status, a)
		}
	})
}

// Each manner does and answers what it says; a late effect is no point to crash at:
// by then it may have been looked up.
func TestManners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for how, want := range map[manner]struct {
			effects, crashes int
			status           int
			late             bool
		}{
			prompt:  {1, 1, http.StatusCreated, false},
			tardy:   {1, 1, http.StatusCreated, true},
			belated: {1, 0, http.StatusCreated, true},
			lost:    {0, 0, 0, true},
			cut:     {1, 1, 0, false},
			failed:  {1, 1, http.StatusInternalServerError, false},
		} {
			k := newKit(t, kv.ClockFunc(time.Now))
			order := k.orderOf(how)
			k.setFaults(how)
			began := time.Now()
			status, _ := k.call(SpendPath, order, "key")
			if status != want.status {
				t.Errorf("manner %d: %d, want %d", how, status, want.status)
			}
			if late := time.Since(began) > CallTimeout; late != want.late {
				t.Errorf("manner %d: it took %s", how, time.Since(began))
			}
			if n, _ := k.settled(book.Loyalty, order); n != want.effects {
				t.Errorf("manner %d: %d effects", how, n)
			}
			crashes := strings.Count(strings.Join(k.crashes, " "), After+string(book.Loyalty))
			if crashes != want.crashes {
				t.Errorf("manner %d: %d points after it, want %d", how, crashes, want.crashes)
			}
		}
	})
}

// setFaults switches on what leads to a manner.
func (k *kit) setFaults(how manner) {
	for _, s := range k.all {
		s.On = func(fault string, _ book.Service) bool {
			switch how {
			case cut:
				return fault == Lose
			case failed:
				return fault == Fail
			case tardy, belated, lost:
				return fault == Delay
			case prompt:
			}
			return false
		}
	}
}

// orderOf finds an order whose first call goes in a manner when it is delayed.
func (k *kit) orderOf(how manner) string {
	if how == prompt || how == cut || how == failed {
		return "A"
	}
	for i := 0; ; i++ {
		order := fmt.Sprint("ord-", i)
		o := &op{service: k.all[book.Loyalty], name: "spend",
			Request: Request{Order: order, Reference: Reference(order, 1)}}
		if k.all[book.Loyalty].Plan.manner(o, 1, func(f string) bool { return f == Delay }) == how {
			return order
		}
	}
}

// Who was killed at a point is cut off, before or after the effect.
func TestCrashPoints(t *testing.T) {
	for _, c := range []struct {
		path  string
		s     book.Service
		point string
		want  int
	}{
		{SpendPath, book.Loyalty, Before + "loyalty", 0}, {SpendPath, book.Loyalty, After + "loyalty", 1},
		{RedeemPath, book.Voucher, Before + "voucher", 0}, {RedeemPath, book.Voucher, After + "voucher", 1},
		{ChargesPath, book.Charge, Before + "charge", 0}, {ChargesPath, book.Charge, After + AcceptPoint, 1},
		{OrdersPath, book.Order, Before + "order", 0}, {OrdersPath, book.Order, After + "order", 1},
		{ReleasePath, book.Voucher, Before + UndoPoint, 0}, {ReleasePath, book.Voucher, After + UndoPoint, 0},
	} {
		k := newKit(t, kv.SystemClock())
		k.armed = c.point
		if status, _ := k.call(c.path, "A", "key"); status != 0 {
			t.Errorf("%s: answered %d", c.point, status)
		}
		if n, _ := k.settled(c.s, "A"); n != c.want {
			t.Errorf("%s: %d effects, want %d", c.point, n, c.want)
		}
		undone := len(k.ledgers[c.s].OfOrder("A").Undos)
		if undone != strings.Count(c.point, After+UndoPoint) {
			t.Errorf("%s: %d undos", c.point, undone)
		}
	}
	k := newKit(t, kv.SystemClock())
	k.armed = After + "charge" // it is reached when the gateway settles, and cuts nobody off
	if status, _ := k.call(ChargesPath, "A", ""); status != http.StatusAccepted {
		t.Errorf("answered %d", status)
	}
	if k.settled(book.Charge, "A"); !strings.Contains(strings.Join(k.crashes, " "), After+"charge") {
		t.Errorf("the points: %v", k.crashes)
	}
}

// listen takes callbacks; got returns those that came.
func listen(t *testing.T, answer func(n int) int) (url string, got func() []Answer) {
	t.Helper()
	var all []Answer
	var mu sync.Mutex
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var a Answer
		_ = json.NewDecoder(r.Body).Decode(&a)
		all = append(all, a)
		w.WriteHeader(answer(len(all)))
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() []Answer {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func (k *kit) charge(t *testing.T, order, callback string) (status int) {
	t.Helper()
	body := fmt.Sprintf(`{"order":%q,"reference":%q,"callback_url":%q,`+
		`"amount":{"amount":"10.00","asset":"USD"}}`, order, order+".1", callback)
	status, _ = k.serve(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		ChargesPath, strings.NewReader(body)))
	return status
}

func TestCallbacks(t *testing.T) {
	ok := func(int) int { return http.StatusOK }
	for _, c := range []struct {
		name   string
		faults []string
		answer func(n int) int
		least  int
		most   int
	}{
		{"once", nil, ok, 1, 1},
		{"often", []string{Duplicate}, ok, 3, 5},
		{"never", []string{Drop}, ok, 0, 0},
		{"until it is taken", nil, func(n int) int {
			return map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusOK}[n < 3]
		}, 3, 3},
	} {
		k := newKit(t, kv.SystemClock(), c.faults...)
		url, got := listen(t, c.answer)
		k.charge(t, "A", url)
		k.Wait()
		if n := len(got()); n < c.least || n > c.most || n != k.Sent() {
			t.Errorf("%s: %d callbacks, %d sent", c.name, n, k.Sent())
		}
		for _, a := range got() {
			if a.Status != StatusDone || a.ID == "" || a.Reference != "A.1" || a.Event != "evt_"+a.ID {
				t.Errorf("%s: %+v", c.name, a)
			}
		}
	}
	for _, early := range []bool{false, true} {
		var faults []string
		if early {
			faults = []string{Early}
		}
		k := newKit(t, kv.SystemClock(), faults...)
		url, got := listen(t, ok)
		k.charge(t, "A", url)
		before := len(got()) > 0
		if k.Wait(); early && !before || len(got()) != 1 {
			t.Errorf("early %v: it came before the answer: %v", early, before)
		}
	}
}

// TestDM04 of the demo counts on this order: the first call for its charge is lost.
func TestTheLostOrderIsLost(t *testing.T) {
	o := &op{service: &service{name: book.Charge}, name: "charge",
		Request: Request{Order: "ord_L11", Reference: "ord_L11.1"}}
	if how := NewPlan(1, false).manner(o, 1, func(f string) bool { return f == Delay }); how != lost {
		t.Errorf("its manner is %d", how)
	}
}
