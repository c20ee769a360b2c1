package app

import (
	"context"
	"errors"
	"sync/atomic"

	"onced/kv"
)

// Check is one thing that readiness depends on.
type Check struct {
	Name string
	// Reason says why it fails; empty means that it does not.
	Reason string
}

// health says whether the process can take work.
type health struct {
	store interface {
		kv.Store
		Healthy() error
	}
	draining atomic.Bool
}

// Checks looks at everything that readiness depends on. It writes nothing.
func (h *health) Checks(ctx context.Context) []Check {
	return []Check{
		{Name: "process", Reason: h.process()},
		{Name: "store", Reason: h.storeReason()},
		{Name: "space", Reason: h.space(ctx)},
	}
}

func (h *health) process() string {
	if h.draining.Load() {
		return "the process is stopping; it finishes what is under way"
	}
	return ""
}

func (h *health) storeReason() string {
	if err := h.store.Healthy(); err != nil {
		return err.Error()
	}
	return ""
}

// errLook ends the transaction that asks whether new work may begin.
var errLook = errors.New("app: only a look")

func (h *health) space(ctx context.Context) string {
	err := h.store.Update(ctx, func(w kv.Writer) error {
		if err := kv.AdmitIntent(w); err != nil {
			return err
		}
		return errLook
	})
	if errors.Is(err, kv.ErrNoSpace) {
		return err.Error()
	}
	return "" // a store that fails otherwise says so in its own check
}
