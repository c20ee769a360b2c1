package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"onced/kv"
)

// server is one address and what answers there.
type server struct {
	name     string
	listener net.Listener
	http     *http.Server
	handler  *deadlines
	app      *App
}

// afterCut is how long requests that were cut off may take to notice.
const afterCut = 2 * time.Second

// newServer makes a server with every limit set. WriteTimeout stays 0, for it
// would bound the whole request, waiting included; each write is bounded instead.
func newServer(name string, l net.Listener, h http.Handler, a *App) *server {
	c := a.o.Loaded.Config.HTTP
	d := &deadlines{next: h, write: c.WriteTimeout, clock: a.o.Clock}
	return &server{
		name: name, listener: limitListener(l, c.MaxConnections), handler: d, app: a,
		http: &http.Server{
			Handler:           d,
			ReadHeaderTimeout: c.HeaderTimeout,
			ReadTimeout:       c.ReadTimeout,
			IdleTimeout:       c.IdleTimeout,
			MaxHeaderBytes:    int(c.MaxHeader),
			BaseContext:       func(net.Listener) context.Context { return a.work },
			ErrorLog:          slog.NewLogLogger(a.o.Logger.Handler(), slog.LevelDebug),
		},
	}
}

// run serves until ctx ends, then drains.
func (s *server) run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- s.http.Serve(s.listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	if err := s.http.Shutdown(s.app.drain); err != nil {
		if n := s.handler.active(); n > 0 {
			s.app.o.Logger.Warn("requests were cut off; what they had sent counts as unknown",
				"server", s.name, "requests", n)
		}
		s.app.cut()
		_ = s.http.Close()
		s.handler.waitIdle(afterCut)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// deadlines bounds how long each write of an answer may take, whatever the
// handler does meanwhile, and counts the requests.
type deadlines struct {
	next  http.Handler
	write time.Duration
	clock kv.Clock

	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when running becomes 0; nil while nobody waits
}

// active is the number of handlers that run.
func (d *deadlines) active() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running
}

func (d *deadlines) count(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running += n
	if d.running == 0 && d.idle != nil {
		close(d.idle)
		d.idle = nil
	}
}

// waitIdle waits until no handler runs, but not longer than limit.
func (d *deadlines) waitIdle(limit time.Duration) {
	idle := make(chan struct{})
	d.mu.Lock()
	if d.running == 0 {
		close(idle)
	} else {
		d.idle = idle
	}
	d.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// ServeHTTP serves one request.
func (d *deadlines) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.count(1)
	defer d.count(-1)
	tw := &timedWriter{ResponseWriter: w, rc: *http.NewResponseController(w), limit: d.write, clock: d.clock}
	// After the handler the server writes what is still buffered. The deadline of
	// the last write may have passed by then.
	defer tw.arm()
	d.next.ServeHTTP(tw, r)
}

// timedWriter gives each write a deadline of its own, so that a stream may go on
// for hours and a client that stopped reading holds nothing.
type timedWriter struct {
	http.ResponseWriter
	rc    http.ResponseController
	limit time.Duration
	clock kv.Clock
	armed time.Time
}

// arm gives the next write its time, or leaves it what another gave it a moment
// ago: most answers are written at once.
func (w *timedWriter) arm() {
	now := w.clock.Now()
	if !w.armed.IsZero() && now.Sub(w.armed) < w.limit/16 {
		return
	}
	w.armed = now
	_ = w.rc.SetWriteDeadline(now.Add(w.limit))
}

// WriteHeader sends an informational header. A final one leaves with the first part of
// the body, or after the handler.
func (w *timedWriter) WriteHeader(status int) {
	if status < http.StatusOK {
		w.arm()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (w *timedWriter) Write(p []byte) (int, error) {
	w.arm()
	return w.ResponseWriter.Write(p)
}

// FlushError sends what is buffered.
func (w *timedWriter) FlushError() error {
	w.arm()
	return w.rc.Flush()
}

// Flush sends what is buffered.
func (w *timedWriter) Flush() { _ = w.FlushError() }

// Unwrap gives http.ResponseController the writer below.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// limitListener bounds the open connections. Above the limit new ones wait in
// the queue of the system.
func limitListener(l net.Listener, most int) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, most), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

// Accept waits for a free slot, and then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, free: func() { <-l.slots }}, nil
}

// Close closes the listener and ends a waiting Accept.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	free func()
	once sync.Once
}

// Close closes the connection and frees its slot.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.free)
	return err
}
