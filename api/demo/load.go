package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"onced/api/demo/callee"
)

// ErrStopped means that a run with orders was stopped before its end.
var ErrStopped = errors.New("demo: the run was stopped before its end")

// loadKills is about how often a run under load kills the service.
const loadKills = 24

// load places the orders, waits until all came to an end, and prints the proof.
func (d *demo) load(ctx context.Context, url string) error {
	limited, cancel := context.WithTimeout(ctx, d.config.Limit)
	defer cancel()
	began := d.config.Clock.Now()
	progress := newProgress(d, url)
	watching := make(chan error, 1)
	go func() {
		select {
		case err := <-d.failed:
			cancel()
			watching <- err
		case <-limited.Done():
			watching <- nil
		}
	}()
	done := make(chan struct{})
	var bar sync.WaitGroup
	bar.Go(func() { progress.run(done) })
	d.place(limited, url)
	d.settle(limited)
	close(done)
	bar.Wait()
	cancel()
	if err := <-watching; err != nil {
		return err
	}
	world := d.now()
	if world == nil {
		return errors.New("demo: the books were emptied during the run")
	}
	p, err := world.finalProof()
	if err != nil {
		return err
	}
	stopped := ctx.Err() != nil
	if stopped && !d.config.JSON {
		_, _ = fmt.Fprintf(d.config.Stdout, "stopped; the books so far:\n\n")
	}
	if err := report(d.config, p, d.config.Clock.Now().Sub(began)); err != nil {
		return err
	}
	if stopped {
		return ErrStopped
	}
	return p.verdict(d.config.Orders)
}

// place lets the clients place every order, like a shop's visitors.
func (d *demo) place(ctx context.Context, url string) {
	client := newClient()
	defer client.CloseIdleConnections()
	client.Timeout = outcomeWait + downWait + 5*time.Second
	var next atomic.Int64
	var clients sync.WaitGroup
	for range min(d.config.Clients, d.config.Orders) {
		clients.Go(func() {
			for {
				n := int(next.Add(1))
				if n > d.config.Orders || ctx.Err() != nil {
					return
				}
				d.armNow(n)
				visit(ctx, client, url, fmt.Sprintf("ord_%05d", n))
			}
		})
	}
	clients.Wait()
}

// armNow arms the next crash when its order comes.
func (d *demo) armNow(n int) {
	every := max(3, d.config.Orders/loadKills)
	if !d.config.Faults.Crash || n%every != every/2 {
		return
	}
	if w := d.now(); w != nil {
		_, _ = w.toggles.flip("crash", "on", "")
	}
}

// patience is how often a visitor asks for the same order, at most.
const patience = 4

// visit places one order, and again while it is pending: impatient, as people are.
func visit(ctx context.Context, client *http.Client, url, id string) {
	body, err := json.Marshal(map[string]string{"orderId": id})
	if err != nil {
		return
	}
	for range patience {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/checkout", bytes.NewReader(body))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err == nil {
			drain(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPaymentRequired {
				return
			}
		}
		callee.Pause(ctx, askAgain)
		if ctx.Err() != nil {
			return
		}
	}
}

// settle waits until no order is pending.
func (d *demo) settle(ctx context.Context) {
	for ctx.Err() == nil {
		if w := d.now(); w != nil && w.atRest() {
			return
		}
		callee.Pause(ctx, 100*time.Millisecond)
	}
}

// atRest reports whether every order came to its end, or waits for a person, and no
// call is under way that could still do something, nor a callback.
func (w *world) atRest() bool {
	for _, o := range w.shop.snapshot() {
		if o.state() == statePending && o.needs == "" || o.active > 0 {
			return false
		}
	}
	return w.services.Idle()
}

// progress draws a bar on a terminal; elsewhere it says one line at the start.
type progress struct {
	demo *demo
	out  io.Writer
	live bool
}

func newProgress(d *demo, url string) *progress {
	_, _ = fmt.Fprintf(d.config.Stderr,
		"demo, no real money: %d orders by %d clients, seed %d; watch at %s\n",
		d.config.Orders, d.config.Clients, d.config.Seed, url)
	return &progress{demo: d, out: d.config.Stderr, live: d.config.Terminal}
}

const barWidth = 30

func killedWord(protected bool) string {
	if protected {
		return "killed"
	}
	return "cut off"
}

func (p *progress) run(done <-chan struct{}) {
	if !p.live {
		return
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		p.draw()
		select {
		case <-done:
			p.draw()
			_, _ = fmt.Fprintln(p.out)
			return
		case <-tick.C:
		}
	}
}

func (p *progress) draw() {
	w := p.demo.now()
	if w == nil {
		return
	}
	proof := w.proof()
	ended, of := proof.Paid+proof.Failed, p.demo.config.Orders
	full := min(barWidth, barWidth*ended/of)
	kills := 0
	for _, n := range proof.Kills {
		kills += n
	}
	_, _ = fmt.Fprintf(p.out, "\r[%s%s] %d/%d orders ended, %d charges, most on one %d, %s %s\x1b[K",
		bytes.Repeat([]byte("#"), full), bytes.Repeat([]byte("."), barWidth-full), ended, of,
		proof.RealCharges, proof.MostCharges, killedWord(proof.Protected), times(kills))
}
