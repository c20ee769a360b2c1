package trace_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"onced/api"
	"onced/kv/feed"
	"onced/kv/memkv"
	"onced/kv/timer"
	"onced/saga"
)

// undoneRun runs a saga whose first step needs a look-up and a second try, and whose
// second is refused, started by a request. It returns what each call passed on.
func undoneRun(t *testing.T, tr *collected) (passed []string) {
	store := memkv.New(memkv.Options{})
	timers := timer.New(store, timer.Config{})
	engine, err := saga.NewEngine(store, saga.Config{Timers: timers, Feed: feed.New(feed.Config{}),
		Tracer: tr.Tracer})
	if err != nil {
		t.Fatal(err)
	}
	type order struct {
		Card string `json:"card"`
	}
	tries := 0
	pass := func(ctx context.Context) { passed = append(passed, tr.Traceparent(ctx)) }
	d := saga.New("checkout").
		Step("charge", func(ctx context.Context, o order) (order, error) {
			pass(ctx)
			if tries++; tries == 1 {
				return o, errors.New("card 4242: no reply")
			}
			return o, nil
		}, func(ctx context.Context, _, _ order) error {
			pass(ctx)
			return nil
		}, saga.Check(func(ctx context.Context, o order, _ saga.Doubt) (order, bool, error) {
			pass(ctx)
			return o, false, nil
		}), saga.SettlesAfter(time.Millisecond), saga.Backoff(time.Millisecond, time.Millisecond)).
		Step("order", func(ctx context.Context, _ order) (order, error) {
			pass(ctx)
			return order{}, saga.Refused(errors.New("4242 is sold out"))
		}, nil)
	if err := engine.Register(d); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- engine.Serve(ctx) }()
	go func() { ended <- timers.Run(ctx) }()

	in, end := tr.Request(request(http.MethodPost, "/v1/runs", incoming))
	started, err := engine.Start(in, d, "order-4242", order{Card: "4242"})
	end(api.Done{Method: http.MethodPost, Route: "/v1/runs", Status: http.StatusCreated})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Wait(t.Context(), started.Run); !errors.Is(err, saga.ErrUndone) {
		t.Fatalf("the run ended with %v", err)
	}
	stop()
	<-ended
	<-ended
	_ = store.Close()
	return passed
}

// Every try of a step, an undo or a look-up is a trace of its own, linked to the
// request that started the run, and passes itself on.
func TestSpansOfASaga(t *testing.T) {
	t.Parallel()
	tr := newCollected(t)
	passed := undoneRun(t, tr)
	spans := tr.spans(t)
	noSecrets(t, spans)
	counts, traces, own := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, s := range spans {
		id := s.SpanContext.TraceID().String()
		if s.Name == "POST /v1/runs" {
			if id != traceID {
				t.Errorf("the request is in the trace %s", id)
			}
			continue
		}
		a := attrs(s)
		counts[s.Name+" "+a["onced.step"]+" "+a["onced.outcome"]]++
		if a["onced.definition"] != "checkout" || s.Parent.IsValid() || traces[id] || id == traceID {
			t.Errorf("%s is no trace of its own: %v, parent %v", s.Name, a, s.Parent)
		}
		traces[id] = true
		own["00-"+id+"-"+s.SpanContext.SpanID().String()+"-01"] = true
		if len(s.Links) != 1 || s.Links[0].SpanContext.TraceID().String() != traceID {
			t.Errorf("%s is linked to %v", s.Name, s.Links)
		}
	}
	for name, n := range map[string]int{"saga action charge unknown": 1, "saga check charge absent": 1,
		"saga action charge done": 1, "saga action order refused": 1, "saga undo charge done": 1} {
		if counts[name] != n {
			t.Errorf("%d spans of %q, want %d; there are %v", counts[name], name, n, counts)
		}
	}
	for _, p := range passed {
		if !own[p] {
			t.Errorf("a call passed on %q, which is no span of a call", p)
		}
	}
	if len(passed) != 5 {
		t.Errorf("%d calls passed something on", len(passed))
	}
}
