package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/api"
	"onced/kv"
	"onced/kv/kvtest/testclock"
	"onced/saga"
	"onced/saga/machine"
)

// startSagas is start with definitions that no file has.
func startSagas(t *testing.T, o Options, defs ...*saga.Definition) *running {
	t.Helper()
	r := &running{t: t, notice: new(syncBuffer), log: new(syncBuffer), done: make(chan error, 1)}
	o.Notice = r.notice
	o.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	var err error
	if r.app, err = New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := r.app.parts.sagas.engine.Register(defs...); err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + r.app.Addr("api").String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r.stop = cancel
	go func() { r.done <- r.app.Run(ctx) }()
	r.get("/livez") // it runs
	t.Cleanup(func() {
		cancel()
		<-r.done
		http.DefaultClient.CloseIdleConnections()
	})
	return r
}

type order struct {
	ID string `json:"id"`
}

// callee counts the calls of two steps; the first waits until it may go on.
type callee struct {
	mu      sync.Mutex
	calls   []string
	arrived chan struct{}
	goOn    chan struct{}
}

func newCallee() *callee {
	return &callee{arrived: make(chan struct{}, 8), goOn: make(chan struct{}, 8)}
}

func (c *callee) step(name string, waits bool) func(context.Context, order) (order, error) {
	return func(ctx context.Context, in order) (order, error) {
		c.mu.Lock()
		c.calls = append(c.calls, name)
		c.mu.Unlock()
		if waits {
			c.arrived <- struct{}{}
			select {
			case <-c.goOn:
			case <-ctx.Done():
				return in, ctx.Err()
			}
		}
		return in, nil
	}
}

func (c *callee) definition() *saga.Definition {
	undo := func(context.Context, order, order) error { return nil }
	return saga.New("checkout").Step("charge", c.step("charge", true), undo).
		Step("order", c.step("order", false), nil)
}

func (c *callee) called() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.calls, " ")
}

// probe is a definition whose step does nothing.
func probe() *saga.Definition {
	return saga.New("probe").Step("a",
		func(context.Context, order) (order, error) { return order{}, nil }, nil)
}

// awaitDrain waits until the engine begins no call any more.
func awaitDrain(t *testing.T, e *saga.Engine) {
	t.Helper()
	d := probe()
	if err := e.Register(d); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		started, err := e.Start(t.Context(), d, "probe-"+strconv.Itoa(i), order{})
		if err != nil {
			t.Fatal(err)
		}
		v, err := e.Get(t.Context(), started.Run)
		if err != nil {
			t.Fatal(err)
		}
		if s := v.State.Steps[0].Status; s == machine.Ready || s == machine.Pending {
			return // else the call began with the start
		}
	}
}

// A stop lets the call under way end, begins no other, and tells who waits; the next
// start goes on with the run.
func TestSagasDrainWithTheServers(t *testing.T) {
	o, c := options(t, ""), newCallee()
	d := c.definition()
	r := startSagas(t, o, d)
	started, err := r.app.parts.sagas.engine.Start(t.Context(), d, "order-1", order{"o-1"})
	if err != nil {
		t.Fatal(err)
	}
	<-c.arrived
	r.stop()
	awaitDrain(t, r.app.parts.sagas.engine)
	select {
	case err := <-r.done:
		t.Fatalf("it stopped while a call was under way: %v", err)
	default:
	}
	c.goOn <- struct{}{}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if got := c.called(); got != "charge" {
		t.Errorf("while it stopped there were the calls %q", got)
	}

	again := startSagas(t, o, d, probe())
	v, err := again.app.parts.sagas.engine.Wait(t.Context(), started.Run)
	if err != nil || v.State.Status != machine.Completed {
		t.Errorf("after the next start the run is %v: %v", v.State.Status, err)
	}
	if got := c.called(); got != "charge order" {
		t.Errorf("there were the calls %q", got)
	}
}

// A call that does not end in time is cut off, and unknown at the next start.
func TestTheDrainOfSagasIsBounded(t *testing.T) {
	o, c := options(t, "http: {drain_timeout: 50ms}\n"), newCallee()
	d := c.definition()
	r := startSagas(t, o, d)
	started, err := r.app.parts.sagas.engine.Start(t.Context(), d, "order-1", order{"o-1"})
	if err != nil {
		t.Fatal(err)
	}
	<-c.arrived
	begin := time.Now()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 20*time.Second { // without the setting it has 25 s
		t.Errorf("it took %v to stop", took)
	}
	again := startSagas(t, o, d)
	v, err := again.app.parts.sagas.engine.Wait(t.Context(), started.Run)
	if !errors.Is(err, saga.ErrNeedsPerson) || v.State.Hold != machine.HoldUnknown {
		t.Errorf("after the next start the run is %v, held for %v: %v", v.State.Status, v.State.Hold, err)
	}
	if got := c.called(); got != "charge" {
		t.Errorf("there were the calls %q", got)
	}
}

// Who waits for a run that does not go on any more is answered with how far it is,
// long before the time to drain is over.
func TestAStopEndsTheWaitForRuns(t *testing.T) {
	d := saga.New("approval").Await("approve").Step("send",
		func(context.Context, order) (order, error) { return order{}, nil }, nil)
	r := startSagas(t, options(t, "http: {drain_timeout: 10m}\n"), d)
	token := regexp.MustCompile(`onced_[a-z0-9]+`).FindString(r.notice.String())
	type reply struct {
		status int
		body   string
		err    error
	}
	answered := make(chan reply, 1)
	go func() {
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost,
			r.url+"/v1/runs", strings.NewReader(`{"definition":"approval","principal":"shop","key":"a-1"}`))
		if err != nil {
			answered <- reply{err: err}
			return
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Prefer", "wait=60")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			answered <- reply{err: err}
			return
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		answered <- reply{res.StatusCode, string(text), err}
	}()
	for { // until it waits for its signal
		page, _, err := r.app.parts.sagas.engine.List(t.Context(), saga.Query{Definition: "approval"})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 1 && page[0].State.Steps[0].Status == machine.Waiting {
			break
		}
	}
	begin := time.Now()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	got := <-answered
	if got.err != nil || got.status != http.StatusCreated ||
		!strings.Contains(got.body, `"state":"running"`) {
		t.Errorf("%d %s %v", got.status, got.body, got.err)
	}
	if took := time.Since(begin); took > 30*time.Second { // its wait is 60 s
		t.Errorf("the stop took %v", took)
	}
}

// What came by the API is there after a restart, each version of it.
func TestDefinitionsOfTheStoreAreKnownAtTheNextStart(t *testing.T) {
	o := options(t, "")
	r := startSagas(t, o)
	put := func(text string) {
		t.Helper()
		d := documents{book: r.app.parts.sagas.book, app: r.app}
		if _, isNew, err := d.Put(t.Context(), api.NewDefinition{Source: []byte(text)}); err != nil ||
			!isNew {
			t.Fatalf("%v %v", isNew, err)
		}
	}
	put("name: hello\nsteps:\n- name: word\n  await: {for: 24h}\n  nothing_to_undo: true\n")
	engine := r.app.parts.sagas.engine
	started, err := engine.StartRun(t.Context(), saga.StartRequest{Definition: "hello", Key: "h-1"})
	if err != nil {
		t.Fatal(err)
	}
	put("name: hello\nsteps:\n- name: answer\n  await: {for: 24h}\n  nothing_to_undo: true\n")
	if err := r.end(); err != nil {
		t.Fatal(err)
	}

	engine = startSagas(t, o).app.parts.sagas.engine
	if err := engine.Signal(t.Context(), saga.Signal{Run: started.Run, Step: "word"}); err != nil {
		t.Fatal(err)
	}
	if v, err := engine.Wait(t.Context(), started.Run); err != nil || v.Version != "1" {
		t.Errorf("the run of version 1 is %+v: %v", v.State, err)
	}
	started, err = engine.StartRun(t.Context(), saga.StartRequest{Definition: "hello", Key: "h-2"})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := engine.Get(t.Context(), started.Run); err != nil || v.Version != "2" {
		t.Errorf("a new run is of version %s: %v", v.Version, err)
	}
}

func TestA2_39_UpkeepRemovesRunsAfterTheirRetention(t *testing.T) {
	o, c, clock := options(t, "sagas: {retention: 2h}\n"), newCallee(), testclock.Over(kv.SystemClock())
	o.Clock = clock
	d := c.definition()
	r := startSagas(t, o, d)
	c.goOn <- struct{}{}
	engine := r.app.parts.sagas.engine
	v, err := engine.Run(t.Context(), d, "order-1", order{"o-1"})
	if err != nil {
		t.Fatal(err)
	}
	clock.Add(time.Hour)
	r.app.upkeepOnce(t.Context())
	if _, err := engine.Get(t.Context(), v.Run); err != nil {
		t.Errorf("within its retention: %v", err)
	}
	clock.Add(2 * time.Hour)
	r.app.upkeepOnce(t.Context())
	if _, err := engine.Get(t.Context(), v.Run); !errors.Is(err, saga.ErrNoRun) {
		t.Errorf("after its retention: %v", err)
	}
	if got, err := engine.Run(t.Context(), d, "order-1", order{"o-1"}); err != nil || got.Run != v.Run {
		t.Errorf("the key is forgotten: %+v, %v", got, err)
	}
}

// A store that takes no more writes leaves the process up, and says so.
func TestSagasOfAStoreThatStopped(t *testing.T) {
	r := startSagas(t, options(t, ""))
	s := r.app.parts.sagas
	if why := s.reason(); why != "" {
		t.Errorf("at first: %q", why)
	}
	if err := r.app.store.Close(); err != nil {
		t.Fatal(err)
	}
	for s.reason() == "" {
		if t.Context().Err() != nil {
			t.Fatal("it says nothing")
		}
		s.timers.Wake()
		runtime.Gosched()
	}
	if why := s.reason(); !strings.Contains(why, "not woken any more") || !strings.Contains(why,
		kv.ErrClosed.Error()) {
		t.Errorf("it says %q", why)
	}
	select {
	case err := <-r.done:
		r.done <- err
		t.Errorf("it ended: %v", err)
	default:
	}
}
