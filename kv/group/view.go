package group

import (
	"context"
	"fmt"

	"onced/kv"
)

// View implements [kv.Store].
func (s *Store) View(ctx context.Context, fn func(kv.Reader) error) (err error) {
	if inClosure() {
		return kv.ErrNested
	}
	if ctx.Err() != nil {
		return notRun(ctx)
	}
	if err := s.enterView(); err != nil {
		return err
	}
	defer s.views.Done()
	r := &reader{s: s, ctx: ctx}
	if f := s.failed.Load(); f != nil {
		r.doubt = f.doubt
		return s.look(r, fn)
	}
	defer func() { // also when fn panics: that is an answer too
		if r.version > s.durable.Load() {
			if late := s.becameDurable(ctx, r.version); late != nil {
				err = late
			}
		}
	}()
	return s.look(r, fn)
}

// look runs fn on a fresh snapshot.
func (s *Store) look(r *reader, fn func(kv.Reader) error) error {
	snap, err := s.backend.Snapshot()
	if err != nil {
		return err
	}
	defer func() {
		r.ended = true
		r.snap = nil
		snap.Close()
	}()
	r.snap, r.version = snap, snap.Version()
	r.now, r.began = s.opt.Clock.Now(), s.elapsed() // after the snapshot: nothing in it is from later
	return callClosure(func() error { return fn(r) })
}

// becameDurable waits for the commit that made version; its error says that this
// failed or that ctx ended first. A snapshot can be newer than what is durable,
// since the engine shows a commit before its last sync has ended.
func (s *Store) becameDurable(ctx context.Context, version uint64) error {
	for {
		b := s.committing.Load() // before durable: a commit sets that first when it ends
		if s.durable.Load() >= version {
			return nil
		}
		if b == nil || s.failed.Load() != nil {
			return fmt.Errorf("%w; read again", kv.ErrCommitUnknown)
		}
		select {
		case <-b.done:
		case <-ctx.Done():
			return fmt.Errorf("kv: the view was cancelled: %w", context.Cause(ctx))
		}
	}
}

func (s *Store) enterView() error {
	s.viewMu.Lock()
	defer s.viewMu.Unlock()
	if s.viewClosed {
		return kv.ErrClosed
	}
	s.views.Add(1)
	return nil
}
