package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"onced/api/metrics"
	"onced/saga"
)

// waiting are runs that wait for a person.
type waiting struct {
	held, stuck, asked int
	err                error
	denied             []time.Time
}

func (w *waiting) Contradicted(_ context.Context, after time.Time) (n int, last time.Time, err error) {
	for _, at := range w.denied {
		if at.After(after) {
			n++
		}
		if at.After(last) {
			last = at
		}
	}
	return n, last, w.err
}

// The words that deny what is known are counted from the start of the process on, each
// once, and never less: what retention takes away was there.
func TestContradictionsAreCountedFromTheStart(t *testing.T) {
	t.Parallel()
	const name = "onced_saga_contradictions_total"
	c, w := newClock(), &waiting{}
	at := func(n int) time.Time { return c.Now().Add(time.Duration(n) * time.Second) }
	w.denied = []time.Time{at(-20), at(-10)}
	m := metrics.New(metrics.Config{Clock: c})
	m.WatchSagas(w)
	w.denied = append(w.denied, at(-9)) // before anybody asks
	scrape(t, m).want(t, 1, name)
	for _, next := range []struct {
		denied []time.Time
		err    error
		want   float64
	}{
		{w.denied, nil, 1},
		{[]time.Time{at(-9), at(1), at(2)}, nil, 3},
		{[]time.Time{at(1), at(2), at(3)}, errors.New("the store is away"), 3},
		{[]time.Time{at(2), at(3)}, nil, 4},
		{nil, nil, 4},
		{[]time.Time{at(60)}, nil, 5},
	} {
		w.denied, w.err = next.denied, next.err
		c.Add(metrics.CountEvery)
		scrape(t, m).want(t, next.want, name)
	}
	// What an earlier process has counted is no news, also when it could not be asked at once.
	late := &waiting{err: errors.New("the store is away"), denied: []time.Time{at(-20)}}
	m = metrics.New(metrics.Config{Clock: c})
	m.WatchSagas(late)
	late.err = nil
	scrape(t, m).want(t, 0, name)
	late.denied = append(late.denied, at(0))
	c.Add(metrics.CountEvery)
	scrape(t, m).want(t, 1, name)
}

func (w *waiting) NeedPerson(context.Context) (held, stuck int, err error) {
	w.asked++
	return w.held, w.stuck, w.err
}

func TestRunsAndSteps(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Config{})
	m.NamedDefinitions([]string{"checkout"})
	was := ""
	for _, status := range []string{"running", "held", "running", "compensating", "stuck", "compensating",
		"compensated"} {
		m.RunChanged(saga.RunInfo{Definition: "checkout", Status: status, Was: was})
		was = status
	}
	f := scrape(t, m)
	for outcome, n := range map[string]float64{"started": 1, "held": 1, "compensating": 2, "stuck": 1,
		"compensated": 1} {
		f.want(t, n, "onced_saga_runs_total", "definition=checkout", "outcome="+outcome)
	}
	f.want(t, 6, "onced_saga_runs_total") // and nothing else
	for i := range 3 {
		m.CallEnded(saga.CallInfo{Definition: "checkout", Kind: "action", Outcome: "done",
			Took: time.Duration(i) * time.Second})
	}
	m.CallEnded(saga.CallInfo{Definition: "checkout", Kind: "undo", Outcome: "unknown"})
	f = scrape(t, m)
	f.want(t, 3, "onced_saga_steps_total", "definition=checkout", "kind=action", "outcome=done")
	f.want(t, 1, "onced_saga_steps_total", "kind=undo", "outcome=unknown")
	f.want(t, 0, "onced_saga_credentials_refused_total")
	m.CredentialsRefused()
	scrape(t, m).want(t, 1, "onced_saga_credentials_refused_total")
	f.want(t, 3, "onced_saga_step_duration_seconds", "definition=checkout", "kind=action")
}

func TestDefinitionsAreTheFirstHundred(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Config{})
	var names []string
	for i := range metrics.MaxDefinitions + 20 {
		names = append(names, fmt.Sprintf("def-%03d", i))
	}
	m.NamedDefinitions(names[:60])
	m.NamedDefinitions(names)
	for _, n := range names {
		m.RunChanged(saga.RunInfo{Definition: n, Status: "running"})
	}
	f := scrape(t, m)
	f.want(t, 1, "onced_saga_runs_total", "definition=def-099")
	f.want(t, 20, "onced_saga_runs_total", "definition=other")
	f.wantAbsent(t, "onced_saga_runs_total", "definition=def-100")
}

func TestWaitingRunsAreCountedSeldomAndKept(t *testing.T) {
	t.Parallel()
	c, w := newClock(), &waiting{held: 2, stuck: 1}
	m := metrics.New(metrics.Config{Clock: c})
	m.WatchSagas(w)
	for range 3 {
		f := scrape(t, m)
		f.want(t, 2, "onced_saga_runs_need_person", "state=held")
		f.want(t, 1, "onced_saga_runs_need_person", "state=stuck")
	}
	if w.asked != 1 {
		t.Errorf("counted %d times", w.asked)
	}
	at := float64(c.Now().Unix())
	c.Add(metrics.CountEvery)
	w.held, w.err = 9, errors.New("the store is away")
	f := scrape(t, m)
	f.want(t, 2, "onced_saga_runs_need_person", "state=held")
	f.want(t, at, "onced_saga_runs_counted_timestamp_seconds")
	w.err = nil
	c.Add(metrics.CountEvery)
	f = scrape(t, m)
	f.want(t, 9, "onced_saga_runs_need_person", "state=held")
	f.want(t, at+20, "onced_saga_runs_counted_timestamp_seconds")
}

func TestRunsThatWereNeverCountedAreNotShown(t *testing.T) {
	t.Parallel()
	m := metrics.New(metrics.Config{})
	m.WatchSagas(&waiting{err: errors.New("the store is away")})
	scrape(t, m).wantAbsent(t, "onced_saga_runs_need_person")
}
