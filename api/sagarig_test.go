package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/api/auth"
	"onced/kv/claim"
	"onced/kv/faultkv"
	"onced/kv/feed"
	"onced/kv/invariant"
	"onced/kv/memkv"
	"onced/kv/timer"
	"onced/saga"
	"onced/saga/machine"
)

// world is what sagas act on, with its own ledger.
type world struct {
	mu     sync.Mutex
	plan   map[string][]string // call → how its next ones end; see perform
	calls  []string            // "charge", "undo charge"
	stands map[string]int      // step → effects that stand
	keys   map[string]bool     // downstream keys of actions
}

// perform ends a call as planned: "" is done, "refused", "retry=1h", "dropped" has no
// effect and no reply, "hang" is over only with its context, "always" repeats what
// follows it.
func (o *world) perform(ctx context.Context, c *saga.Call) error {
	name := c.Step
	if c.Kind == machine.Undo {
		name = "undo " + name
	}
	o.mu.Lock()
	o.calls = append(o.calls, name)
	how := ""
	if p := o.plan[name]; len(p) > 0 {
		how, o.plan[name] = p[0], p[1:]
		if how == "always" {
			how, o.plan[name] = p[1], p
		}
	}
	if how == "" {
		if o.stands[c.Step]++; c.Kind == machine.Undo {
			o.stands[c.Step] -= 2
		} else {
			o.keys[c.DownstreamKey] = true
		}
	}
	o.mu.Unlock()
	switch word, arg, _ := strings.Cut(how, "="); word {
	case "":
		return nil
	case "refused":
		return saga.Refused(&saga.RefusedError{Code: "declined", Message: name + " was declined"})
	case "retry":
		d, _ := time.ParseDuration(arg)
		return saga.RetryAfter(d, errors.New("the callee is down"))
	case "hang":
		<-ctx.Done()
		return ctx.Err()
	}
	return errors.New("no reply")
}

func (o *world) act(ctx context.Context, c *saga.Call) ([]byte, error) {
	if err := o.perform(ctx, c); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"secret": "output of " + c.Step})
}

func (o *world) undo(ctx context.Context, c *saga.Call) error { return o.perform(ctx, c) }

// made lists the calls so far.
func (o *world) made() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.calls, ", ")
}

// ledger tells how many effects of each step stand.
func (o *world) ledger() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, step := range slices.Sorted(maps.Keys(o.stands)) {
		if n := o.stands[step]; n != 0 {
			out = append(out, fmt.Sprintf("%s=%d", step, n))
		}
	}
	return strings.Join(out, " ")
}

func (o *world) set(call string, how ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.plan[call] = how
}

// definitions are four steps, and a charge that is finished by a callback.
func (o *world) definitions() []*saga.Definition {
	checkout, pay := saga.New("checkout"), saga.New("pay")
	for _, step := range []string{"loyalty", "voucher", "charge", "order"} {
		checkout.Step(step, o.act, o.undo, saga.Timeout(10*time.Second), saga.Attempts(3),
			saga.UndoAttempts(3), saga.UndoWhenAbsent(), saga.SettlesAfter(time.Second))
	}
	pay.Step("charge", o.act, o.undo, saga.AwaitSignal()).Step("order", o.act, nil)
	return []*saga.Definition{checkout, pay}
}

// sagaRig serves sagas in a bubble, without a network.
type sagaRig struct {
	*rig
	*world
	engine *saga.Engine
	docs   *documents
	commit *counter
}

// counter counts what the observer of the engine is told.
type counter struct {
	mu    sync.Mutex
	calls map[string]int
	runs  map[string]int
}

func (o *counter) CallEnded(c saga.CallInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[c.Step+" "+c.Outcome]++
}

func (o *counter) RunChanged(r saga.RunInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.runs[r.Status]++
}

// inSagas runs a test in a bubble of synctest.
func inSagas(t *testing.T, test func(t *testing.T, r *sagaRig)) {
	t.Helper()
	t.Parallel()
	c := loadContract(t)
	synctest.Test(t, func(t *testing.T) { test(t, newSagaRig(t, c)) })
}

// newSagaRig may be called outside of a bubble too: then the clock is the system's.
func newSagaRig(t testing.TB, c *contract) *sagaRig {
	t.Helper()
	inner, _ := t.(*testing.T)
	w := &world{plan: map[string][]string{}, stands: map[string]int{}, keys: map[string]bool{}}
	r := &sagaRig{world: w, docs: &documents{byName: map[string][]Definition{}},
		commit: &counter{calls: map[string]int{}, runs: map[string]int{}}}
	r.rig = &rig{t: inner, disk: memkv.NewDisk(), feed: feed.New(feed.Config{}), log: &syncBuffer{},
		watch: &watcher{}, secrets: map[string]string{}, contract: c}
	r.store = faultkv.New(memkv.Open(r.disk, memkv.Options{Rerun: inner != nil}))
	timers := timer.New(r.store, timer.Config{})
	var err error
	if r.engine, err = saga.NewEngine(r.store, saga.Config{Timers: timers, Feed: r.feed,
		Observer: r.commit}); err != nil {
		t.Fatal(err)
	}
	if err := r.engine.Register(w.definitions()...); err != nil {
		t.Fatal(err)
	}
	r.docs.register = func(name string) error {
		return r.engine.Register(saga.New(name).Step("charge", w.act, w.undo, saga.AwaitSignal()))
	}
	r.serve(t)
	for _, role := range auth.Roles() {
		r.issue(t, string(role), role, "")
	}
	r.issue(t, "acme", auth.Client, "acme")
	r.issue(t, "globex", auth.Client, "globex")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- r.engine.Serve(ctx) }()
	go func() { ended <- timers.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		<-ended
		_ = r.store.Close()
		if inner != nil {
			s := memkv.Open(r.disk, memkv.Options{})
			invariant.RequireNow(inner, s, append(saga.RunRules(), feed.Rules()...)...)
			_ = s.Close()
		}
	})
	return r
}

// emptyEngine is an engine on the same store that knows no definition.
func (r *sagaRig) emptyEngine() *saga.Engine {
	r.t.Helper()
	e, err := saga.NewEngine(r.store, saga.Config{Timers: timer.New(r.store, timer.Config{}), Feed: r.feed})
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// serve makes the server, as a new process does on the same store.
func (r *sagaRig) serve(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	book, err := claim.New(ctx, r.store, claim.Config{Feed: r.feed})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.New(r.store, auth.Config{Feed: r.feed})
	if err != nil {
		t.Fatal(err)
	}
	key, err := CallbackKey(ctx, r.store, strings.NewReader(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	callbacks, err := NewCallbacks(key, "https://pay.example.org")
	if err != nil {
		t.Fatal(err)
	}
	r.deps = Deps{Book: book, Auth: tokens, Observer: r.watch,
		Sagas:  &Sagas{Engine: r.engine, Definitions: r.docs, Rules: r.docs, Callbacks: callbacks},
		Logger: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if r.server, err = New(r.deps); err != nil {
		t.Fatal(err)
	}
}

func (r *sagaRig) issue(t testing.TB, name string, role auth.Role, principal string) {
	t.Helper()
	_, secret, err := r.deps.Auth.Create(context.Background(), auth.Spec{Name: name, Role: role,
		Principal: principal, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	r.secrets[name] = secret
}

// startBody is a start; changes are pairs of member and value.
func startBody(definition, key string, changes ...any) map[string]any {
	b := map[string]any{"definition": definition, "key": key, "input": map[string]any{"secret": "input"}}
	for i := 0; i < len(changes); i += 2 {
		b[changes[i].(string)] = changes[i+1]
	}
	return b
}

// started starts a run of acme and returns its path.
func (r *sagaRig) started(definition, key string, changes ...any) string {
	r.t.Helper()
	a := r.ask("acme", "POST /v1/runs", startBody(definition, key, changes...)).want(r.t, 201, "")
	return "/v1/runs/" + a.text("id")
}

// see reads a run as an operator.
func (r *sagaRig) see(path string) answer {
	r.t.Helper()
	return r.ask("operator", "GET "+path, nil).want(r.t, 200, "")
}

// state waits until nothing moves that does not wait for time, and reads the state.
func (r *sagaRig) state(path, want string) answer {
	r.t.Helper()
	synctest.Wait()
	a := r.see(path)
	if a.text("state") != want {
		r.t.Fatalf("the run is %s (%s), want %s", a.text("state"), a.text("reason"), want)
	}
	return a
}

// operate acts as the operator on what is there.
func (r *sagaRig) operate(path, verb string, changes ...any) answer {
	r.t.Helper()
	body := map[string]any{"reason": "told so"}
	for i := 0; i < len(changes); i += 2 {
		body[changes[i].(string)] = changes[i+1]
	}
	return r.ask("operator", "POST "+path+"/"+verb, body, "If-Match", r.see(path).header.Get("ETag"))
}

// callbackOf is the path of the callback of a run's charge.
func (r *sagaRig) callbackOf(path string) string {
	url := r.deps.Sagas.Callbacks.URL(strings.TrimPrefix(path, "/v1/runs/"), "charge", 1)
	return strings.TrimPrefix(url, "https://pay.example.org")
}

func (r *sagaRig) wantLedger(want string) {
	r.t.Helper()
	if got := r.ledger(); got != want {
		r.t.Fatalf("the ledger is %q, want %q; calls: %s", got, want, r.made())
	}
}

// lists reads all pages of a list as the named token, and returns the ids.
func (r *sagaRig) lists(as, query string) (ids []string) {
	r.t.Helper()
	for next := "/v1/runs?" + query; next != ""; {
		a := r.ask(as, "GET "+next, nil).want(r.t, 200, "")
		for _, v := range a.at("runs").([]any) {
			ids = append(ids, v.(map[string]any)["id"].(string))
		}
		next = a.text("next")
	}
	return ids
}

// documents is a book of definitions whose documents are {"name": …}.
type documents struct {
	mu       sync.Mutex
	byName   map[string][]Definition // the latest first
	register func(name string) error
	wants    string // a member that inputs must have
	away     bool   // no document can be read
}

func (d *documents) Put(_ context.Context, n NewDefinition) (Definition, bool, error) {
	var doc struct{ Name, Title string }
	if err := json.Unmarshal(n.Source, &doc); err != nil || doc.Name == "" {
		return Definition{}, false, &DefinitionError{Faults: []DefinitionFault{
			{Line: 1, Column: 3, Field: "name", Message: "is missing; give one"}, {Message: "no steps"}}}
	}
	if doc.Name == "taken" {
		return Definition{}, false, fmt.Errorf("%w", ErrDefinitionTaken)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.byName[doc.Name]
	def := Definition{Name: doc.Name, Title: doc.Title, Version: fmt.Sprint(len(old) + 1), Origin: "api",
		CreatedAt: time.Now(), Source: string(n.Source), Input: map[string]string{"order": "string"},
		Latest: true, Steps: []DefinitionStep{{Name: "charge", Method: "POST",
			URL:    "https://gateway.example/c",
			Awaits: true, Undo: true}, {Name: "mail", NothingToUndo: true}}}
	if len(old) > 0 && old[0].Source == def.Source {
		return old[0], false, nil
	}
	if n.DryRun {
		def.Version, def.CreatedAt = "", time.Time{}
		return def, true, nil
	}
	for i := range old {
		old[i].Latest = false
	}
	d.byName[doc.Name] = append([]Definition{def}, old...)
	return def, true, d.register(doc.Name)
}

func (d *documents) Get(_ context.Context, name, version string) (Definition, error) {
	all, err := d.Versions(context.Background(), name)
	for _, def := range all {
		if version == "" || def.Version == version {
			return def, nil
		}
	}
	return Definition{}, errors.Join(err, ErrNoDefinition)
}

func (d *documents) List(_ context.Context, after string, limit int) (out []Definition, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(d.byName)) {
		if name > after && len(out) < limit {
			out = append(out, d.byName[name][0])
		}
	}
	return out, nil
}

func (d *documents) Versions(_ context.Context, name string) ([]Definition, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.byName[name]) == 0 {
		return nil, ErrNoDefinition
	}
	return d.byName[name], nil
}

func (d *documents) has(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.byName[name]) > 0
}

func (d *documents) Prepare(_ context.Context, req *saga.StartRequest) error {
	d.mu.Lock()
	wants := d.wants
	d.mu.Unlock()
	if wants != "" && !strings.Contains(string(req.Input), `"`+wants+`"`) {
		return &saga.InputError{Field: "input." + wants, Problem: "is missing"}
	}
	if d.has(req.Definition) {
		req.Labels = map[string]string{"by": "document"}
	}
	return nil
}

// ReadCallback reads {"status": "succeeded"} and the like.
func (d *documents) ReadCallback(
	_ context.Context, run *saga.RunView, _ string, body []byte,
) (r Reading, known bool, err error) {
	if !d.has(run.Definition) {
		return r, false, nil
	}
	d.mu.Lock()
	away := d.away
	d.mu.Unlock()
	if away {
		return r, false, fmt.Errorf("%w: version 1", ErrDefinitionAway)
	}
	var in struct{ Status, Why string }
	if json.Unmarshal(body, &in) != nil {
		return r, true, &saga.InputError{Field: "signal.body", Problem: "is no object"}
	}
	r = Reading{Outcome: map[string]string{"succeeded": "done", "failed": "refused"}[in.Status], Data: body,
		Reason: in.Why}
	return r, true, nil
}

// CheckResult wants an id of the charge of a document.
func (d *documents) CheckResult(_ context.Context, run *saga.RunView, step string, data []byte) error {
	if d.has(run.Definition) && step == "charge" && !strings.Contains(string(data), `"id"`) {
		return &saga.InputError{Field: "data.id", Problem: "is missing"}
	}
	return nil
}

// withIdleSagas sets sagas that nobody serves.
func withIdleSagas(t *testing.T) func(*Deps) {
	t.Helper()
	s := memkv.Open(memkv.NewDisk(), memkv.Options{})
	e, err := saga.NewEngine(s, saga.Config{Timers: timer.New(s, timer.Config{}),
		Feed: feed.New(feed.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	return func(d *Deps) { d.Sagas = &Sagas{Engine: e} }
}
