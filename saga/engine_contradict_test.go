package saga

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/kv"
	"onced/saga/machine"
)

// lines keeps what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A word that denies the end of a run is kept beside the run, which does not change, is
// logged once, and goes with the run.
func TestAWordThatDeniesAnEndIsKeptAndLogged(t *testing.T) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		s.stop()
		log := &lines{}
		s.cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
		s.boot()
		id := s.started()
		settle()
		s.signal(id, "charge", false)
		settle()
		if v := s.wantStatus(id, machine.Completed); v.Contradictions != nil {
			t.Fatalf("it is denied by %v", v.Contradictions)
		}
		pass(time.Minute)
		at := time.Now()
		for range 3 {
			s.signal(id, "charge", true)
			pass(time.Minute)
		}
		c := s.view(id).Contradictions["charge"]
		if c.Outcome != machine.OutcomeRefused || !c.At.Equal(at) {
			t.Errorf("what denies it is %+v, want refused at %v", c, at)
		}
		if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text,
			"step=charge") || !strings.Contains(text, "said=refused") {
			t.Errorf("the log has %s", text)
		}
		pass(s.engine.cfg.Retention + time.Hour)
		if n, err := s.engine.SweepRuns(s.Context(), 0); n != 1 || err != nil {
			t.Fatalf("%d runs are removed, %v", n, err)
		}
		err := s.store.View(s.Context(), func(rd kv.Reader) error {
			_, there, err := contradictionTable.Get(rd, correctionKey(id, "charge"))
			if there {
				t.Error("what denied it is left")
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// What a person did or said has the name in the history.
func TestTheHistoryNamesWhoActed(t *testing.T) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		id := s.started()
		settle()
		if err := s.engine.Signal(s.Context(), Signal{Run: id, Step: "charge", Refused: true, Actor: "ann",
			Reason: "seen"}); err != nil {
			t.Fatal(err)
		}
		settle()
		st, err := s.engine.Start(s.Context(), s.def(), "other", theOrder)
		if err != nil {
			t.Fatal(err)
		}
		settle()
		other := st.Run
		if _, err := s.engine.Operate(s.Context(), other, Act{Verb: machine.MarkDone, Step: "charge",
			Actor: "bob", Reason: "called them"}); err != nil {
			t.Fatal(err)
		}
		settle()
		for run, want := range map[string]string{id: "ann: refused: seen",
			other: "bob: mark_done: called them"} {
			if h := s.view(run).History; !slices.ContainsFunc(h, func(e HistoryEntry) bool {
				return e.Text == want
			}) {
				t.Errorf("%q is not in %+v", want, h)
			}
		}
	})
}

// Which steps wait for a signal is what the run's own version says.
func TestAwaitsIsOfTheRunsOwnVersion(t *testing.T) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		id := s.started()
		settle()
		v := s.view(id)
		for step, want := range map[string][2]bool{"charge": {true, true}, "order": {false, true},
			"none": {false, false}} {
			if awaits, known := s.engine.Awaits(v, step); awaits != want[0] || known != want[1] {
				t.Errorf("%s: %v, %v", step, awaits, known)
			}
		}
		v.Version = "other"
		if _, known := s.engine.Awaits(v, "charge"); known {
			t.Error("a version that is not there is known")
		}
	})
}

// A second success that names another charge is kept and told of, while the run goes on and
// when it has ended; the same one in other words is not.
func TestASecondSuccessWithOtherDataIsToldOf(t *testing.T) {
	inTill(t, twoSteps(AwaitSignal()), func(t *testing.T, s *till) {
		id := s.started()
		settle()
		say := func(data string) {
			err := s.engine.Signal(s.Context(), Signal{Run: id, Step: "charge", Data: []byte(data)})
			if err != nil {
				t.Fatal(err)
			}
			settle()
		}
		say(`{"id":"ch_1","n":1}`)
		s.wantStatus(id, machine.Completed)
		say(`{ "n": 1, "id": "ch_1" }`)
		if c := s.view(id).Contradictions; c != nil {
			t.Fatalf("it is denied by %v", c)
		}
		say(`{"id":"ch_2","n":1}`)
		say(`{"id":"ch_2","n":1}`)
		c := s.view(id).Contradictions["charge"]
		if c.Outcome != machine.OutcomeDone || string(c.Data) != `{"id":"ch_2","n":1}` {
			t.Errorf("what denies it is %s with %s", c.Outcome, c.Data)
		}
		if got := s.events(); got != "run.completed run.contradicted" {
			t.Errorf("told are %s", got)
		}
		say(`{"id":"ch_3","n":1}`)
		if c := s.view(id).Contradictions["charge"]; string(c.Data) != `{"id":"ch_3","n":1}` {
			t.Errorf("then it is %s", c.Data)
		}
	})
}
