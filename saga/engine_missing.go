package saga

import (
	"context"
	"fmt"
	"time"

	"onced/kv"
)

// notServedAfter is how long Wait waits for somebody to call Serve, and how late a
// timer must be for Wait to name it.
const notServedAfter = 10 * time.Second

// servedSoon fires once if Serve has not been called yet, when it should have been.
func (e *Engine) servedSoon() (fires <-chan time.Time, stop func() bool) {
	if e.serving.Load() {
		return nil, func() bool { return true }
	}
	t := time.NewTimer(notServedAfter)
	return t.C, t.Stop
}

// notWoken says, for the error of who has waited in vain, that the run should have been
// woken long ago.
func (e *Engine) notWoken(id string) (hint string) {
	_ = e.store.View(context.Background(), func(rd kv.Reader) error { // it is but a hint
		r, err := loadRun(rd, id)
		if err != nil || r == nil || r.wake.IsZero() {
			return err
		}
		if late := rd.Now().Sub(r.wake); late > notServedAfter {
			hint = fmt.Sprintf(", but should have been woken %v ago; is Run of Config.Timers running?",
				late.Round(time.Second))
		}
		return nil
	})
	return hint
}

// maxMissingScan bounds the runs that are read to warn of their definitions.
const maxMissingScan = 20_000

// warnOfMissing tells the program of runs that cannot go on with the definitions that
// it has registered. What is due is held, and told in the feed; but what waits for a
// signal, a time or a person would wait in silence.
func (e *Engine) warnOfMissing(ctx context.Context) {
	found := map[string]int{}
	left := maxMissingScan
	for _, c := range []class{classWaiting, classHeld, classStuck} {
		r := kv.Key{}.Uint(uint64(c)).Range()
		r.Limit = resumePage
		for left > 0 && ctx.Err() == nil {
			page, err := e.openPage(ctx, r)
			if err != nil {
				e.cfg.Logger.Error("saga: the open runs cannot be read", "error", err)
				return
			}
			for _, o := range page {
				if o.missing != "" {
					found[o.missing]++
				}
			}
			if left -= len(page); len(page) < resumePage {
				break
			}
			r.From = append(openKey(c, page[len(page)-1].id), 0)
		}
	}
	for problem, runs := range found {
		e.cfg.Logger.Warn("saga: runs cannot go on", "runs", runs, "problem", problem)
	}
}
