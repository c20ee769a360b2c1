package kv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/memkv"
)

// bare is a Writer of an engine that has no mark of free space.
type bare struct{ kv.Writer }

func TestAdmitIntentAsksTheEngine(t *testing.T) {
	t.Parallel()
	s := memkv.New(memkv.Options{Admit: func() error { return kv.ErrNoSpace }})
	defer s.Close()
	err := s.Update(context.Background(), func(w kv.Writer) error {
		if err := kv.AdmitIntent(bare{w}); err != nil {
			t.Errorf("an engine without a mark refuses: %v", err)
		}
		return kv.AdmitIntent(w)
	})
	if !errors.Is(err, kv.ErrNoSpace) {
		t.Errorf("error %v, want ErrNoSpace", err)
	}
}

func TestClockFunc(t *testing.T) {
	t.Parallel()
	var c kv.Clock = kv.ClockFunc(func() time.Time { return may })
	if !c.Now().Equal(may) {
		t.Errorf("the clock says %v", c.Now())
	}
}
