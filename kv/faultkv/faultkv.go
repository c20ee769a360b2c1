// Package faultkv wraps a [kv.Store] and breaks it on purpose: it numbers every
// commit and every outside call of a program in one sequence, and fails or
// crashes before, in or after the one that a [Plan] names. It is for tests,
// which run a program once per point and ask for the same end every time, and
// for demonstrations; it does not import testing.
//
//	rec := faultkv.New(store) // no plan: only counts
//	run(rec)
//	for _, plan := range faultkv.Plans(rec.Points()) {
//		f := faultkv.New(freshStore(), plan)
//		run(f)              // may see ErrCrashed
//		<-f.Down()          // when f.Crashed()
//		recoverAndCheck(reopened())
//	}
//
// # What is guaranteed
//
//   - An Update becomes a point when its closure first returns nil, inside the
//     inner transaction: numbers follow the order in which the inner store runs
//     closures, and a program of one goroutine gets the same numbers each time.
//     A closure that is run again keeps its number.
//   - After a crash at point n every commit below n is in the inner store, none
//     above n ever is, and n itself is there or not as the plan says.
//   - After a crash every call answers [ErrCrashed], also calls that were under
//     way; hooks of OnCommit do not run. The inner store is never closed by it.
//
// # What is not
//
// The program's goroutines live on after a crash. A fake of the outside world
// goes through [Store.Call], which refuses after a crash as a dead process
// would; an effect that goes round it is the test's own mistake. A call whose
// function is already running when another goroutine crashes may still take
// effect, as it may in life.
//
// # What survives a crash
//
// The inner store with what was committed to it. Wait for [Store.Down], open the
// inner store again (a new epoch), and wrap it anew: numbers begin at 1.
//
// # What the caller must do
//
// Own the inner store: close and reopen it. Name outside calls.
package faultkv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"onced/kv"
)

var (
	// ErrInjected is what a point fails with when its plan says Before: nothing
	// happened.
	ErrInjected = errors.New("faultkv: injected failure; nothing happened")

	// ErrNoAnswer is what an outside call fails with when its plan says Lost or
	// Kept: it may have happened. A commit answers [kv.ErrCommitUnknown] instead.
	ErrNoAnswer = errors.New("faultkv: no answer; the call may or may not have happened")

	// ErrCrashed is the answer to every call after a crash.
	ErrCrashed = errors.New("faultkv: the process has crashed; reopen the inner store and wrap it anew")
)

// MaxRecorded is how many points are kept by name; later ones are only counted.
const MaxRecorded = 100_000

// Store is a [kv.Store] that fails where its plans say. It is safe for
// concurrent use.
type Store struct {
	inner kv.Store
	down  chan struct{}

	mu     sync.Mutex
	plans  map[int]Plan // by point; 0 is the next one to be reached
	count  int
	points []Point
	state  state
	busy   int // Updates and Views inside the inner store
}

type state int

const (
	running state = iota
	stopped       // writes answer kv.ErrStopped, reads go on
	crashed
)

// New wraps inner. Without plans it only counts. Of two plans for one point the
// later one holds.
func New(inner kv.Store, plans ...Plan) *Store {
	s := &Store{inner: inner, down: make(chan struct{}), plans: map[int]Plan{}}
	for _, p := range plans {
		s.plans[p.Point] = p
	}
	return s
}

// Arm adds a plan to a running store. Point 0 is the next point to be reached.
func (s *Store) Arm(p Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans[p.Point] = p
}

// Crash crashes now, between two points.
func (s *Store) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enterState(crashed)
}

// Crashed reports whether the store has crashed.
func (s *Store) Crashed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == crashed
}

// Down is closed when the store has crashed and nothing that began before is
// left inside the inner store, so that it can be reopened.
func (s *Store) Down() <-chan struct{} { return s.down }

// Points returns the points reached so far, in order, at most [MaxRecorded].
func (s *Store) Points() []Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.points)
}

// Count returns the number of points reached so far.
func (s *Store) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Update implements [kv.Store]. Each Update whose closure returns nil is a
// point, named by the tables it wrote.
func (s *Store) Update(ctx context.Context, fn func(kv.Writer) error) error {
	if err := s.enter(stopped); err != nil {
		return err
	}
	defer s.leave()
	a := &attempt{s: s}
	err := s.inner.Update(ctx, func(w kv.Writer) error {
		own := &writer{Writer: w, attempt: a, tables: map[kv.TableID]bool{}}
		if err := fn(own); err != nil {
			return err
		}
		return a.reached(own.tables)
	})
	return a.outcome(err)
}

// View implements [kv.Store]. It is no point.
func (s *Store) View(ctx context.Context, fn func(kv.Reader) error) error {
	if err := s.enter(crashed); err != nil {
		return err
	}
	defer s.leave()
	err := s.inner.View(ctx, fn)
	if s.Crashed() {
		return ErrCrashed
	}
	return err
}

// Epoch implements [kv.Store].
func (s *Store) Epoch() uint64 { return s.inner.Epoch() }

// Close closes the inner store, unless it has crashed: then it answers
// [ErrCrashed] and leaves the inner store to the test.
func (s *Store) Close() error {
	if s.Crashed() {
		return ErrCrashed
	}
	return s.inner.Close()
}

// Call is a point outside the store: it runs fn, which performs the effect, and
// returns its error. As its plan says, fn is not run or its answer is withheld:
// Before gives [ErrInjected], Lost and Kept give [ErrNoAnswer]. After a crash
// fn is not run. It must not be used inside a transaction.
func (s *Store) Call(name string, fn func() error) error {
	n, plan, hit, err := s.call(name)
	if err != nil {
		return err
	}
	if hit && !plan.happens() {
		return s.callFault(n, name, plan)
	}
	err = fn()
	if hit {
		s.mu.Lock()
		s.strike(KindCall, plan)
		s.mu.Unlock()
		return s.callFault(n, name, plan)
	}
	if s.Crashed() {
		return ErrCrashed
	}
	return err
}

// Mark is a point at which nothing happens but a crash can: a place between two
// acts of the program. Its error must be returned like that of a call.
func (s *Store) Mark(name string) error {
	return s.Call(name, func() error { return nil })
}

// call numbers an outside call, and strikes already when it shall not happen.
func (s *Store) call(name string) (n int, plan Plan, hit bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == crashed {
		return 0, plan, false, ErrCrashed
	}
	n, plan, hit = s.number(KindCall, name)
	if hit && !plan.happens() {
		s.strike(KindCall, plan)
	}
	return n, plan, hit, nil
}

func (s *Store) callFault(n int, name string, plan Plan) error {
	switch {
	case plan.crashes():
		return ErrCrashed
	case plan.When == Before:
		return fmt.Errorf("%w (point %d, %s)", ErrInjected, n, name)
	}
	return fmt.Errorf("%w (point %d, %s)", ErrNoAnswer, n, name)
}

// enter counts a transaction in; refuse is the mildest state that keeps it out.
func (s *Store) enter(refuse state) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state >= refuse {
		return s.refusal()
	}
	s.busy++
	return nil
}

func (s *Store) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.enterState(s.state)
}

func (s *Store) refusal() error {
	switch s.state {
	case crashed:
		return ErrCrashed
	case stopped:
		return kv.ErrStopped
	case running:
	}
	return nil
}

// enterState moves to a state, never back, and closes down when all is quiet.
func (s *Store) enterState(to state) {
	s.state = max(s.state, to)
	if s.state != crashed || s.busy > 0 {
		return
	}
	select {
	case <-s.down:
	default:
		close(s.down)
	}
}

// number gives the next number to a point and takes out the plan for it.
func (s *Store) number(kind Kind, name string) (n int, plan Plan, hit bool) {
	s.count++
	if len(s.points) < MaxRecorded {
		s.points = append(s.points, Point{N: s.count, Kind: kind, Name: name})
	}
	for _, at := range []int{s.count, 0} {
		if plan, hit = s.plans[at]; hit {
			delete(s.plans, at)
			break
		}
	}
	return s.count, plan, hit
}

func (s *Store) strike(kind Kind, plan Plan) {
	switch {
	case plan.crashes():
		s.enterState(crashed)
	case plan.Mode == Stop && kind == KindCommit:
		s.enterState(stopped)
	}
}

// attempt is one call of Update with all runs of its closure.
type attempt struct {
	s    *Store
	n    int // 0 until the closure has first returned nil
	plan Plan
	hit  bool
}

var errWithdrawn = errors.New("faultkv: withdrawn before the commit")

// reached is called inside the inner transaction when the closure returned nil.
// What it answers decides whether the inner store commits.
func (a *attempt) reached(tables map[kv.TableID]bool) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.n == 0 {
		if err := a.s.refusal(); err != nil {
			return err
		}
		a.n, a.plan, a.hit = a.s.number(KindCommit, commitName(tables))
		if a.hit { // here, so that no later closure can still get in
			a.s.strike(KindCommit, a.plan)
		}
	}
	if a.hit && !a.plan.happens() {
		return errWithdrawn
	}
	return nil
}

// outcome turns what the inner store answered into what the caller is told.
func (a *attempt) outcome(err error) error {
	switch {
	case a.s.Crashed():
		return ErrCrashed
	case !a.hit:
		return err
	case a.plan.When == Before && errors.Is(err, errWithdrawn):
		return fmt.Errorf("%w (point %d)", ErrInjected, a.n)
	case err == nil || errors.Is(err, errWithdrawn):
		return fmt.Errorf("faultkv: point %d: %w", a.n, kv.ErrCommitUnknown)
	}
	return err // the closure failed in a later run, or the inner store did
}

func commitName(tables map[kv.TableID]bool) string {
	if len(tables) == 0 {
		return "nothing written"
	}
	names := make([]string, 0, len(tables))
	for _, t := range slices.Sorted(maps.Keys(tables)) {
		names = append(names, string(t))
	}
	return strings.Join(names, "+")
}

// writer notes which tables are written and holds back hooks.
type writer struct {
	kv.Writer
	attempt *attempt
	tables  map[kv.TableID]bool
}

// Put implements [kv.Writer].
func (w *writer) Put(t kv.TableID, key, value []byte) error {
	w.tables[t] = true
	return w.Writer.Put(t, key, value)
}

// Delete implements [kv.Writer].
func (w *writer) Delete(t kv.TableID, key []byte) error {
	w.tables[t] = true
	return w.Writer.Delete(t, key)
}

// OnCommit implements [kv.Writer]: a caller that is told of a failure, or of
// nothing, is not woken either.
func (w *writer) OnCommit(fn func()) {
	a := w.attempt
	w.Writer.OnCommit(func() {
		if !a.hit && !a.s.Crashed() {
			fn()
		}
	})
}

// AdmitIntent passes [kv.AdmitIntent] on to the inner store.
func (w *writer) AdmitIntent() error { return kv.AdmitIntent(w.Writer) }
