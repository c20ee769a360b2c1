package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"onced/api"
	"onced/api/auth"
	"onced/api/client"
	"onced/api/problem"
	"onced/kv/claim"
	"onced/kv/feed"
	"onced/kv/memkv"
	"onced/kv/timer"
	"onced/saga"
)

// newSagaClients serves a saga "pay" whose charge is refused for "poor" inputs, and
// which then waits for its delivery.
func newSagaClients(t *testing.T) (operator, shop *client.Client) {
	t.Helper()
	store, events := memkv.New(memkv.Options{}), feed.New(feed.Config{})
	timers := timer.New(store, timer.Config{})
	engine, err := saga.NewEngine(store, saga.Config{Timers: timers, Feed: events})
	if err != nil {
		t.Fatal(err)
	}
	charge := func(_ context.Context, c *saga.Call) ([]byte, error) {
		if strings.Contains(string(c.Input), "poor") {
			return nil, saga.Refused(&saga.RefusedError{Code: "declined", Message: "no funds"})
		}
		return []byte(`{"id":"ch_1"}`), nil
	}
	undo := func(context.Context, *saga.Call) error { return nil }
	err = engine.Register(saga.New("pay").Step("charge", charge, undo).Await("delivery"))
	if err != nil {
		t.Fatal(err)
	}
	book, err := claim.New(t.Context(), store, claim.Config{Feed: events})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.New(store, auth.Config{Feed: events})
	if err != nil {
		t.Fatal(err)
	}
	h, err := api.New(api.Deps{Book: book, Auth: tokens, Sagas: &api.Sagas{Engine: engine,
		Definitions: &oneDefinition{}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- engine.Serve(ctx) }()
	go func() { ended <- timers.Run(ctx) }()
	ts := httptest.NewServer(h)
	t.Cleanup(func() { ts.Close(); cancel(); <-ended; <-ended })
	secret := func(name string, role auth.Role) string {
		_, s, err := tokens.Create(t.Context(), auth.Spec{Name: name, Role: role, Actor: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return mustClient(t, ts.URL, secret("admin", auth.Admin)),
		mustClient(t, ts.URL, secret("shop", auth.Client))
}

// oneDefinition keeps one document.
type oneDefinition struct{ kept *api.Definition }

func (d *oneDefinition) Put(_ context.Context, n api.NewDefinition) (api.Definition, bool, error) {
	if !strings.HasPrefix(string(n.Source), "name: doc") {
		return api.Definition{}, false, &api.DefinitionError{Faults: []api.DefinitionFault{
			{Line: 3, Column: 5, Field: "steps[0].ur", Message: "is not known; did you mean url?"}}}
	}
	out := api.Definition{Name: "doc", Version: "1", Origin: "api", Source: string(n.Source),
		CreatedAt: time.Unix(1, 0), Steps: []api.DefinitionStep{{Name: "charge", Undo: true}}}
	isNew := d.kept == nil
	if n.DryRun {
		out.Version = ""
	} else {
		d.kept = &out
	}
	return out, isNew, nil
}

func (d *oneDefinition) Get(context.Context, string, string) (api.Definition, error) {
	return *d.kept, nil
}

func (d *oneDefinition) List(context.Context, string, int) ([]api.Definition, error) {
	return []api.Definition{*d.kept}, nil
}

func (d *oneDefinition) Versions(context.Context, string) ([]api.Definition, error) {
	return []api.Definition{*d.kept, *d.kept}, nil
}

func start(key, input string, wait time.Duration) client.StartRun {
	return client.StartRun{Definition: "pay", Key: key, Input: json.RawMessage(input), Wait: wait,
		Labels: map[string]string{"shop": "berlin"}}
}

func TestRunsOverTheClient(t *testing.T) {
	op, shop := newSagaClients(t)
	ctx := t.Context()
	failed, err := shop.StartRun(ctx, start("1", `{"who":"poor"}`, 30*time.Second))
	if err != nil || failed.State != "compensated" || failed.Joined || !failed.Ended() ||
		failed.Steps[0].Code != "declined" || len(failed.History) == 0 || failed.Cause != "refused" {
		t.Fatalf("%+v, %v", failed, err)
	}
	run, err := shop.StartRun(ctx, start("2", `1.50`, 0))
	if err != nil || string(run.Input) != "1.50" || run.Labels["shop"] != "berlin" {
		t.Fatalf("%+v, %v", run, err)
	}
	again, err := shop.StartRun(ctx, start("2", `1.50`, 0))
	if err != nil || again.ID != run.ID || !again.Joined {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := shop.StartRun(ctx, start("2", `1.5`, 0)); client.Code(err) != problem.Mismatch {
		t.Errorf("another input: %v", err)
	}
	for i, want := range []string{client.SignalAccepted, client.SignalRepeated} {
		outcome, err := shop.SignalRun(ctx, run.ID, "delivery", client.Signal{Outcome: "done",
			Data: json.RawMessage(`{"at":"door"}`), At: time.Now()})
		if err != nil || outcome != want {
			t.Errorf("signal %d: %v, %v", i, outcome, err)
		}
	}
	run, err = shop.GetRun(ctx, run.ID, 30*time.Second)
	if err != nil || run.State != "completed" || string(run.Steps[1].Signal.Data) != `{"at":"door"}` ||
		string(run.Steps[0].Output) != `{"id":"ch_1"}` || run.ETag == "" {
		t.Fatalf("%+v, %v", run, err)
	}
	page, err := op.ListRuns(ctx, client.RunFilter{State: "completed,compensated", Label: "shop:berlin",
		Definition: "pay", Principal: "shop", Since: run.CreatedAt.Add(-time.Hour),
		Until: run.CreatedAt.Add(time.Hour), Limit: 1})
	if err != nil || len(page.Runs) != 1 || page.NextCursor == "" || page.Runs[0].Input != nil {
		t.Fatalf("%+v, %v", page, err)
	}
	next, err := op.ListRuns(ctx, client.RunFilter{State: "completed,compensated", Label: "shop:berlin",
		Definition: "pay", Principal: "shop", Since: run.CreatedAt.Add(-time.Hour),
		Until: run.CreatedAt.Add(time.Hour), Limit: 1, Cursor: page.NextCursor})
	if err != nil || len(next.Runs) != 1 || next.Runs[0].ID == page.Runs[0].ID {
		t.Errorf("%+v, %v", next, err)
	}
}

func TestActsOverTheClient(t *testing.T) {
	op, shop := newSagaClients(t)
	ctx := t.Context()
	run, err := shop.StartRun(ctx, start("1", `{}`, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if run, err = op.GetRun(ctx, run.ID, 0); err != nil {
		t.Fatal(err)
	}
	act := client.Act{ETag: `"1"`, Reason: "it has come", Step: "delivery", Output: json.RawMessage(`"door"`)}
	if _, err := op.ActOnRun(ctx, run.ID, "mark_done", act); client.Code(err) != problem.Stale {
		t.Errorf("an old ETag: %v", err)
	}
	act.ETag = run.ETag
	if _, err := shop.ActOnRun(ctx, run.ID, "mark_done", act); client.Code(err) != problem.Forbidden {
		t.Errorf("the shop: %v", err)
	}
	done, err := op.ActOnRun(ctx, run.ID, "mark_done", act)
	if err != nil || done.State != "completed" || string(done.Steps[1].Output) != `"door"` {
		t.Fatalf("%+v, %v", done, err)
	}
	rerun, err := op.ActOnRun(ctx, run.ID, "rerun", client.Act{ETag: done.ETag, Reason: "again",
		Wait: time.Second})
	if err != nil || rerun.Parent != run.ID || rerun.Round != 2 || rerun.ID == run.ID {
		t.Fatalf("%+v, %v", rerun, err)
	}
	for _, dry := range []bool{true, false} {
		got, err := op.ActOnRuns(ctx, client.BulkAct{Verb: "close", Reason: "x", DryRun: dry, Limit: 5,
			Filter: client.RunFilter{State: "open", Key: "1"}})
		if err != nil || len(got.Acted) != 1 || got.Acted[0] != rerun.ID || got.DryRun != dry || got.More {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := op.ActOnRuns(ctx, client.BulkAct{Verb: "close", Reason: "x"}); client.Code(err) !=
		problem.InvalidField {
		t.Errorf("no filter: %v", err)
	}
	closed, err := op.GetRun(ctx, rerun.ID, time.Second)
	if err != nil || closed.State != "closed" || closed.NeedsPerson() {
		t.Errorf("%+v, %v", closed, err)
	}
}

func TestDefinitionsOverTheClient(t *testing.T) {
	op, _ := newSagaClients(t)
	ctx := t.Context()
	_, err := op.PutDefinition(ctx, []byte("nam: doc"), false)
	var p *problem.Problem
	if !errors.As(err, &p) || p.Code != problem.InvalidDefinition || len(p.Problems) != 1 ||
		p.Problems[0].Line != 3 || p.Problems[0].Field != "steps[0].ur" {
		t.Fatalf("%+v, %v", p, err)
	}
	for i, want := range []client.Definition{{DryRun: true, New: true}, {Version: "1", New: true},
		{Version: "1"}} {
		d, err := op.PutDefinition(ctx, []byte("name: doc"), want.DryRun)
		if err != nil || d.New != want.New || d.DryRun != want.DryRun || d.Version != want.Version ||
			d.Source != "name: doc" {
			t.Errorf("%d: %+v, %v", i, d, err)
		}
	}
	d, err := op.GetDefinition(ctx, "doc", "1")
	if err != nil || d.Name != "doc" || !d.Steps[0].Undo {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err = op.GetDefinition(ctx, "doc", ""); err != nil || d.Version != "1" {
		t.Errorf("%+v, %v", d, err)
	}
	page, err := op.ListDefinitions(ctx, "", 5)
	if err != nil || len(page.Definitions) != 1 || page.NextCursor != "" {
		t.Errorf("%+v, %v", page, err)
	}
	if all, err := op.ListVersions(ctx, "doc"); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

// What a run asks to wait is asked for in whole seconds, and adds to the time-out.
func TestWaitIsAskedFor(t *testing.T) {
	var seen []string
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Prefer"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	}))
	defer ts.Close()
	c := mustClient(t, ts.URL, "")
	for _, wait := range []time.Duration{0, 999 * time.Millisecond, 2500 * time.Millisecond} {
		if _, err := c.GetRun(t.Context(), "run_1", wait); err != nil {
			t.Fatal(err)
		}
	}
	want := "[GET /v1/runs/run_1  GET /v1/runs/run_1  GET /v1/runs/run_1 wait=2]"
	if fmt.Sprint(seen) != want {
		t.Errorf("%v", seen)
	}
}
