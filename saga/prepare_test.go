package saga

import (
	"errors"
	"strings"
	"testing"
)

func TestASupersededVersionIsNotUsedByNewRuns(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		o := s.outside
		v := func(version string) *Definition {
			return New("pay").Version(version).Step("charge", o.act("charge"), o.undo("charge")).
				Step("order", o.act("order"), nil)
		}
		start := func(key, version string) (string, error) {
			st, err := s.engine.StartRun(t.Context(), StartRequest{Definition: "pay", Key: key,
				Version: version, Input: []byte(`{"ID":"o"}`)})
			if err != nil {
				return "", err
			}
			got, err := s.engine.Wait(t.Context(), st.Run)
			if err != nil {
				return "", err
			}
			return got.Version, nil
		}
		if err := s.engine.Register(v("2"), v("0").Superseded()); err != nil {
			t.Fatal(err)
		}
		if got, err := start("k1", ""); got != "2" || err != nil {
			t.Errorf("a new run has version %q, %v", got, err)
		}
		if got, err := start("k2", "0"); got != "0" || err != nil {
			t.Errorf("a run that names it has version %q, %v", got, err)
		}
		d := New("other").Version("1").Step("a", s.outside.act("a"), nil).Superseded()
		if err := s.engine.Register(d); err != nil {
			t.Fatal(err)
		}
		_, err := s.engine.StartRun(t.Context(), StartRequest{Definition: "other", Key: "k"})
		if !errors.Is(err, ErrConfig) {
			t.Errorf("a run begins of a name that has superseded versions only: %v", err)
		}
	})
}

func TestEveryStartIsPrepared(t *testing.T) {
	refuse := false
	defs := func(o *outside) []*Definition {
		return []*Definition{New("pay").Version("7").Step("charge", o.act("charge"), o.undo("charge")).
			Step("order", o.act("order"), nil).
			Prepare(func(r *StartRequest) error {
				if refuse {
					return &InputError{Field: "input.currency", Problem: "is missing"}
				}
				r.Labels = map[string]string{"v": r.Version}
				return nil
			})}
	}
	inTill(t, defs, func(t *testing.T, s *till) {
		s.plan["order"] = []string{"refused"}
		_, failed := s.engine.Run(t.Context(), s.defs[0], theOrder.ID, theOrder)
		v, err := s.engine.Find(t.Context(), "pay", theOrder.ID)
		if err != nil || v.Labels["v"] != "7" {
			t.Fatalf("the labels are %v; %v; %v", v, err, failed)
		}
		refuse = true
		act := Act{Actor: "ann", Reason: "again"}
		_, err = s.engine.Rerun(t.Context(), v.Run, act)
		if in := (*InputError)(nil); !errors.As(err, &in) || in.Field != "input.currency" {
			t.Errorf("a rerun with an input that is refused: %v", err)
		}
		_, err = s.engine.Start(t.Context(), s.defs[0], "other", theOrder)
		if err == nil || !strings.Contains(err.Error(), "is missing") {
			t.Errorf("a start with an input that is refused: %v", err)
		}
		st, err := s.engine.StartRun(t.Context(), StartRequest{Definition: "pay", Key: theOrder.ID, Round: 1,
			Join: true, Input: v.Input})
		if err != nil || st.Run != v.Run {
			t.Errorf("a start that only joins is looked at: %+v, %v", st, err)
		}
		refuse = false
		if st, err = s.engine.Rerun(t.Context(), v.Run, act); err != nil {
			t.Fatal(err)
		}
		if v, err = s.engine.Get(t.Context(), st.Run); err != nil || v.Labels["v"] != "7" {
			t.Errorf("the labels of the rerun are %v, %v", v.Labels, err)
		}
	})
}
