package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"onced/api/config"
	"onced/kv"
)

// sweepAtOnce is how many expired claims one round removes at most.
const sweepAtOnce = 10_000

// upkeep records what has become of dead owners and removes expired claims,
// at the start and every claims.sweep. Decisions do not depend on it, so what
// fails is tried again in the next round.
func (a *App) upkeep(ctx context.Context) error {
	tick := time.NewTicker(a.o.Loaded.Config.Claims.Sweep)
	defer tick.Stop()
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
	switch {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, kv.ErrStopped), errors.Is(err, kv.ErrCommitUnknown): // readiness says so
	default:
		a.o.Logger.Error("upkeep of the claims failed; it is tried again", "err", err, "recovered", recovered)
	}
}

// announce prints what a person should read at the start.
func (a *App) announce(_ context.Context) error {
	c := a.o.Loaded.Config
	addr := a.Addr("api").String()
	_, err := fmt.Fprintf(a.o.Notice, "onced %s is listening at http://%s\ndata: %s\n",
		a.o.Version, addr, c.Data)
	for _, w := range a.o.Loaded.Warnings {
		a.o.Logger.Warn(w.String())
	}
	if !config.IsLoopback(c.Listen) {
		a.o.Logger.Warn("listening beyond this machine", "address", addr)
	}
	return err
}
