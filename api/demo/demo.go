package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Run runs a demo until ctx ends or, with orders, until all of them came to an
// end or Config.Limit has passed. The error is ErrProof when the proof failed,
// ErrStopped when ctx ended before the orders, a [*PortError] when the port is
// taken, ErrFolder when the folder is, which is kv.ErrLocked too when another demo has it.
func Run(ctx context.Context, c Config) (err error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return err
	}
	if c.Data, err = filepath.Abs(c.Data); err != nil {
		return err
	}
	listeners, err := listen(ctx, c.Port)
	if err != nil {
		return err
	}
	defer closeAll(listeners)
	release, err := openFolder(c.Data)
	if err != nil {
		return err
	}
	defer release()
	if c.Data, err = booksFolder(c); err != nil {
		return err
	}
	if c.Orders > 0 { // a run by itself begins with empty books
		if err := emptyFolder(c.Data); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &demo{config: c, faults: c.Faults, ctx: ctx, failed: make(chan error, 1)}
	if d.pages, err = loadPages(); err != nil {
		return err
	}
	if err := d.start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	stop := d.serve(listeners) // before the service is there: who asks is answered 503
	defer stop()
	if err := d.awaitService(); err != nil {
		return err
	}
	url := fmt.Sprintf("http://localhost:%d", portOf(listeners[0]))
	if c.Ready != nil {
		c.Ready(url)
	}
	if c.Orders > 0 {
		return d.load(ctx, url)
	}
	d.invite(url)
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.failed:
		return err
	}
}

// demo is the process: one world after the other behind one port.
type demo struct {
	config Config
	faults Faults
	ctx    context.Context
	failed chan error
	pages  *pages

	mu    sync.RWMutex
	world *world // nil while a reset is under way, when it failed

	resetting sync.Mutex
	viewers   atomic.Int32
}

// start makes a world with the faults of the start.
func (d *demo) start() error {
	w, err := newWorld(d.ctx, d.config, d.faults)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.world = w
	d.mu.Unlock()
	go func() {
		select {
		case err := <-w.failed:
			select {
			case d.failed <- err:
			default:
			}
		case <-w.ctx.Done():
		}
	}()
	return nil
}

// awaitService waits until the service is there, or until it is clear that it
// will not come.
func (d *demo) awaitService() error {
	w := d.now()
	if w.service == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	up := make(chan struct{})
	go func() {
		defer close(up)
		for ctx.Err() == nil {
			if _, err := w.service.address(ctx); err == nil {
				return
			}
		}
	}()
	select {
	case <-up:
		return nil
	case err := <-d.failed:
		return err
	}
}

func (d *demo) now() *world {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.world
}

// end closes the world, if there is one.
func (d *demo) end() error {
	d.mu.Lock()
	w := d.world
	d.world = nil
	d.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.close()
}

// reset ends the world, empties the books and starts a new one with every
// switch off.
func (d *demo) reset() error {
	d.resetting.Lock()
	defer d.resetting.Unlock()
	if err := d.end(); err != nil {
		return err
	}
	if err := emptyFolder(d.config.Data); err != nil {
		return err
	}
	d.faults = Faults{}
	return d.start()
}

// lastWords is how long whoever asked may wait for an answer at the end.
const lastWords = 2 * time.Second

// serve answers at the port; stop ends that. A request that is under way while the
// service turns out not to start is answered first, with 503.
func (d *demo) serve(listeners []net.Listener) (stop func()) {
	srv := &http.Server{Handler: d.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		ReadTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10, ErrorLog: silent(),
		BaseContext: func(net.Listener) context.Context { return d.ctx }}
	var work sync.WaitGroup
	for _, l := range listeners {
		work.Go(func() { _ = srv.Serve(l) })
	}
	return func() {
		w := d.now()
		if w != nil && w.service != nil && w.service.hasFailed() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), lastWords)
			_ = srv.Shutdown(ctx)
			cancel()
		}
		_ = srv.Close()
		work.Wait()
	}
}

// invite says what to try.
func (d *demo) invite(url string) {
	against := "a checkout is four steps at four services, and onced runs it"
	if d.config.Unprotected {
		against = "WITHOUT onced: the shop calls the services itself"
	}
	_, _ = fmt.Fprintf(d.config.Stdout, `onced demo, no real money: %[2]s
%[1]s; data: %[3]s
%[4]s
Try to get an order charged twice:
  curl -X POST %[2]s/toggle/duplicate
  curl -X POST %[2]s/checkout -H 'Content-Type: application/json' -d '{"orderId":"ord_A"}'
  curl -X POST %[2]s/checkout -H 'Content-Type: application/json' -d '{"orderId":"ord_A"}'
  curl %[2]s/stats

Switches: POST /toggle/ and delay, lose, error, refuse, duplicate, drop, early, crash, keys or reset.
Try to get an order half done: curl -X POST %[2]s/toggle/refuse
All at once:   %[5]s --orders 1000 --clients 50 --faults all --seed 7
Without onced: %[5]s --orders 200 --unprotected
Ctrl-C ends it.
`, against, url, d.config.Data, continued(len(d.now().shop.snapshot()), url), cmp.Or(d.config.Command,
		"onced demo"))
}

// continued says which orders were there before.
func continued(orders int, url string) string {
	if orders == 0 {
		return ""
	}
	noun := "orders"
	if orders == 1 {
		noun = "order"
	}
	return fmt.Sprintf("continuing with %d %s of an earlier demo; reset with: curl -X POST %s/toggle/reset\n",
		orders, noun, url)
}

func portOf(l net.Listener) int {
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

// silent is the log of servers whose clients are cut off on purpose.
func silent() *log.Logger { return log.New(io.Discard, "", 0) }
