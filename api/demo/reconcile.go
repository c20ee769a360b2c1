package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// How often what was left behind is taken up, and from which age on a callback
// counts as missing.
const (
	resumeEvery    = 500 * time.Millisecond
	reconcileEvery = 300 * time.Millisecond
	missingAfter   = 2 * time.Second
)

// resume pursues orders that were left: by a client that went away, or by a
// shop that was stopped.
func (s *shop) resume(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for ctx.Err() == nil {
		for _, id := range s.left(50) {
			work.Go(func() {
				waiting, cancel := context.WithTimeout(ctx, outcomeWait)
				defer cancel()
				_, _ = s.pursue(waiting, id) // what is not settled then is left for the next round
			})
		}
		work.Wait()
		pause(ctx, resumeEvery)
	}
}

// reconciler reads what the gateway has done and brings each callback that did
// not come to the shop, the same way as the gateway would have.
type reconciler struct {
	gateway *gateway
	url     string // of the gateway
	shop    *shop
	client  *http.Client

	position int // all charges before it have been applied
}

func (r *reconciler) run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = r.round(ctx) // what fails is tried in the next round
		pause(ctx, reconcileEvery)
	}
}

func (r *reconciler) round(ctx context.Context) error {
	events, err := r.read(ctx)
	if err != nil {
		return err
	}
	advance := true
	now := r.shop.clock.Now()
	for _, e := range events {
		c := callbackOf(e)
		applied := r.shop.hasApplied(c.ID)
		if !applied && now.Sub(e.At) >= missingAfter {
			url, err := r.gateway.callbackURL(ctx)
			if err != nil {
				return err
			}
			if err := postCallback(ctx, r.client, url, c); err == nil {
				r.shop.stories.tell(e.Reference, "Reconciliation found the charge in the gateway's list.")
				applied = true
			}
		}
		if advance = advance && applied; advance {
			r.position++
		}
	}
	return nil
}

// read asks the gateway over HTTP, as a shop would.
func (r *reconciler) read(ctx context.Context) ([]entry, error) {
	url := fmt.Sprintf("%s/events?after=%d", r.url, r.position)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	defer drain(resp.Body)
	var events []entry
	return events, json.NewDecoder(resp.Body).Decode(&events)
}

func (s *shop) hasApplied(event string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied[event]
}
