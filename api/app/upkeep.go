package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"onced/kv"
)

// sweepAtOnce is how many expired claims, and runs, one round removes at most.
const sweepAtOnce = 10_000

// upkeep records what has become of dead owners and removes expired claims and runs,
// at the start and every claims.sweep. Decisions do not depend on it, so what
// fails is tried again in the next round.
func (a *App) upkeep(ctx context.Context) error {
	tick := time.NewTicker(a.o.Loaded.Config.Claims.Sweep)
	defer tick.Stop()
	a.warnOrphans(ctx, a.config.Load())
	for {
		a.upkeepOnce(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (a *App) upkeepOnce(ctx context.Context) {
	recovered, err := a.parts.book.Recover(ctx)
	if err == nil {
		_, err = a.parts.book.SweepExpired(ctx, sweepAtOnce)
	}
	if err == nil {
		_, err = a.parts.sagas.engine.SweepRuns(ctx, sweepAtOnce)
	}
	switch {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, kv.ErrStopped), errors.Is(err, kv.ErrCommitUnknown): // readiness says so
	default:
		a.o.Logger.Error("upkeep failed; it is tried again", "err", err, "recovered", recovered)
	}
}

// announce prints what a person should read at the start, and the first token
// when there has never been one.
func (a *App) announce(ctx context.Context) error {
	data, err := filepath.Abs(a.o.Loaded.Config.Data)
	if err != nil {
		return fmt.Errorf("app: the folder of the data: %w", err)
	}
	made := ""
	if a.isNew { // whoever expects keys in it has started in the wrong place
		made = " (a new, empty store: no key is known yet)"
		// After what is to be read.
		defer a.o.Logger.InfoContext(ctx, "a new, empty store was made", "data", data)
	}
	_, err = fmt.Fprintf(a.o.Notice, "onced %s is listening at http://%s\ndata: %s%s\n",
		a.o.Version, a.Addr("api"), data, made)
	if err != nil {
		return err
	}
	for _, w := range a.o.Loaded.Warnings {
		a.o.Logger.Warn(w.String())
	}
	_, err = a.parts.auth.Bootstrap(ctx, func(secret string) error {
		_, err := fmt.Fprintf(a.o.Notice, "\nFirst start. The token of the admin, shown only now:\n\n"+
			"  %s\n\nKeep it. When it is lost, stop onced, then: onced token create --role admin\n", secret)
		return err
	})
	return err
}
