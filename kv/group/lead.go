package group

import (
	"fmt"
	"runtime"
	"time"

	"onced/kv"
)

// lead commits b after the batch before it, which is nil or done when b was
// sealed in its leader's place.
func (s *Store) lead(b, before *batch) {
	if before != nil {
		s.follow(b, before)
	}
	// Whoever has the turn seals in our place, for we would have to queue for it
	// behind many a closure.
	b.due.Store(true)
	if s.turn.take(b.sealed) {
		if s.open == b { // nobody has sealed it yet; b.sealed would tell us alone
			s.seal(b)
		}
		s.turn.pass()
	}
	defer func() {
		close(b.over)
		if b.heir.Load() { // the next leader runs before the crowd is woken: the disk is idle
			runtime.Gosched()
		}
		close(b.done)
	}()
	if s.failed.Load() != nil {
		b.err = s.Healthy() // its closures may have read what is now in doubt
		return
	}
	if changes := b.rows.changes(); len(changes) > 0 {
		s.commit(b, changes)
	}
}

// follow waits until the batch before b is done, and for those whom it answers. When it
// was before we came and had one call, that may have been ours, and nobody else comes.
func (s *Store) follow(b, before *batch) {
	select {
	case <-before.over:
		if before.calls == 1 {
			return
		}
	default:
		before.heir.Store(true)
		<-before.over
	}
	s.gather(b)
}

// gathered is how many calls a batch has when its commit no longer waits for more.
// The cost of a commit is mostly that of its sync up to about this many calls, and
// that of its pages above; then it is better begun while others run closures.
const gathered = 32

// gather lets those who were answered a moment ago, and come back at once, join
// b, for as long as somebody does. There is no timer in it: nobody waits for
// callers that may not come.
func (s *Store) gather(b *batch) {
	for before := int64(-1); ; runtime.Gosched() {
		joined := b.joined.Load()
		if joined == before || joined >= gathered {
			return
		}
		before = joined
	}
}

// commit makes one engine commit and, when that fails, stops the store.
func (s *Store) commit(b *batch, changes []Change) {
	s.committing.Store(b)
	var start time.Time
	var err error
	finished := false
	defer func() {
		if !finished { // it panicked, or called Goexit: as bad as an error
			err = fmt.Errorf("the commit did not return: %v", recover())
		}
		if err != nil { // set here, for what is called next may panic
			b.err = fmt.Errorf("%w (cause: %w)", kv.ErrCommitUnknown, err)
			s.stop(b, err)
		}
		s.observe(b, len(changes), start, b.err)
	}()
	start = s.opt.Clock.Now()
	version, err := s.backend.Commit(changes)
	finished = true
	if err == nil {
		s.durable.Store(version)
		s.committing.Store(nil)
	}
}

func (s *Store) stop(b *batch, cause error) {
	s.failed.Store(&failure{cause: cause, doubt: b.rows})
	if s.opt.Logger != nil {
		s.opt.Logger.Error("the store has stopped taking writes after a commit error", "cause", cause)
	}
}

func (s *Store) observe(b *batch, changes int, start time.Time, err error) {
	if s.opt.Observer != nil {
		s.opt.Observer(Commit{Calls: b.calls, Changes: changes, Bytes: b.bytes,
			Took: s.opt.Clock.Now().Sub(start), Err: err})
	}
}
