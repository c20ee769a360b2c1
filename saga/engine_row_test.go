package saga

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/feed"
	"onced/kv/invariant"
	"onced/kv/memkv"
	"onced/kv/timer"
	"onced/saga/machine"
)

// randomRun is a run with all that a row can hold.
func randomRun(r *rand.Rand) *run {
	at := func() time.Time {
		if r.IntN(3) == 0 {
			return time.Time{}
		}
		return start.Add(time.Duration(r.Int64N(1e18) - 5e17))
	}
	raw := func() []byte {
		return [][]byte{nil, {}, []byte("{}"), bytes.Repeat([]byte("x"), 300)}[r.IntN(4)]
	}
	text := func() string { return []string{"", "a", "é\x00", strings.Repeat("long ", 50)}[r.IntN(4)] }
	yes := func() bool { return r.IntN(2) == 0 }
	x := &run{id: "run_1", def: text(), version: text(), principal: text(), key: text(),
		round: r.Uint64(), rev: r.Uint64(), created: start, updated: at(), ended: at(),
		epoch: r.Uint64(), wake: at(), parent: text(),
		link: link(r.IntN(3)), class: class(r.IntN(5)), trace: text(), input: raw(), history: []entry{},
		dropped: r.IntN(9)}
	for range r.IntN(3) {
		x.labels = append(x.labels, label{text(), text()})
		x.history = append(x.history, entry{start.Add(time.Duration(r.Int64N(1e15))),
			machine.Note(r.IntN(20)),
			r.IntN(5), text()})
	}
	s := &x.state
	*s = machine.State{Status: machine.Status(r.IntN(8)), Back: yes(), Cause: machine.Cause(r.IntN(7)),
		Hold: machine.Hold(r.IntN(8)), Reason: text(), Deadline: at(), Steps: []machine.StepState{}}
	for range r.IntN(4) {
		st := machine.StepState{Name: text(), Status: machine.StepStatus(r.IntN(8)), Doubt: yes(),
			Resend:   yes(),
			TimedOut: yes(), Blind: yes(), Sends: r.IntN(3), FirstSend: at(), Output: raw()}
		st.Tries, st.LastSend = st.Sends, st.FirstSend
		if yes() {
			st.Undo, st.UndoNo, st.UndoSends = machine.UndoStatus(1+r.IntN(5)), r.IntN(3), r.IntN(3)
			st.UndoTries, st.UndoDoubt, st.UndoFirst, st.UndoneAt = r.IntN(3), yes(), at(), at()
		}
		if yes() {
			st.Tries, st.Looks, st.LastSend, st.NextAt, st.Error, st.Code = 7, r.IntN(3), at(), at(),
				text(), text()
		}
		if yes() {
			st.Signal, st.SignalData = machine.Outcome(1+r.IntN(2)), raw()
			if r.IntN(2) == 0 {
				st.SignalAt = at()
			}
		}
		s.Steps = append(s.Steps, st)
	}
	s.Failed, s.HoldStep = r.IntN(len(s.Steps)+1), r.IntN(len(s.Steps)+1)
	return x
}

func TestRowsComeBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5000) {
		x := randomRun(rand.New(rand.NewPCG(seed, 1)))
		b := x.encode(nil)
		got, err := decodeRun(x.id, b)
		if err != nil || !reflect.DeepEqual(got, x) {
			t.Fatalf("seed %d: %v\n%+v\n came back as\n%+v", seed, err, x, got)
		}
		for _, cut := range []int{0, 1, len(b) / 2, len(b) - 1} {
			if _, err := decodeRun(x.id, b[:cut]); !errors.Is(err, kv.ErrCorrupt) {
				t.Fatalf("seed %d: %d of %d bytes: %v", seed, cut, len(b), err)
			}
		}
		if _, err := decodeRun(x.id, append(b, 0)); !errors.Is(err, kv.ErrCorrupt) {
			t.Fatalf("seed %d: a byte too much: %v", seed, err)
		}
	}
}

func FuzzDecodeRun(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(randomRun(rand.New(rand.NewPCG(seed, 1))).encode(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := decodeRun("run_1", b)
		if err != nil {
			return
		}
		again, err := decodeRun("run_1", x.encode(nil))
		if err != nil || !reflect.DeepEqual(again, x) {
			t.Fatalf("%+v came back as %+v, %v", x, again, err)
		}
		x.faults() // must bear anything that can be decoded
		_ = x.failure()
	})
}

func putRun(w kv.Writer, r *run) error {
	return runTable.Put(w, runKey(r.id), runRow{Body: r.encode(nil)})
}

var damages = map[string]struct {
	rule string
	harm func(w kv.Writer, r *run) error
}{
	"index lost": {"saga.run", func(w kv.Writer, r *run) error {
		return w.Delete(expiryTable,
			expiryKey(r.ended, r.id))
	}},
	"completed early": {"saga.run", func(w kv.Writer,
		r *run) error {
		r.state.Steps[0].Status = machine.Ready
		return putRun(w, r)
	}},
	"undone in part": {"saga.run", func(w kv.Writer, r *run) error {
		r.state.Status, r.state.Steps[0].Undo = machine.Compensated, machine.UndoDue
		return putRun(w, r)
	}},
	"held for nothing": {"saga.run", func(w kv.Writer, r *run) error {
		r.state.Status = machine.Held
		return putRun(w, r)
	}},
	"two calls": {"saga.run", func(w kv.Writer, r *run) error {
		r.state.Steps[0].Status, r.state.Steps[1].Status = machine.Started, machine.Started
		return putRun(w, r)
	}},
	"a timer after the end": {"saga.run", func(w kv.Writer,
		r *run) error {
		r.wake = start
		return putRun(w, r)
	}},
	"not a row": {"saga.run", func(w kv.Writer, r *run) error {
		return runTable.Put(w, runKey(r.id), runRow{Body: []byte("?")})
	}},
	"ended and going on": {"saga.live", func(w kv.Writer, r *run) error {
		body := runRow{Body: r.encode(nil)}
		return errors.Join(runTable.Delete(w, runKey(r.id)), liveTable.Put(w, runKey(r.id), body))
	}},
	"two rows": {"saga.live", func(w kv.Writer, r *run) error {
		r.class, r.state.Status = classDue, machine.Running
		return liveTable.Put(w, runKey(r.id), runRow{Body: r.encode(nil)})
	}},
	"going on and not a row": {"saga.live", func(w kv.Writer, _ *run) error {
		return liveTable.Put(w, runKey("run_x"), runRow{Body: []byte("?")})
	}},
	"open twice": {"saga.open", func(w kv.Writer, r *run) error {
		return w.Put(openTable, openKey(classDue, r.id), []byte{})
	}},
	"open and nothing": {"saga.open", func(w kv.Writer, _ *run) error {
		return w.Put(openTable, openKey(classDue, "run_x"), []byte{})
	}},
	"a bad key": {"saga.open", func(w kv.Writer, _ *run) error {
		return w.Put(openTable, []byte("?"),
			[]byte{})
	}},
	"in no list": {"saga.run", func(w kv.Writer, r *run) error {
		return w.Delete(listTable, byDefinition.of(r.def, r.id))
	}},
	"in a list of others": {"saga.list", func(w kv.Writer, r *run) error {
		return w.Put(listTable, byLabel.of("a", "b", r.id), []byte{})
	}},
	"in a list of an end that was not": {"saga.list", func(w kv.Writer, r *run) error {
		return w.Put(listTable, byEnd.of("closed", r.id), []byte{})
	}},
	"in a list of nothing": {"saga.list", func(w kv.Writer, r *run) error {
		return w.Put(listTable, kv.Key{}.Uint(99).String(r.id), []byte{})
	}},
	"another end": {"saga.expiry", func(w kv.Writer, r *run) error {
		return w.Put(expiryTable, expiryKey(start, r.id), []byte{})
	}},
	"a key that says otherwise": {"saga.key", func(w kv.Writer, r *run) error {
		return keyTable.Put(w, r.of().row(), keyRow{Run: r.id, Round: 1,
			Status: machine.Closed})
	}},
	"a key of another run": {"saga.key", func(w kv.Writer, r *run) error {
		return keyTable.Put(w, RunKey{Definition: r.def, Key: "x"}.row(), keyRow{Run: r.id, Round: 1,
			Status: machine.Completed})
	}},
	"a key without its run": {"saga.key", func(w kv.Writer, r *run) error {
		return keyTable.Put(w, RunKey{Definition: r.def, Key: "x"}.row(), keyRow{Run: "run_x", Round: 1,
			Status: machine.Running})
	}},
}

func TestRunRulesSeeDamage(t *testing.T) {
	for name, c := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, e := engineOn(t, quickSteps("quick", nil))
			v, err := e.Run(t.Context(), e.Definitions()[0], "k", theOrder)
			if err != nil {
				t.Fatal(err)
			}
			invariant.RequireNow(t, s, RunRules()...)
			err = s.Update(t.Context(), func(w kv.Writer) error {
				r, err := loadRun(w, v.Run)
				if err != nil {
					return err
				}
				return c.harm(w, r)
			})
			if err != nil {
				t.Fatal(err)
			}
			rep, err := invariant.Check(t.Context(), s, RunRules()...)
			if err != nil || !strings.Contains(rep.String(), c.rule+": ") {
				t.Errorf("%v, %v", rep, err)
			}
		})
	}
}

// engineOn serves definitions on a store in memory, by the real clock.
func engineOn(t *testing.T, defs ...*Definition) (kv.Store, *Engine) {
	t.Helper()
	s := memkv.New(memkv.Options{})
	timers := timer.New(s, timer.Config{})
	e, err := NewEngine(s, Config{Timers: timers, Feed: feed.New(feed.Config{})})
	if err == nil {
		err = e.Register(defs...)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ctx) }()
	for !e.serving.Load() { // a test may call Serve, too
		runtime.Gosched()
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = s.Close()
	})
	return s, e
}

func TestDamagedRunsStopNothing(t *testing.T) {
	t.Parallel()
	s, e := engineOn(t, quickSteps("quick", nil))
	e.cfg.Retention = time.Nanosecond
	d := e.Definitions()[0]
	var first *RunView
	for _, key := range []string{"a", "b", "c"} {
		v, err := e.Run(t.Context(), d, key, theOrder)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = v
		}
	}
	err := s.Update(t.Context(), func(w kv.Writer) error {
		err := w.Put(openTable, openKey(classDue, first.Run), []byte{})
		return errors.Join(err, runTable.Put(w, runKey(first.Run), runRow{Body: []byte("?")}))
	})
	if err != nil {
		t.Fatal(err)
	}
	if page, _, err := e.List(t.Context(), Query{}); err != nil || len(page) != 2 {
		t.Errorf("%d runs are listed, %v", len(page), err)
	}
	if err := e.resumeClass(t.Context(), classDue); err != nil {
		t.Error(err)
	}
	if _, err := e.OperateAll(t.Context(), Bulk{}, Act{Verb: machine.Retry, Actor: "a",
		Reason: "r"}); err != nil {
		t.Error(err)
	}
	if n, err := e.SweepRuns(t.Context(), 0); err != nil || n != 2 {
		t.Errorf("%d were swept, %v", n, err)
	}
	if v, err := e.Run(t.Context(), d, "b", theOrder); err != nil || v.State.Status != machine.Completed {
		t.Errorf("a key whose run was swept: %+v, %v", v, err)
	}
}

func TestMistakesInDefinitionsAreNamed(t *testing.T) {
	t.Parallel()
	act := func(context.Context, order) (receipt, error) { return receipt{}, nil }
	undo := func(context.Context, order, receipt) error { return nil }
	for want, d := range map[string]*Definition{
		"must be 1 to":          New("x"),
		"a name has":            New("").Step("a", act, undo),
		"version is":            New("x").Version("a b").Step("a", act, undo),
		"Deadline must":         New("x").Deadline(0).Step("a", act, undo),
		"is there twice":        New("x").Step("a", act, undo).Step("a", act, undo),
		"has no undo":           New("x").Step("a", act, nil).Step("b", act, undo),
		"leave one of them out": New("x").Step("a", act, undo, Pivot()),
		"a second pivot":        New("x").Step("a", act, nil, Pivot()).Step("b", act, nil, Pivot()),
		"and no undo":           New("x").Step("a", act, nil, UndoWhenAbsent()),
		"has the action":        New("x").Step("a", func() {}, undo),
		"has the undo": New("x").Step("a", act, func(context.Context, order,
			order) error {
			return nil
		}),
		"has the Check": New("x").Step("a", act, undo, Check(func(context.Context, int,
			Doubt) (int, bool, error) {
			return 0, false, nil
		})),
		"that is not for steps": New("x").Step("a", act, undo, Wait(time.Hour)),
		"Timeout must":          New("x").Step("a", act, undo, Timeout(0)),
		"SettlesAfter must":     New("x").Step("a", act, undo, SettlesAfter(0)),
		"Repeatable must":       New("x").Step("a", act, undo, Repeatable(0)),
		"at least 1":            New("x").Step("a", act, undo, Attempts(0)),
		"Backoff must":          New("x").Step("a", act, undo, Backoff(time.Hour, time.Second)),
		"UndoKeyValidFor must":  New("x").Step("a", act, undo, UndoKeyValidFor(-1)),
		"AwaitFor must":         New("x").Step("a", act, undo, AwaitFor(0)),
		"text without spaces":   New("x").Step("a b", act, undo),
	} {
		var e *ConfigError
		if err := d.Err(); !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	good := New("x").Step("a", act, undo, Host("h"), UndoAttempts(2)).Await("b").
		Step("c", act, nil, NothingToUndo()).Step("d", act, nil)
	if err := good.Err(); err != nil {
		t.Error(err)
	}
	if m := good.machineDef(); !m.Steps[3].Pivot || m.Steps[2].Pivot || !m.Steps[1].NoAction {
		t.Errorf("the machine gets %+v", m)
	}
	_, err := NewOperation(nil, "x", act, Key(orderID), Pivot())
	if !errors.Is(err, ErrConfig) {
		t.Errorf("an operation with an option of steps: %v", err)
	}
}

func TestMistakesOfCallersAreNamed(t *testing.T) {
	t.Parallel()
	_, e := engineOn(t, quickSteps("quick", nil))
	good := StartRequest{Definition: "quick", Key: "k", Input: []byte(`{}`)}
	for name, c := range map[string]struct {
		change func(*StartRequest)
		want   error
	}{
		"definition": {func(r *StartRequest) { r.Definition = "x" }, ErrConfig},
		"version":    {func(r *StartRequest) { r.Version = "7" }, ErrConfig},
		"no key":     {func(r *StartRequest) { r.Key = "" }, ErrInput},
		"blank key":  {func(r *StartRequest) { r.Key = "  " }, ErrInput},
		"long key":   {func(r *StartRequest) { r.Key = strings.Repeat("k", 256) }, ErrInput},
		"no JSON":    {func(r *StartRequest) { r.Input = []byte("{") }, ErrInput},
		"labels":     {func(r *StartRequest) { r.Labels = map[string]string{"": "x"} }, ErrInput},
	} {
		req := good
		c.change(&req)
		if _, err := e.StartRun(t.Context(), req); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var limit *kv.LimitError
	big := good
	big.Input = []byte(`"` + strings.Repeat("x", MaxData) + `"`)
	if _, err := e.StartRun(t.Context(), big); !errors.As(err, &limit) {
		t.Errorf("a big input: %v", err)
	}
	if err := e.Serve(t.Context()); err == nil {
		t.Error("it serves twice")
	}
	if _, err := NewEngine(memkv.New(memkv.Options{}), Config{}); !errors.Is(err, ErrConfig) {
		t.Errorf("an engine of nothing: %v", err)
	}
	if _, err := Output[int](t.Context(), "a"); err == nil {
		t.Error("an output outside of a step")
	}
}
