package app

import (
	"context"
	"errors"
	"sync/atomic"

	"onced/api"
	"onced/kv"
)

// health says whether the process can take work.
type health struct {
	store interface {
		kv.Store
		Healthy() error
	}
	sagas    interface{ reason() string }
	draining atomic.Bool
}

// Ready looks at everything that readiness depends on. It writes nothing.
func (h *health) Ready(ctx context.Context) []api.Condition {
	conditions := []api.Condition{
		{Name: "process", Reason: h.process()},
		{Name: "store", Reason: h.storeReason()},
		{Name: "space", Reason: h.space(ctx)},
		{Name: "sagas", Reason: h.sagas.reason()},
	}
	for i := range conditions {
		conditions[i].OK = conditions[i].Reason == ""
	}
	return conditions
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
