// Package group turns a small transactional engine into a [kv.Store] whose
// commits are made in groups: whoever calls Update while a commit is under way
// joins the next one, so that one sync of the disk serves them all.
//
// # How it works
//
// A closure runs on its caller's goroutine, one at a time, while it holds the
// turn. It reads through two overlays (what its own group has written so far,
// and what the group before it is committing now) to the engine's snapshot,
// and writes into its group's overlay with a journal that takes its writes
// back when it fails. The first to join a group leads it: it waits for the
// group before, has its own sealed by whoever has the turn, and commits it in one
// engine transaction. There is no timer and no goroutine of its own: a lone caller
// waits for its own sync and nothing else.
//
// # Invariants
//
//   - At most two groups exist beside the durable state: one committing, one open.
//   - Closures that follow each other share a snapshot. None outlives its group, and
//     none is open while nobody runs or waits for the turn, or while somebody waits
//     for a commit with the turn: a commit may have to wait for snapshots.
//   - Every answer leaves after its group's commit, so also after the commit of
//     everything it may have read.
//   - A snapshot newer than the last durable commit is never answered from
//     before that commit has ended.
//   - After a failed commit no write is accepted. Rows of the failed group are
//     in doubt until the next start, and reading one is [kv.ErrCommitUnknown];
//     all other reads go on.
//
// # Crash points
//
// Before the engine's commit: nothing of the group exists. In it: all or
// nothing, by the engine's word. After it, before the answers: everything of
// the group exists and nobody was told; callers repeat with the same token.
package group

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"onced/kv"
)

// Backend is what a storage engine supplies: snapshots, and the atomic and
// durable commit of a set of changes. Its methods may be called concurrently,
// but Commit only by one goroutine at a time.
type Backend interface {
	// Snapshot opens the newest committed state, which may include a commit
	// that is not durable yet; Version tells.
	Snapshot() (Snapshot, error)
	// Commit makes all changes durable, or none, and returns the version of the
	// state it made. They are sorted by table and key, each key once. After an
	// error it is not called again.
	Commit(changes []Change) (version uint64, err error)
	// Close releases the engine after the last snapshot has been closed.
	Close() error
}

// Snapshot is one committed state. It is used by one goroutine at a time.
type Snapshot interface {
	// Version rises with every commit.
	Version() uint64
	// Get returns the value, valid until Close, or nil when absent.
	Get(t kv.TableID, key []byte) []byte
	// Cursor iterates over the rows of r, whose Limit it may ignore.
	Cursor(t kv.TableID, r kv.Range) Cursor
	// Close releases the snapshot.
	Close()
}

// Cursor yields rows in order. Key and value are valid until Next is called
// again or the snapshot is closed.
type Cursor interface {
	// Next returns the next row; ok is false after the last.
	Next() (key, value []byte, ok bool)
}

// Change is one row to be written, or deleted when Delete is set.
type Change struct {
	Table  kv.TableID
	Key    string
	Value  []byte
	Delete bool
}

// Commit describes one ended commit to an [Options.Observer].
type Commit struct {
	Calls   int           // transactions in the group, failed ones included
	Changes int           // rows written or deleted
	Bytes   int           // keys and values
	Took    time.Duration // by the store's clock; the engine's commit only
	Err     error
}

// Options of a Store. The zero value works.
type Options struct {
	// Clock gives each transaction its instant; nil means the system's clock.
	Clock kv.Clock
	// Epoch is what [kv.Store.Epoch] answers.
	Epoch uint64
	// MaxCalls and MaxBytes bound a group: once reached, the next transaction
	// waits for the next group. 0 means 1024 and 8 MiB.
	MaxCalls int
	MaxBytes int
	// Admit is asked by [kv.AdmitIntent]; nil admits always. It must be quick.
	Admit func() error
	// Observer, when set, is told of each commit before its callers are
	// answered. It must be quick and must not use the store.
	Observer func(Commit)
	// Rerun runs every closure twice, to catch closures that cannot be.
	Rerun bool
	// Logger is told when the store stops; nil is silent.
	Logger *slog.Logger
}

// Store implements [kv.Store] over a Backend.
type Store struct {
	backend Backend
	opt     Options
	elapsed func() time.Duration // see kv.Elapsed

	turn    turn           // guards open, snap, journal and closed, and who runs a closure
	open    *batch         // gathering
	snap    Snapshot       // below the overlays, for closures that follow each other; or nil
	journal []undo         // of the closure that runs
	closed  bool           // no more calls
	views   sync.WaitGroup // open Views; Add under viewMu

	released chan struct{} // closed once Close has ended
	closeErr error         // what it answered

	viewMu     sync.Mutex
	viewClosed bool

	durable    atomic.Uint64         // version of the last durable commit
	committing atomic.Pointer[batch] // the batch whose commit is under way
	failed     atomic.Pointer[failure]
}

// batch is one group. All fields but the atomic ones and those set at its end are
// guarded by the turn until it is sealed, and immutable afterwards.
type batch struct {
	before *batch // the batch sealed before this one; its overlay lies below ours
	rows   overlay
	calls  int
	bytes  int
	led    bool
	joined atomic.Int64  // as calls, for the leader to see
	due    atomic.Bool   // its leader could commit it now: whoever has the turn seals it
	heir   atomic.Bool   // the leader of the batch after it waits for over
	sealed chan struct{} // closed under the turn when nobody may join any more
	over   chan struct{} // closed after the commit, for the next leader
	done   chan struct{} // closed after over, for everybody
	err    error         // set before over is closed
}

// failure is the state of a store after a commit error.
type failure struct {
	cause error
	doubt overlay // rows that may or may not be on disk
}

// New returns a Store over backend, whose present state must be durable.
func New(backend Backend, opt Options) (*Store, error) {
	if opt.Clock == nil {
		opt.Clock = kv.SystemClock()
	}
	if opt.MaxCalls <= 0 {
		opt.MaxCalls = 1024
	}
	if opt.MaxBytes <= 0 {
		opt.MaxBytes = 8 << 20
	}
	s := &Store{backend: backend, opt: opt, elapsed: kv.Elapsed(opt.Clock), released: make(chan struct{})}
	snap, err := backend.Snapshot()
	if err != nil {
		return nil, err
	}
	s.durable.Store(snap.Version())
	snap.Close()
	s.turn.idle = s.dropSnapshot
	s.open = newBatch(nil)
	return s, nil
}

func newBatch(before *batch) *batch {
	return &batch{before: before, sealed: make(chan struct{}), over: make(chan struct{}),
		done: make(chan struct{})}
}

// Epoch implements [kv.Store].
func (s *Store) Epoch() uint64 { return s.opt.Epoch }

// Healthy returns nil while the store takes writes, and an error wrapping
// [kv.ErrStopped] and the cause after a commit error.
func (s *Store) Healthy() error {
	if f := s.failed.Load(); f != nil {
		return fmt.Errorf("%w (cause: %w)", kv.ErrStopped, f.cause)
	}
	return nil
}

// Update implements [kv.Store].
func (s *Store) Update(ctx context.Context, fn func(kv.Writer) error) error {
	if inClosure() {
		return kv.ErrNested
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	// We hold the turn, and there is room in the open batch.
	b := s.open
	leads := !b.led
	b.led = true
	b.calls++
	b.joined.Add(1)
	tx := &writer{reader: reader{s: s}, b: b}
	ended := false
	defer func() {
		if !ended { // it panics or calls Goexit: as an error, then that goes on
			tx.undo()
			s.await(b, s.settle(b, tx), leads)
		}
	}()
	err := s.runClosure(tx, fn)
	ended = true
	if err != nil {
		tx.undo()
	}
	s.await(b, s.settle(b, tx), leads)
	if b.err != nil {
		return b.err
	}
	if err == nil {
		wake(tx.onCommit)
	}
	return err
}

// wake runs all hooks, the rest of them too when one panics.
func wake(hooks []func()) {
	if len(hooks) > 0 {
		defer wake(hooks[1:])
		hooks[0]()
	}
}

// begin takes the turn and makes room in the open batch. On an error the turn
// is not held.
func (s *Store) begin(ctx context.Context) error {
	if !s.turn.take(ctx.Done()) {
		return notRun(ctx)
	}
	err := s.ready(ctx)
	if err != nil {
		s.turn.pass()
	}
	return err
}

func (s *Store) ready(ctx context.Context) error {
	if s.closed {
		return kv.ErrClosed
	}
	if err := s.Healthy(); err != nil {
		return err
	}
	b := s.open
	if b.due.Load() {
		s.seal(b)
		close(b.sealed)
		return s.Healthy()
	}
	if b.calls < s.opt.MaxCalls && b.bytes < s.opt.MaxBytes {
		return nil
	}
	// The batch is full: keep the turn, so that the order of callers holds,
	// until the batch before it is done; then seal it in its leader's place.
	s.dropSnapshot() // the engine's commit may have to wait for it
	if b.before != nil {
		select {
		case <-b.before.over:
		case <-ctx.Done():
			return notRun(ctx)
		}
	}
	s.seal(b)
	close(b.sealed)
	return s.Healthy()
}

// seal closes b to further calls. The caller holds the turn, the batch before b is
// done, and b.sealed is still to be closed.
func (s *Store) seal(b *batch) {
	s.dropSnapshot() // it lacks the batch before b, which no overlay holds any longer
	b.before = nil
	s.open = newBatch(b)
}

// snapshot returns the snapshot below the overlays. It stays open while closures
// follow each other, since opening one costs as much as a short closure, and no
// longer: an engine may have to wait for it with a commit, and may not reuse the
// space of what it shows.
func (s *Store) snapshot() (Snapshot, error) {
	if s.snap == nil {
		snap, err := s.backend.Snapshot()
		if err != nil {
			return nil, err
		}
		s.snap = snap
	}
	return s.snap, nil
}

// dropSnapshot closes the snapshot. The caller has the turn, or knows that nobody
// has it.
func (s *Store) dropSnapshot() {
	if s.snap != nil {
		s.snap.Close()
		s.snap = nil
	}
}

func (s *Store) runClosure(tx *writer, fn func(kv.Writer) error) error {
	tx.now, tx.began = s.opt.Clock.Now(), s.elapsed()
	snap, err := s.snapshot()
	if err != nil {
		return err
	}
	tx.snap = snap
	run := func() error { return fn(tx) }
	if s.opt.Rerun {
		if err := callClosure(run); err != nil {
			return err
		}
		tx.undo()
	}
	return callClosure(run)
}

// settle ends a call whose closure has ended and passes the turn on. It returns the
// batch before b.
func (s *Store) settle(b *batch, tx *writer) (before *batch) {
	tx.ended = true
	tx.snap = nil
	b.bytes += tx.bytes
	s.forget()
	before = b.before
	due := b.due.Load()
	if due {
		s.seal(b)
	}
	s.turn.pass()
	if due {
		close(b.sealed) // who is woken last runs first, and the disk is idle
	}
	return before
}

// await waits for b to be committed, by leading it if need be.
func (s *Store) await(b, before *batch, leads bool) {
	if leads {
		s.lead(b, before)
	} else {
		<-b.done
	}
}

// Close implements [kv.Store].
func (s *Store) Close() error {
	if inClosure() {
		return kv.ErrNested
	}
	s.turn.take(nil)
	if s.closed {
		s.turn.pass()
		<-s.released
		return s.closeErr
	}
	s.closed = true
	last := s.open
	s.turn.pass()
	defer close(s.released)
	s.drain(last)
	s.viewMu.Lock()
	s.viewClosed = true
	s.viewMu.Unlock()
	s.views.Wait()
	s.closeErr = s.backend.Close()
	return s.closeErr
}

// drain waits for the batches that had begun when the store was closed.
func (s *Store) drain(b *batch) {
	s.turn.take(nil)
	before, led := b.before, b.led
	s.turn.pass()
	if before != nil {
		<-before.done
	}
	if led {
		<-b.done
	}
}

func notRun(ctx context.Context) error {
	return fmt.Errorf("kv: the transaction was not run: %w", context.Cause(ctx))
}
