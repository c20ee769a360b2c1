package saga

import (
	"bufio"
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
	"onced/kv/feed"
	"onced/kv/timer"
	"onced/saga/machine"
)

// Config are the settings of an [Engine]. Timers and Feed are required.
type Config struct {
	// Timers wakes runs. Its Run is the caller's to call; the engine registers its
	// handler, so it must be made before that.
	Timers *timer.Runner
	// Feed gets the ends of runs, what waits for a person, and the acts of persons.
	Feed *feed.Feed
	// Clock is the store's clock; nil means kv.SystemClock(). It only times calls, and tells
	// that it was set back since an earlier process.
	Clock kv.Clock
	// Rand makes ids and spreads pauses; nil means crypto/rand.Reader.
	Rand io.Reader
	// Logger gets what no run can keep; nil discards it.
	Logger *slog.Logger
	// Observer is told of calls and changes; nil is nobody.
	Observer Observer
	// Tracer makes a span of every call; nil makes none.
	Tracer Tracer

	// Restored is when the store was restored from a copy; zero is never. For as long
	// as callees know the keys of the time that was lost, the first send of a step with
	// a [Check] is then preceded by its look-up.
	Restored time.Time

	// Calls bounds the calls under way at a time; 0 means 256. PerDefinition bounds
	// those of one definition; 0 means Calls. PerHost bounds those of one [Host]; 0 means
	// three quarters of Calls, so that a host that hangs leaves room for the others.
	Calls, PerDefinition, PerHost int
	// Drain is how long calls under way may take when Serve ends; 0 means 20 s. Then
	// their contexts end, and what does not answer is unknown at the next start.
	Drain time.Duration
	// Retention is how long a run is kept after its end; 0 means 30 days. What is
	// known of its business key is kept for ever.
	Retention time.Duration
	// History is how many entries of a run's history are kept, the first quarter and
	// the last three; 0 means 64.
	History int
}

// Engine runs sagas on a store. Make one per store and process. It is safe for
// concurrent use.
type Engine struct {
	store kv.Store
	cfg   Config
	epoch uint64
	// opened is an instant of this epoch. When it lies before the last change of a run of
	// an older one, the clock was set back.
	opened time.Time
	slots  *slots

	randMu sync.Mutex
	rand   *bufio.Reader

	mu      sync.Mutex
	defs    map[defID]*registered
	latest  map[string]*registered
	drivers map[string]*driver   // runs that are worked on, or wait for a slot
	waiters map[string][]waiting // for what their runs come to
	astray  map[place]int        // functions that go on past their time
	commits expectations         // that are to come
	asked   uint64               // how often a look for runs that have a definition now was asked for
	looking bool                 // there is somebody who looks for them

	serving  atomic.Bool
	draining atomic.Bool
	drains   chan struct{}  // closed when it does
	work     sync.WaitGroup // drivers with a slot; Add under mu, never after draining
	calls    context.Context
	stop     context.CancelFunc // ends the calls
}

type defID struct{ name, version string }

// registered is a definition as the engine uses it.
type registered struct {
	*Definition
	m *machine.Def
}

// timerKind is the kind of the timers of runs.
const timerKind = "saga.wake"

// NewEngine returns an engine over the store. Register the definitions, then call
// Serve; runs can be started before. It fails when the configuration is not
// complete, or the store cannot tell one process from the next.
func NewEngine(s kv.Store, cfg Config) (*Engine, error) {
	if cfg.Timers == nil || cfg.Feed == nil {
		return nil, &ConfigError{Operation: "engine", Field: "Timers and Feed", Problem: "are required"}
	}
	if s.Epoch() == 0 {
		return nil, &ConfigError{Operation: "engine", Field: "store",
			Problem: "has no epochs; use one that a single process holds at a time"}
	}
	e := &Engine{store: s, cfg: cfg, epoch: s.Epoch(), drains: make(chan struct{}),
		defs: map[defID]*registered{}, latest: map[string]*registered{}, drivers: map[string]*driver{},
		waiters: map[string][]waiting{}, astray: map[place]int{}}
	c := &e.cfg
	if c.Clock == nil {
		c.Clock = kv.SystemClock()
	}
	e.opened = c.Clock.Now()
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observer == nil {
		c.Observer = nobody{}
	}
	for _, d := range []struct {
		set *int
		to  int
	}{{&c.Calls, 256}, {&c.History, 64}} {
		if *d.set <= 0 {
			*d.set = d.to
		}
	}
	for _, d := range []struct {
		set *time.Duration
		to  time.Duration
	}{{&c.Drain, 20 * time.Second}, {&c.Retention, 30 * 24 * time.Hour}} {
		if *d.set <= 0 {
			*d.set = d.to
		}
	}
	e.rand = bufio.NewReader(c.Rand)
	e.slots = newSlots(c.Calls, c.PerDefinition, c.PerHost)
	e.calls, e.stop = context.WithCancel(context.Background())
	return e, c.Timers.Handle(timerKind, timer.Handler{Tx: e.wake})
}

// Register makes definitions known. It may be called at any time. Runs of a
// definition that is not known are held when their turn comes, and go on by
// themselves when it is registered; so register all versions that have open runs
// before Serve, and nobody is told that they are held. Of one name the last registered
// that is not [Definition.Superseded] is the one that new runs use. The same version
// again replaces the functions and options; with other steps it is a [ConfigError].
func (e *Engine) Register(defs ...*Definition) error {
	for _, d := range defs {
		if d == nil {
			return &ConfigError{Operation: "engine", Field: "definition", Problem: "is nil"}
		}
		if err := d.Err(); err != nil {
			return err
		}
	}
	if err := e.take(defs); err != nil {
		return err
	}
	e.releaseHeld()
	return nil
}

// take makes the definitions known, all or none.
func (e *Engine) take(defs []*Definition) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range defs {
		old := e.defs[defID{d.name, d.version}]
		if old != nil && !slices.Equal(old.StepNames(), d.StepNames()) {
			return &ConfigError{Operation: d.name, Field: "version", Problem: "\"" + d.version +
				"\" is registered with other steps, which its runs are at; give the new steps a new version"}
		}
	}
	for _, d := range defs {
		r := &registered{Definition: d, m: d.machineDef()}
		r.m.Restored = e.cfg.Restored
		e.defs[defID{d.name, d.version}] = r
		if !d.superseded {
			e.latest[d.name] = r
		}
	}
	return nil
}

// Definitions returns those registered last under their names.
func (e *Engine) Definitions() []*Definition {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*Definition, 0, len(e.latest))
	for _, r := range e.latest {
		out = append(out, r.Definition)
	}
	return out
}

// definition returns the one that the run keeps to, or an error that says what is
// wrong with it.
func (e *Engine) definition(r *run) (*registered, error) {
	e.mu.Lock()
	d := e.defs[defID{r.def, r.version}]
	e.mu.Unlock()
	if d == nil {
		return nil, fmt.Errorf("definition %s version %s is not registered; register it, and the run goes "+
			"on by itself", r.def, r.version)
	}
	if err := d.m.Match(&r.state); err != nil {
		return nil, fmt.Errorf("definition %[1]s version %[2]s has other steps than the run: %[3]w; give "+
			"the new steps a new version and register the old ones as version %[2]s, and the run goes on "+
			"by itself", r.def, r.version, err)
	}
	return d, nil
}

// Serve works on the runs until ctx ends. It first takes up what an earlier process
// left, while new runs start already, and warns Config.Logger of definitions that runs
// need and that are missing or have other steps. Then it drains: no call begins, those
// under way may end within Config.Drain. It returns an error when it is called twice.
func (e *Engine) Serve(ctx context.Context) error {
	if e.serving.Swap(true) {
		return errors.New("saga: Serve was called before; an Engine serves once")
	}
	e.slots.open()
	e.resume(ctx, classDue, classHeld)
	e.warnOfMissing(ctx)
	<-ctx.Done()
	e.drain()
	return nil
}

// drain waits for the calls under way.
func (e *Engine) drain() {
	e.mu.Lock()
	if !e.draining.Swap(true) {
		close(e.drains)
	}
	e.mu.Unlock()
	e.slots.shut()
	done := make(chan struct{})
	go func() { e.work.Wait(); close(done) }()
	limit := time.NewTimer(e.cfg.Drain)
	defer limit.Stop()
	select {
	case <-done:
		e.stop()
		return
	case <-limit.C:
	}
	e.stop()
	limit.Reset(abandonAfter + time.Second)
	select {
	case <-done:
	case <-limit.C:
		e.cfg.Logger.Warn("calls of sagas do not end; their outcome is unknown at the next start")
	}
}

// random draws what spreads a pause.
func (e *Engine) random() uint32 {
	e.randMu.Lock()
	defer e.randMu.Unlock()
	b, err := e.rand.Peek(4)
	if err != nil {
		e.cfg.Logger.Error("saga: no randomness", "error", err)
		return 0
	}
	n := binary.LittleEndian.Uint32(b)
	_, _ = e.rand.Discard(len(b)) // they are there
	return n
}

// resumePage is how many runs one View of the resumption reads.
const resumePage = 500

// resume takes up the runs for which a call is due or was under way, and those that
// were held for want of a definition that is there now.
func (e *Engine) resume(ctx context.Context, classes ...class) {
	for _, c := range classes {
		for {
			err := e.resumeClass(ctx, c)
			if err == nil || ctx.Err() != nil || e.draining.Load() {
				break
			}
			e.cfg.Logger.Error("saga: the open runs cannot be read; trying again", "error", err)
			e.pause(ctx, time.Second)
		}
	}
}

// defined releases the run if its definition was registered while it was being held.
func (e *Engine) defined(r *run) {
	if _, err := e.definition(r); err == nil {
		e.releaseHeld()
	}
}

// releaseHeld lets runs go on that were held for want of a definition that is there
// now. It does not wait for them, and does nothing before Serve, which does the same.
func (e *Engine) releaseHeld() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	if e.looking || !e.serving.Load() || e.draining.Load() {
		return
	}
	e.looking = true
	e.work.Add(1)
	go e.lookForHeld()
}

// lookForHeld looks until nobody has asked for it meanwhile.
func (e *Engine) lookForHeld() {
	defer e.work.Done()
	for {
		e.mu.Lock()
		asked := e.asked
		e.mu.Unlock()
		e.resume(e.calls, classHeld)
		e.mu.Lock()
		if e.asked == asked || e.draining.Load() {
			e.looking = false
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
	}
}

func (e *Engine) resumeClass(ctx context.Context, c class) error {
	r := kv.Key{}.Uint(uint64(c)).Range()
	r.Limit = resumePage
	for {
		page, err := e.openPage(ctx, r)
		if err != nil {
			return err
		}
		for _, o := range page {
			if c == classDue {
				e.enqueue(o.id, slot{def: o.def, host: o.host})
			} else if o.released {
				e.release(o.id)
			}
		}
		if len(page) < resumePage || e.draining.Load() {
			return nil
		}
		r.From = append(openKey(c, page[len(page)-1].id), 0)
	}
}

// pause waits, and reports that ctx has not ended.
func (e *Engine) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
