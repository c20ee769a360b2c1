package timer

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"onced/kv"
)

// Handler says what happens when a timer of a kind is due. Exactly one of Tx and
// Outside is set.
type Handler struct {
	// Tx runs in the transaction that removes the timer: both commit, or neither.
	// It may run more than once and must touch nothing outside w. It should be
	// quick: it holds the store's writer. Up to Batch timers share a transaction;
	// when one of them fails, each is done again in its own.
	Tx func(ctx context.Context, w kv.Writer, t Timer) error

	// Outside runs in no transaction, on one of Workers goroutines, at least once
	// per timer and never twice at a time for one. It removes the timer itself,
	// with [Runner.Delete] in the transaction that records what it did; or it
	// returns nil, and the runner removes it. When it returns because ctx ended,
	// the timer stays.
	Outside func(ctx context.Context, t Timer) error

	// Batch is how many timers are taken at a time; 0 means 100, the most is 1000.
	Batch int
	// Workers bounds the calls of Outside under way; 0 means 16.
	Workers int
}

// Config are the settings of a Runner; the zero value is usable.
type Config struct {
	// Clock is the store's clock; nil means kv.SystemClock(). It only shortens
	// sleep when the clock jumps ahead; what is due is decided by the store's
	// instants.
	Clock kv.Clock
	// Backoff is how long a timer waits after its attempt-th failure in a row; nil
	// means 1 s doubled each time up to 5 min. It waits until 2262 at most.
	Backoff func(attempt int) time.Duration
	// OnError is told of every failure of a handler, after the timer was moved; t
	// is the timer before the failure, err the handler's error as it is, or a
	// [*PanicError]. It may be called from several goroutines.
	OnError func(t Timer, err error)
	// Describe chooses the text of a failure that is kept in [Timer.LastError]
	// and logged, cut to MaxErrorText bytes. The text of an error may hold a
	// secret, such as an address with a password; so nil keeps the type of the
	// error only, and the text of the errors of package kv. It must be quick and
	// may be called from several goroutines.
	Describe func(err error) string
	// Logger gets failures, unknown kinds and rows that cannot be read; nil
	// discards them.
	Logger *slog.Logger
	// Rand tells the settings of one Runner from another's; nil means
	// crypto/rand.Reader. It must not repeat itself after a restart.
	Rand io.Reader
}

// Runner fires the timers of one store. Its methods are safe for concurrent use.
type Runner struct {
	store  kv.Store
	cfg    Config
	origin func() (uint64, error) // where the marks of this Runner begin
	sets   atomic.Uint64

	mu      sync.RWMutex
	lanes   map[string]*lane
	started bool
	told    map[string]struct{} // keys of damaged rows that were logged
}

// New returns a runner for the store. Register handlers, then call Run.
func New(s kv.Store, cfg Config) *Runner {
	if cfg.Clock == nil {
		cfg.Clock = kv.SystemClock()
	}
	if cfg.Backoff == nil {
		cfg.Backoff = defaultBackoff
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Describe == nil {
		cfg.Describe = describe
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	origin := sync.OnceValues(func() (uint64, error) {
		var b [8]byte
		if _, err := io.ReadFull(cfg.Rand, b[:]); err != nil {
			return 0, fmt.Errorf("timer: Config.Rand: %w", err)
		}
		return binary.BigEndian.Uint64(b[:]), nil
	})
	return &Runner{store: s, cfg: cfg, origin: origin, lanes: map[string]*lane{},
		told: map[string]struct{}{}}
}

func defaultBackoff(attempt int) time.Duration {
	const first, most = time.Second, 5 * time.Minute
	if attempt > 9 { // 2^9 s is above the bound
		return most
	}
	return min(first<<max(attempt-1, 0), most)
}

// Handle registers the handler of a kind, before Run. It returns an error when
// the kind has a handler, when Run was called, or when h is not well formed.
func (r *Runner) Handle(kind string, h Handler) error {
	if err := (Timer{Kind: kind, Owner: "-", Due: minDue}).check(); err != nil {
		return err
	}
	if (h.Tx == nil) == (h.Outside == nil) {
		return fmt.Errorf("timer: the handler of %q needs exactly one of Tx and Outside", kind)
	}
	if h.Batch <= 0 {
		h.Batch = 100
	}
	h.Batch = min(h.Batch, 1000)
	if h.Workers <= 0 {
		h.Workers = 16
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.started:
		return fmt.Errorf("timer: the handler of %q comes after Run; register it before", kind)
	case r.lanes[kind] != nil:
		return fmt.Errorf("timer: %q has a handler already; one kind has one", kind)
	}
	r.lanes[kind] = newLane(r, kind, h)
	return nil
}

var errGoexit = errors.New("timer: a handler ended its goroutine; return an error instead")

// Run fires timers until ctx ends and then returns nil, after the handlers under
// way have returned. It sleeps until the earliest due time, or until a commit
// sets an earlier one. It returns an error when the store is closed or takes no
// more writes; other errors of the store are logged and tried again.
func (r *Runner) Run(ctx context.Context) error {
	r.mu.Lock()
	if r.started {
		r.mu.Unlock()
		return errors.New("timer: Run was called before; a Runner runs once")
	}
	r.started = true
	var runs []func(context.Context) error
	for _, l := range r.lanes {
		runs = append(runs, l.run)
	}
	idle := len(runs) == 0
	r.mu.Unlock()

	if err := r.survey(ctx); err != nil {
		runs = append(runs, func(ctx context.Context) error { return r.surveyAgain(ctx, err) })
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make(chan error, len(runs))
	for _, run := range runs {
		go func() {
			err := errGoexit // what is left when a handler calls runtime.Goexit
			defer func() { ends <- err }()
			err = run(ctx)
		}()
	}
	var errs []error
	for range runs {
		if err := <-ends; err != nil {
			errs = append(errs, err)
			cancel()
		}
	}
	if idle {
		<-ctx.Done()
	}
	return errors.Join(errs...)
}

// Wake makes every kind look at the store now, for example after rows were
// written by other means, or after a test has moved its clock.
func (r *Runner) Wake() {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, l := range r.lanes {
		l.notify(time.Time{})
	}
}

// survey logs what is there and fires for nobody.
func (r *Runner) survey(ctx context.Context) error {
	kinds, damaged, err := r.unknown(ctx)
	if len(kinds) > 0 {
		r.cfg.Logger.Warn("timers of kinds without a handler are left alone", "kinds", kinds)
	}
	for _, d := range damaged {
		r.damaged(d)
	}
	return err
}

// surveyAgain is survey after it ended with err, until it succeeds.
func (r *Runner) surveyAgain(ctx context.Context, err error) error {
	for pause := storePause; err != nil && ctx.Err() == nil; err = r.survey(ctx) {
		if err := r.await(ctx, err, &pause); err != nil {
			return fmt.Errorf("timer: %w", err)
		}
	}
	return nil
}

// Unknown lists kinds that have timers but no handler, at most 100. Their timers
// are kept: a newer or older version of the program may know them. A row whose
// key names no kind is left out; [List] has it.
func (r *Runner) Unknown(ctx context.Context) (kinds []string, err error) {
	kinds, _, err = r.unknown(ctx)
	return kinds, err
}

// maxTold bounds what is told of kinds and of damaged rows.
const maxTold = 100

// unknown returns the kinds without a handler, and keys that name no kind at all.
func (r *Runner) unknown(ctx context.Context) (kinds []string, damaged []*DamagedError, err error) {
	err = r.store.View(ctx, func(rd kv.Reader) error {
		var unknown []string
		var bad []*DamagedError
		rg := kv.Range{Limit: 1}
		for len(unknown) < maxTold && len(bad) < maxTold {
			first, err := firstKey(rd, rg)
			if err != nil {
				return err
			}
			if first == nil {
				break
			}
			t, err := decode(first, row{})
			if err != nil {
				bad = append(bad, &DamagedError{Key: first, Err: err})
				rg.From = after(first)
				continue
			}
			if r.lane(t.Kind) == nil {
				unknown = append(unknown, t.Kind)
			}
			rg.From = kv.Key{}.String(t.Kind).Range().To
		}
		kinds, damaged = unknown, bad
		return nil
	})
	return kinds, damaged, err
}

// firstKey returns the first key of a range, nil when it is empty.
func firstKey(rd kv.Reader, rg kv.Range) (key []byte, err error) {
	for e, err := range rd.Scan(dueTable.ID(), rg) {
		return e.Key, err
	}
	return nil, nil
}

// after returns the least key behind key.
func after(key []byte) []byte { return append(slices.Clip(key), 0) }

func (r *Runner) lane(kind string) *lane {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.lanes[kind]
}

// mark tells one setting of an identity from a later one, which may come during
// the call for the first; the later one must not be removed with it. So no two
// settings have the same mark, whichever Runner and process made them: a Runner
// counts from a random origin. (A count from 1 would meet the marks of the
// process before; so would a count in the old row, which may be deleted first.)
// Without a Runner the instant has to do: the first setting was committed and
// seen before its call, so the later one has another.
func (r *Runner) mark(w kv.Writer) (uint64, error) {
	if r == nil {
		return uint64(w.Now().UnixNano()), nil
	}
	origin, err := r.origin()
	return origin + r.sets.Add(1), err
}

func (r *Runner) wakeAfter(w kv.Writer, kind string, due time.Time) {
	if r == nil {
		return
	}
	if l := r.lane(kind); l != nil {
		w.OnCommit(func() { l.notify(due) })
	}
}

// failed reports a failure whose timer was moved.
func (r *Runner) failed(f *failure, next time.Time) {
	r.cfg.Logger.Error("timer handler failed", "kind", f.t.Kind, "owner", f.t.Owner,
		"attempt", f.t.Attempts+1, "next_try", next, "error", f.text)
	if r.cfg.OnError != nil {
		r.cfg.OnError(f.t, f.err)
	}
}

// damaged logs a damaged row once, and no more than maxTold of them.
func (r *Runner) damaged(err *DamagedError) {
	r.mu.Lock()
	_, told := r.told[string(err.Key)]
	if told = told || len(r.told) >= maxTold; !told {
		r.told[string(err.Key)] = struct{}{}
	}
	r.mu.Unlock()
	if !told {
		r.cfg.Logger.Error("a timer cannot be read and does not fire", "error", err)
	}
}
