package saga

import (
	"errors"
	"strings"
	"testing"
	"time"

	"onced/saga/machine"
)

func TestARemarkIsInTheHistoryOnce(t *testing.T) {
	defs := func(o *outside) []*Definition {
		return []*Definition{New("pay").
			Step("charge", o.act("charge"), o.undo("charge"), AwaitFor(time.Hour)).
			Step("order", o.act("order"), nil)}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		st, err := s.engine.Start(t.Context(), s.defs[0], theOrder.ID, theOrder)
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		text := "a callback could not be read: id is missing"
		for range 3 {
			if err := s.engine.Remark(t.Context(), st.Run, "charge", text); err != nil {
				t.Fatal(err)
			}
		}
		remarks := func() (n int) {
			v, err := s.engine.Get(t.Context(), st.Run)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range v.History {
				if h.Step == "charge" && h.Text == text {
					n++
				}
			}
			if v.State.Status == machine.Running && v.Waiting != "charge" {
				t.Errorf("the run waits for %q", v.Waiting)
			}
			return n
		}
		if n := remarks(); n != 1 {
			t.Errorf("it is there %d times", n)
		}
		if err := s.engine.Signal(t.Context(), Signal{Run: st.Run, Step: "charge"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.engine.Wait(t.Context(), st.Run); err != nil {
			t.Error(err)
		}
		before, _ := s.engine.Get(t.Context(), st.Run)
		if err := s.engine.Remark(t.Context(), st.Run, "charge", "late"); err != nil {
			t.Error(err)
		}
		after, _ := s.engine.Get(t.Context(), st.Run)
		if after.Revision != before.Revision || remarks() != 1 {
			t.Error("a run that has ended has changed")
		}
		var in *InputError
		if err := s.engine.Remark(t.Context(), st.Run, "none", text); !errors.As(err, &in) ||
			!strings.Contains(err.Error(), "none") {
			t.Error(err)
		}
		if err := s.engine.Remark(t.Context(), "run_none", "charge", text); !errors.Is(err, ErrNoRun) {
			t.Error(err)
		}
	})
}
