package definition

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/feed"
	"onced/kv/invariant"
	"onced/kv/memkv"
	"onced/kv/timer"
	"onced/saga"
	"onced/saga/egress"
	"onced/saga/httpstep"
	"onced/saga/machine"
)

// answer is what a service says to one call. lost has the effect and gives no reply.
type answer struct {
	status int
	body   string
	header map[string]string
	lost   bool
	before func() // is called before the reply leaves
}

// services are the callees of a test, on one loopback server.
type services struct {
	*httptest.Server
	mu       sync.Mutex
	plan     map[string][]answer // "POST /charges" → its next answers; the last one stays
	calls    []string
	requests map[string][]string // call → header of interest and body of each
}

func newServices(t *testing.T) *services {
	s := &services{plan: map[string][]answer{}, requests: map[string][]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *services) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	call := r.Method + " " + r.URL.RequestURI()
	a := s.next(call, r, string(body))
	if a.before != nil {
		a.before()
	}
	if a.lost {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.Close()
		}
		return
	}
	for k, v := range a.header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

func (s *services) next(call string, r *http.Request, body string) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	s.requests[call] = append(s.requests[call], fmt.Sprintf("key=%s auth=%s type=%s x=%s\n%s",
		r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization"), r.Header.Get("Content-Type"),
		r.Header.Get("X-Note"), body))
	a := answer{status: 200, body: "{}"}
	if p := s.plan[call]; len(p) > 0 {
		if a = p[0]; len(p) > 1 {
			s.plan[call] = p[1:]
		}
	}
	if a.status == 0 {
		a.status = 200
	}
	return a
}

// answers says what a call gets from now on.
func (s *services) answers(call string, answers ...answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan[call] = answers
}

// made is what was called, in order, without the query.
func (s *services) made() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, len(s.calls))
	for i, c := range s.calls {
		out[i], _, _ = strings.Cut(c, "?")
	}
	return strings.Join(out, ", ")
}

func (s *services) sent(call string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests[call])
}

// rig is a program with a book and an engine.
type rig struct {
	*testing.T
	*services
	disk    *memkv.Disk
	store   kv.Store
	engine  *saga.Engine
	book    *Book
	secrets map[string]string
	known   func() []string
	alarms  chan httpstep.Alarm
	load    LoadReport
	down    func()
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, services: newServices(t), disk: memkv.NewDisk(), alarms: make(chan httpstep.Alarm, 100),
		secrets: map[string]string{"gateway": "s3cr3t-\"quoted\"", "loyalty": "loyal-token"}}
	r.boot()
	t.Cleanup(func() {
		r.down()
		last := memkv.Open(r.disk, memkv.Options{})
		defer last.Close()
		invariant.RequireNow(t, last, slices.Concat(saga.RunRules(), Rules(), timer.Rules(time.Hour),
			feed.Rules())...)
	})
	return r
}

// boot starts a process on what the one before has left.
func (r *rig) boot() {
	r.Helper()
	r.store = memkv.Open(r.disk, memkv.Options{Rerun: true})
	timers := timer.New(r.store, timer.Config{})
	client, err := egress.New(egress.Config{})
	if err != nil {
		r.Fatal(err)
	}
	caller, err := httpstep.New(httpstep.Config{Client: client,
		Alarm: func(_ context.Context, a httpstep.Alarm) { r.alarms <- a }})
	if err != nil {
		r.Fatal(err)
	}
	if r.engine, err = saga.NewEngine(r.store, saga.Config{Timers: timers,
		Feed: feed.New(feed.Config{})}); err != nil {
		r.Fatal(err)
	}
	deps := Deps{Caller: caller, Secret: r.secret, CallbackURL: func(u CallbackUse) (string, error) {
		return fmt.Sprintf("https://onced.test/v1/callbacks/%s-%s-%d", u.Run, u.Step, u.Round), nil
	}}
	r.book, err = NewBook(r.store, BookConfig{Engine: r.engine, Deps: deps, Secrets: r.known,
		CheckURL: client.Check})
	if err == nil {
		r.load, err = r.book.Load(r.Context())
	}
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- r.engine.Serve(ctx) }()
	go func() { ended <- timers.Run(ctx) }()
	r.down = func() {
		cancel()
		<-ended
		<-ended
		client.Close()
		_ = r.store.Close()
	}
}

func (r *rig) reboot() {
	r.Helper()
	r.down()
	r.boot()
}

func (r *rig) secret(_ context.Context, use SecretUse) (string, error) {
	r.services.mu.Lock()
	defer r.services.mu.Unlock()
	v, ok := r.secrets[use.Name]
	if !ok {
		return "", errors.New("it is not in the configuration")
	}
	return v, nil
}

func (r *rig) setSecret(name, value string) {
	r.services.mu.Lock()
	defer r.services.mu.Unlock()
	r.secrets[name] = value
}

// put stores a document from a file; HOST in it is the address of the services.
func (r *rig) put(src string) Stored {
	r.Helper()
	s, _, err := r.book.Put(r.Context(), []byte(r.text(src)), FromFile)
	if err != nil {
		r.Fatal(err)
	}
	return s
}

func (r *rig) text(src string) string {
	return strings.ReplaceAll(src, "HOST", strings.TrimPrefix(r.URL, "http://"))
}

// start begins a run.
func (r *rig) start(name, key, input string) saga.Started {
	r.Helper()
	req := saga.StartRequest{Definition: name, Key: key, Input: []byte(input)}
	if err := r.book.Prepare(&req); err != nil {
		r.Fatal(err)
	}
	s, err := r.engine.StartRun(r.Context(), req)
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// end waits for the end of a run, or until it needs a person.
func (r *rig) end(run string) *saga.RunView {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Minute)
	defer cancel()
	_, err := r.engine.Wait(ctx, run)
	if ctx.Err() != nil {
		v, _ := r.engine.Get(r.Context(), run)
		r.Fatalf("the run does not end: %+v; calls: %s; %v", v, r.made(), err)
	}
	v, err := r.engine.Get(r.Context(), run)
	if err != nil {
		r.Fatal(err)
	}
	return v
}

// runs puts a document, starts a run of it and waits for its end.
func (r *rig) runs(src, input string) *saga.RunView {
	r.Helper()
	s := r.put(src)
	return r.end(r.start(s.Name, "o-1", input).Run)
}

func (r *rig) want(v *saga.RunView, status machine.Status, calls string) {
	r.Helper()
	if v.State.Status != status {
		r.Errorf("the run is %s (%s), want %s\n%s", v.State.Status, v.State.Reason, status, history(v))
	}
	if got := r.made(); got != calls {
		r.Errorf("the calls are\n %s, want\n %s\n%s", got, calls, history(v))
	}
}

// operate is the act of a person.
func (r *rig) operate(v *saga.RunView, verb machine.Verb) {
	r.Helper()
	a := saga.Act{Verb: verb, Actor: "ann", Reason: "looked at it"}
	if _, err := r.engine.Operate(r.Context(), v.Run, a); err != nil {
		r.Fatal(err)
	}
}

// history is what happened, in lines.
func history(v *saga.RunView) string {
	var b strings.Builder
	for _, h := range v.History {
		fmt.Fprintf(&b, "%s %s: %s\n", h.Step, h.Note, h.Text)
	}
	return b.String()
}

func (r *rig) wantHistory(v *saga.RunView, has string) {
	r.Helper()
	if h := history(v); !strings.Contains(h, has) {
		r.Errorf("there is no %q in the history\n%s", has, h)
	}
}

func (r *rig) wantOutput(v *saga.RunView, step, want string) {
	r.Helper()
	if got := string(v.State.Steps[v.State.Find(step)].Output); got != want {
		r.Errorf("the output of %s is %s, want %s", step, got, want)
	}
}

// reach waits until a run is in a state, told by every change.
func (r *rig) reach(run string, is func(*saga.RunView) bool) *saga.RunView {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Minute)
	defer cancel()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		v, err := r.engine.Get(r.Context(), run)
		if err != nil {
			r.Fatal(err)
		}
		if is(v) {
			return v
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			r.Fatalf("the run does not get there; calls: %s\n%s", r.made(), history(v))
		}
	}
}

func waiting(step string) func(*saga.RunView) bool {
	return func(v *saga.RunView) bool { return v.State.Steps[v.State.Find(step)].Status == machine.Waiting }
}
