package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"onced/api/config"
	"onced/api/metrics"
	"onced/api/trace"
	"onced/kv"
	"onced/kv/boltkv"
)

// storeFile is the store's file in the data folder.
const storeFile = "onced.db"

// Options are what a process is made from. Loaded is required.
type Options struct {
	Loaded *config.Loaded
	// Load reads the configuration again for a reload; nil refuses reloads.
	Load func() (*config.Loaded, error)
	// Version is the program's, for people.
	Version string
	// Clock is the one clock; nil means the system's.
	Clock kv.Clock
	// Rand makes tokens and ids; nil means crypto/rand.Reader.
	Rand io.Reader
	// Logger gets the log; nil discards it. Level is what its handler asks for
	// the level, which a reload changes; nil keeps it.
	Logger *slog.Logger
	Level  *slog.LevelVar
	// Notice gets what a person should read at the start: the URL, the folder of
	// the data and, once, the first token. Nil discards it.
	Notice io.Writer
	// Listen opens an address; nil means TCP. It is for tests.
	Listen func(ctx context.Context, addr string) (net.Listener, error)
	// After makes the timer of http.drain_delay; nil means time.After. It is for
	// tests.
	After func(time.Duration) <-chan time.Time
	// Wrap is put around the handler of every address; nil adds nothing. It is
	// for tests that hold a request.
	Wrap func(http.Handler) http.Handler
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = kv.SystemClock()
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = slog.New(requestIDs{Handler: o.Logger.Handler()})
	if o.Level == nil {
		o.Level = new(slog.LevelVar)
	}
	if o.Notice == nil {
		o.Notice = io.Discard
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Listen == nil {
		o.Listen = func(ctx context.Context, addr string) (net.Listener, error) {
			var lc net.ListenConfig
			return lc.Listen(ctx, "tcp", addr)
		}
	}
	return o
}

// App is a process that has been put together. Its methods are safe for
// concurrent use.
type App struct {
	o       Options
	config  atomic.Pointer[config.Config] // in force now
	store   *boltkv.Store
	isNew   bool // the store was made by this start
	parts   *parts
	health  *health
	metrics *metrics.Metrics
	tracer  *trace.Tracer // nil means that there are no spans
	servers []*server
	group   group

	listeners []namedListener

	// work ends when the time to drain is over. What goes on when its client has
	// gone lives in it.
	work context.Context
	cut  context.CancelFunc
	// drain is the time to drain, once it has begun.
	drain     context.Context
	stopDrain context.CancelFunc
	draining  chan struct{} // closed when it has begun
	// sagasRun ends when no run goes on any more, and with it the wait of requests that
	// asked for one (Prefer: wait): what they wait for comes after the next start.
	sagasRun context.Context
	sagasEnd context.CancelFunc

	reloading sync.Mutex
	closeOnce sync.Once
	closeErr  error
}

// New opens the store and the addresses and puts everything together; nothing
// runs yet, but connections are already queued. Errors: [kv.ErrLocked],
// [kv.ErrNewer], [kv.ErrForeign], [kv.ErrCorrupt], those of the addresses.
func New(ctx context.Context, o Options) (_ *App, err error) {
	o = o.withDefaults()
	definitions, err := readDefinitions(o.Loaded)
	if err != nil {
		return nil, err
	}
	a := &App{o: o, draining: make(chan struct{})}
	a.work, a.cut = context.WithCancel(context.WithoutCancel(ctx))
	a.sagasRun, a.sagasEnd = context.WithCancel(a.work)
	a.config.Store(o.Loaded.Config)
	defer func() {
		if err != nil {
			_ = a.Close()
		}
	}()
	a.metrics = newMetrics(o)
	if a.tracer, err = newTracer(o); err != nil {
		return nil, err
	}
	a.isNew = isNoStore(o)
	if a.store, err = openStore(ctx, o, a.onCommit); err != nil {
		return nil, err
	}
	a.watchStore()
	if a.parts, err = newParts(ctx, a, definitions); err != nil {
		return nil, err
	}
	a.health = &health{store: a.store, sagas: a.parts.sagas}
	if err = a.listen(ctx); err != nil {
		return nil, err
	}
	if err = a.parts.open(ctx, a); err != nil {
		return nil, err
	}
	a.addServers()
	a.addMembers()
	return a, nil
}

// listen opens every address. The order is that of the start.
func (a *App) listen(ctx context.Context) error {
	c := a.o.Loaded.Config
	for _, s := range []struct{ name, addr, key string }{
		{"metrics", c.Metrics.Listen, "metrics.listen"},
		{"api", c.Listen, "listen"},
	} {
		if s.addr == "" {
			continue
		}
		l, err := a.o.Listen(ctx, s.addr)
		if err != nil {
			return fmt.Errorf("app: listen on %s (%s, from %s): %w", s.addr, s.key, a.o.Loaded.Origin(s.key),
				err)
		}
		a.listeners = append(a.listeners, namedListener{Listener: l, name: s.name})
	}
	return nil
}

// namedListener is an address that is open.
type namedListener struct {
	net.Listener
	name string
}

// addServers puts what answers behind each address.
func (a *App) addServers() {
	for _, l := range a.listeners {
		h := a.parts.api
		if l.name == "metrics" {
			h = metricsServer(a.parts.metrics)
		}
		if a.o.Wrap != nil {
			h = a.o.Wrap(h)
		}
		a.servers = append(a.servers, newServer(l.name, l.Listener, h, a))
	}
}

// addMembers makes the group: what works in the background first, since it is
// stopped last. Sagas stop when the servers begin to, in the same time.
func (a *App) addMembers() {
	a.group.add("upkeep", a.upkeep)
	a.group.add("sagas", a.serveSagas)
	a.group.add("timers", a.parts.sagas.wake)
	for _, s := range a.servers {
		a.group.add("server "+s.name, s.run)
	}
	// The last to start is the first to stop: before any server stops, readiness
	// is off, whoever asks for it has had time to notice, and the time to drain,
	// which all share, has begun.
	a.group.add("readiness", func(ctx context.Context) error {
		<-ctx.Done()
		a.health.draining.Store(true)
		delay, drain := a.o.Loaded.Config.HTTP.DrainDelay, a.o.Loaded.Config.HTTP.DrainTimeout
		a.o.Logger.Info("stopping", "drain_delay", delay.String(), "drain_timeout", drain.String())
		if delay > 0 {
			<-a.o.After(delay)
		}
		a.drain, a.stopDrain = context.WithTimeout(context.WithoutCancel(ctx), drain)
		close(a.draining)
		return nil
	})
}

// Addr is the address at which a server listens: api or metrics. It is
// nil when there is no such address.
func (a *App) Addr(name string) net.Addr {
	for _, l := range a.listeners {
		if l.name == name {
			return l.Addr()
		}
	}
	return nil
}

// Run works until ctx ends or a part fails, then stops all parts in order and
// closes the store. It may be called once.
func (a *App) Run(ctx context.Context) error {
	if err := a.announce(ctx); err != nil {
		return errors.Join(err, a.Close())
	}
	err := a.group.run(ctx)
	a.stopDrain()
	a.o.Logger.Info("stopped")
	return errors.Join(err, a.Close())
}

// Close releases the addresses and the store. Run does it itself; closing again
// is harmless.
func (a *App) Close() error {
	a.closeOnce.Do(func() {
		a.cut()
		a.flush()
		for _, l := range a.listeners {
			_ = l.Close() // Serve has closed it, when it ran
		}
		if a.store != nil {
			a.closeErr = a.store.Close()
		}
	})
	return a.closeErr
}
