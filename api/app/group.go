package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// member is one part of the process. run blocks until its context ends or the
// part fails, and returns after everything it started has ended.
type member struct {
	name string
	run  func(ctx context.Context) error
}

// group runs members as one.
type group struct{ members []member }

func (g *group) add(name string, run func(ctx context.Context) error) {
	g.members = append(g.members, member{name: name, run: run})
}

// run starts the members in their order and waits until ctx ends or one of them
// returns. Then it stops them in the reverse order, each after the one that was
// started later has returned. The error is that of the members that failed.
func (g *group) run(ctx context.Context) error {
	type running struct {
		stop context.CancelFunc
		done chan error
	}
	var started []running
	first := make(chan struct{})
	var once sync.Once
	var all sync.WaitGroup
	defer all.Wait()
	for _, m := range g.members {
		mctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		r := running{stop: cancel, done: make(chan error, 1)}
		started = append(started, r)
		all.Go(func() {
			defer once.Do(func() { close(first) })
			r.done <- runMember(mctx, m)
		})
	}
	if len(started) > 0 {
		select {
		case <-ctx.Done():
		case <-first:
		}
	}
	var errs []error
	for i, s := range slices.Backward(started) {
		s.stop()
		if err := <-s.done; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", g.members[i].name, err))
		}
	}
	return errors.Join(errs...)
}

// runMember turns a panic into an error, so that the others end in order.
func runMember(ctx context.Context, m member) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	err = m.run(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}
