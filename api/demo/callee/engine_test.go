package callee_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/api/demo/book"
	"onced/api/demo/callee"
	"onced/api/demo/proof"
	"onced/kv"
	"onced/kv/feed"
	"onced/kv/memkv"
	"onced/kv/money"
	"onced/kv/timer"
	"onced/saga"
)

// market is the services, and an engine that calls them.
type market struct {
	t        *testing.T
	base     string
	client   *http.Client
	ledgers  map[book.Service]*book.Ledger
	services *callee.Services
	engine   *saga.Engine
	checkout *saga.Definition

	mu    sync.Mutex
	tells map[string]int
}

// wire is a network inside of the program, so that a test on it has a time of its own: how
// busy the machine is then makes no answer late.
type wire struct {
	calls chan net.Conn
	ended <-chan struct{}
}

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case w.calls <- server:
		return client, nil
	case <-w.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.calls:
		return c, nil
	case <-w.ended:
		return nil, net.ErrClosed
	}
}

// Addr implements [net.Listener].
func (*wire) Addr() net.Addr { return &net.IPAddr{} }

// Close implements [net.Listener].
func (*wire) Close() error { return nil }

// open starts the services with the faults, and the engine.
func open(t *testing.T, seed uint64, faults map[string]bool) *market {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m := &market{t: t, tells: map[string]int{}, ledgers: map[book.Service]*book.Ledger{},
		base: "http://services"}
	network := &wire{calls: make(chan net.Conn), ended: ctx.Done()}
	m.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, DialContext: network.dial}}
	for _, s := range book.Services() {
		l, err := book.Open(filepath.Join(t.TempDir(), s.File()))
		if err != nil {
			t.Fatal(err)
		}
		m.ledgers[s] = l
	}
	m.services = callee.New(callee.Env{Ctx: ctx, Clock: kv.SystemClock(), Plan: callee.NewPlan(seed, true),
		Client: m.client, On: func(fault string, _ book.Service) bool { return faults[fault] },
		Crash: func(string, string) bool { return false }, Tell: func(_, text string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.tells[text]++
		}}, m.ledgers)
	mux := http.NewServeMux()
	mux.Handle("/", m.services.Handler())
	mux.HandleFunc("POST /signal/{run}", m.signal)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	var work sync.WaitGroup
	work.Go(func() { _ = srv.Serve(network) })
	m.startEngine(ctx, &work)
	t.Cleanup(func() {
		cancel()
		_ = srv.Close()
		m.client.CloseIdleConnections()
		work.Wait()
		m.services.Wait()
		for _, l := range m.ledgers {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return m
}

func (m *market) startEngine(ctx context.Context, work *sync.WaitGroup) {
	m.t.Helper()
	store := memkv.New(memkv.Options{})
	timers := timer.New(store, timer.Config{})
	engine, err := saga.NewEngine(store, saga.Config{Timers: timers, Feed: feed.New(feed.Config{}),
		Drain: time.Millisecond})
	if err != nil {
		m.t.Fatal(err)
	}
	m.engine = engine
	m.checkout = m.definition()
	if err := engine.Register(m.checkout); err != nil {
		m.t.Fatal(err)
	}
	work.Go(func() { _ = timers.Run(ctx) })
	work.Go(func() { _ = engine.Serve(ctx) })
}

type input struct {
	Order string `json:"order"`
}

type output struct {
	ID string `json:"id"`
}

// definition is the checkout of the demo, in Go.
func (m *market) definition() *saga.Definition {
	act := func(path string) func(context.Context, input) (output, error) {
		return func(ctx context.Context, in input) (output, error) { return m.post(ctx, path, in) }
	}
	undo := func(path string) func(context.Context, input, output) error {
		return func(ctx context.Context, in input, _ output) error {
			_, err := m.post(ctx, path, in)
			return err
		}
	}
	check := func(path string) saga.Option {
		return saga.Check(func(ctx context.Context, in input, _ saga.Doubt) (output, bool, error) {
			return m.look(ctx, path, in)
		})
	}
	usual := []saga.Option{saga.Timeout(callee.CallTimeout), saga.SettlesAfter(callee.SettlesAfter),
		saga.Attempts(10), saga.Backoff(300*time.Millisecond, 2*time.Second)}
	with := func(more ...saga.Option) []saga.Option { return append(more, usual...) }
	return saga.New("checkout").
		Step("loyalty", act(callee.SpendPath), undo(callee.ReturnPath),
			with(saga.Repeatable(time.Hour), saga.UndoWhenAbsent())...).
		Step("voucher", act(callee.RedeemPath), undo(callee.ReleasePath),
			with(check(callee.RedemptionsPath))...).
		Step("charge", act(callee.ChargesPath), undo(callee.RefundsPath),
			with(check(callee.ChargesPath), saga.AwaitFor(2500*time.Millisecond))...).
		Step("order", act(callee.OrdersPath), nil, with(check(callee.OrdersPath), saga.Repeatable(time.Hour),
			saga.NothingToUndo())...)
}

func (m *market) post(ctx context.Context, path string, in input) (out output, err error) {
	c := saga.CallOf(ctx)
	usd, err := money.ParseAsset("USD")
	if err != nil {
		return out, err
	}
	amount, err := money.ParsePositive("10.00", usd)
	if err != nil {
		return out, err
	}
	body, err := json.Marshal(callee.Request{Order: in.Order,
		Reference: callee.Reference(in.Order, int(c.Round)), Points: 100, Voucher: "TENOFF", Amount: amount,
		Charge: m.chargeOf(in.Order), CallbackURL: m.base + "/signal/" + c.Run})
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.base+path, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header.Set("Idempotency-Key", c.DownstreamKey)
	req.GetBody = nil
	status, answer, err := m.do(req)
	switch {
	case err != nil:
		return out, err
	case status/100 == 2:
		return output{ID: answer.ID}, nil
	case status == http.StatusPaymentRequired || status == http.StatusUnprocessableEntity:
		return out, saga.Refused(errors.New(answer.Error))
	}
	return out, fmt.Errorf("status %d", status)
}

// chargeOf is the charge that stands for an order, as a signal would have told.
func (m *market) chargeOf(order string) string {
	if a := m.ledgers[book.Charge].OfOrder(order); len(a.Effects) > 0 {
		return a.Effects[0].ID
	}
	return ""
}

func (m *market) look(ctx context.Context, path string, in input) (out output, found bool, err error) {
	c := saga.CallOf(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		m.base+path+"/"+callee.Reference(in.Order, int(c.Round)), http.NoBody)
	if err != nil {
		return out, false, err
	}
	status, answer, err := m.do(req)
	switch {
	case err != nil:
		return out, false, err
	case status == http.StatusNotFound:
		return out, false, nil
	case status == http.StatusOK && answer.Status == callee.StatusDone:
		return output{ID: answer.ID}, true, nil
	case status == http.StatusOK && answer.Status == callee.StatusFailed:
		return out, false, saga.Refused(errors.New(answer.Error))
	}
	return out, false, fmt.Errorf("status %d %s", status, answer.Status)
}

func (m *market) do(req *http.Request) (status int, a callee.Answer, err error) {
	resp, err := m.client.Do(req)
	if err != nil {
		return 0, a, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, a, err
	}
	return resp.StatusCode, a, json.Unmarshal(text, &a)
}

// signal takes a callback.
func (m *market) signal(w http.ResponseWriter, r *http.Request) {
	var a callee.Answer
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	err := m.engine.Signal(r.Context(), saga.Signal{Run: r.PathValue("run"), Step: "charge",
		Refused: a.Status == callee.StatusFailed})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// place carries out an order and returns what the customer is told.
func (m *market) place(order string) proof.Order {
	o := proof.Order{ID: order, State: proof.Pending}
	run, err := m.engine.Run(m.t.Context(), m.checkout, order, input{Order: order})
	switch {
	case err == nil:
		o.State = proof.Paid
	case errors.Is(err, saga.ErrUndone):
		o.State = proof.Failed
	case errors.Is(err, saga.ErrNeedsPerson):
		o.Needs = err.Error()
	default:
		m.t.Errorf("%s: %v, %+v", order, err, run)
	}
	return o
}

// placeAll places orders at the same time and waits until all is at rest.
func (m *market) placeAll(names []string) proof.Proof {
	m.t.Helper()
	f := proof.Facts{Orders: make([]proof.Order, len(names)), Books: proof.Books{}, Now: time.Unix(0, 0),
		Values: map[book.Service]string{book.Loyalty: "100", book.Voucher: "TENOFF",
			book.Charge: "10.00 USD"}}
	var clients sync.WaitGroup
	for i, name := range names {
		clients.Go(func() { f.Orders[i] = m.place(name) })
	}
	clients.Wait()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !m.services.Idle() {
		<-tick.C
	}
	for s, l := range m.ledgers {
		f.Books[s] = l.Entries()
	}
	return proof.Of(f)
}

func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("ord_%03d", i))
	}
	return all
}

// An engine with definitions like the demo's keeps the proof whole under every fault.
func TestEveryFaultWithAnEngine(t *testing.T) {
	t.Parallel()
	all := map[string]bool{callee.Delay: true, callee.Lose: true, callee.Fail: true, callee.Refuse: true,
		callee.Duplicate: true, callee.Drop: true, callee.Early: true}
	keys := map[string]bool{callee.Keys: true}
	for f := range all {
		keys[f] = true
	}
	for name, faults := range map[string]map[string]bool{"none": {}, "all": all, "all, and keys": keys} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { everyFault(t, name, faults) })
		})
	}
}

func everyFault(t *testing.T, name string, faults map[string]bool) {
	m := open(t, 7, faults)
	p := m.placeAll(append(names(200), "nopoints", "novoucher", "declined-1", "declined-2",
		"nostock"))
	if !p.Proven || p.NeedPerson > 0 || p.Paid == 0 || p.Failed < 5 {
		t.Errorf("%+v\n%v", p, m.tells)
	}
	if name == "none" && p.Failed != 5 {
		t.Errorf("%d orders failed though nothing was switched on", p.Failed)
	}
	for _, s := range book.Services() {
		if p.Ledgers[s].Refused == 0 {
			t.Errorf("%s refused nothing", s)
		}
	}
	for _, s := range book.Services()[:3] {
		if p.Ledgers[s].Undone == 0 {
			t.Errorf("%s took nothing back", s)
		}
	}
}
