package timer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// means 1 s doubled each time up to 5 min.
	Backoff func(attempt int) time.Duration
	// OnError is told of every failure of a handler, after the timer was moved; t
	// is the timer before the failure. It may be called from several goroutines.
	OnError func(t Timer, err error)
	// Logger gets failures and unknown kinds; nil discards them.
	Logger *slog.Logger
}

// Runner fires the timers of one store. Its methods are safe for concurrent use.
type Runner struct {
	store kv.Store
	cfg   Config
	sets  atomic.Uint64

	mu      sync.RWMutex
	lanes   map[string]*lane
	started bool
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
	return &Runner{store: s, cfg: cfg, lanes: map[string]*lane{}}
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
	lanes := make([]*lane, 0, len(r.lanes))
	for _, l := range r.lanes {
		lanes = append(lanes, l)
	}
	r.mu.Unlock()

	if kinds, err := r.Unknown(ctx); err != nil && ctx.Err() == nil {
		return err
	} else if len(kinds) > 0 {
		r.cfg.Logger.Warn("timers of kinds without a handler are left alone", "kinds", kinds)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make(chan error, len(lanes))
	for _, l := range lanes {
		go func() {
			err := errGoexit // what is left when a handler calls runtime.Goexit
			defer func() { ends <- err }()
			err = l.run(ctx)
		}()
	}
	if len(lanes) == 0 {
		<-ctx.Done()
	}
	var errs []error
	for range lanes {
		if err := <-ends; err != nil {
			errs = append(errs, err)
			cancel()
		}
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

// Unknown lists kinds that have timers but no handler, at most 100. Their timers
// are kept: a newer or older version of the program may know them.
func (r *Runner) Unknown(ctx context.Context) (kinds []string, err error) {
	err = r.store.View(ctx, func(rd kv.Reader) error {
		var got []string
		rg := kv.Range{Limit: 1}
		for len(got) < 100 {
			kind, ok, err := firstKind(rd, rg)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if r.lane(kind) == nil {
				got = append(got, kind)
			}
			rg.From = kv.Key{}.String(kind).Range().To
		}
		kinds = got
		return nil
	})
	return kinds, err
}

func firstKind(rd kv.Reader, rg kv.Range) (kind string, ok bool, err error) {
	for e, err := range rd.Scan(dueTable.ID(), rg) {
		if err != nil {
			return "", false, err
		}
		t, err := decode(e.Key, row{})
		return t.Kind, err == nil, err
	}
	return "", false, nil
}

func (r *Runner) lane(kind string) *lane {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.lanes[kind]
}

func (r *Runner) nextSet() uint64 {
	if r == nil {
		return 0
	}
	return r.sets.Add(1)
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
func (r *Runner) failed(t Timer, err error, next time.Time) {
	r.cfg.Logger.Error("timer handler failed", "kind", t.Kind, "owner", t.Owner,
		"attempt", t.Attempts+1, "next_try", next, "error", err)
	if r.cfg.OnError != nil {
		r.cfg.OnError(t, err)
	}
}
