package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"onced/api/demo/callee"
)

// naive carries orders out by itself: it calls the services one by one, again when
// that fails, and takes back what it knows of, as shops do that have no service
// between.
type naive struct {
	services string // the URL of the services
	own      string // its own
	client   *http.Client
	stories  *stories

	mu    sync.Mutex
	waits map[string]chan string // by order: what the callback said
}

// naiveTries is how often the naive shop tries, and naiveWait how long it waits for
// the callback.
const (
	naiveTries = 3
	naiveWait  = 4 * time.Second
)

// naivePath is where it takes callbacks.
const naivePath = "/shop/callbacks/"

func newNaive(base string, client *http.Client, st *stories) *naive {
	return &naive{services: base, own: base, client: client, stories: st, waits: map[string]chan string{}}
}

// The outcomes of a call of the naive shop.
const (
	itWorked  = "worked"
	itRefused = "refused"
	itFailed  = "failed"
)

// pay carries the order out.
func (n *naive) pay(ctx context.Context, c call) result {
	amount, err := price()
	if err != nil {
		return result{kind: gaveUp}
	}
	req := callee.Request{Order: c.id, Reference: callee.Reference(c.id, 1), Points: orderPoints,
		Voucher: orderVoucher, Amount: amount, CallbackURL: n.own + naivePath + c.id}
	said := n.await(c.id)
	undo := []string{}
	for _, step := range []struct{ path, undo string }{{callee.SpendPath, callee.ReturnPath},
		{callee.RedeemPath, callee.ReleasePath}, {callee.ChargesPath, callee.RefundsPath}} {
		switch n.try(ctx, step.path, req) {
		case itWorked:
			undo = append(undo, step.undo)
			continue
		case itRefused:
			n.takeBack(ctx, undo, req)
			return result{kind: declined}
		}
		n.takeBack(ctx, undo, req)
		return result{kind: gaveUp}
	}
	t := time.NewTimer(naiveWait)
	defer t.Stop()
	select {
	case how := <-said:
		switch how {
		case itWorked:
			return result{kind: accepted}
		case itRefused: // the card: there is no charge to refund
			n.takeBack(ctx, undo[:len(undo)-1], req)
			return result{kind: declined}
		}
		n.takeBack(ctx, undo, req) // the order service refused
		return result{kind: declined}
	case <-t.C:
	case <-ctx.Done():
	}
	n.stories.tell(c.id, "The shop waited for the callback in vain, and gave up.")
	return result{kind: gaveUp}
}

// takeBack undoes what the shop knows of, the last first.
func (n *naive) takeBack(ctx context.Context, undo []string, req callee.Request) {
	for _, u := range slices.Backward(undo) {
		n.try(ctx, u, req)
	}
}

// try calls a service until it answers, some times.
func (n *naive) try(ctx context.Context, path string, req callee.Request) string {
	for range naiveTries {
		if how := n.once(ctx, path, req); how != itFailed || ctx.Err() != nil {
			return how
		}
	}
	return itFailed
}

func (n *naive) once(ctx context.Context, path string, body callee.Request) string {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return itFailed
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.services+path, bytes.NewReader(text))
	if err != nil {
		return itFailed
	}
	req.Header.Set("Content-Type", "application/json")
	req.GetBody = nil
	resp, err := n.client.Do(req)
	if err != nil {
		return itFailed
	}
	defer func() { _ = resp.Body.Close() }()
	defer drain(resp.Body)
	switch resp.StatusCode / 100 {
	case 2:
		return itWorked
	case 4:
		return itRefused
	}
	return itFailed
}

// await is told what the callback of an order leads to.
func (n *naive) await(order string) <-chan string {
	n.mu.Lock()
	defer n.mu.Unlock()
	said := make(chan string, 1)
	n.waits[order] = said
	return said
}

// callback takes what the gateway says. For each good word it has the order made.
func (n *naive) callback(w http.ResponseWriter, r *http.Request) {
	order := r.PathValue("order")
	var a callee.Answer
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&a); err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "not JSON"})
		return
	}
	how := itRefused
	if a.Status == callee.StatusDone {
		how = n.try(r.Context(), callee.OrdersPath, callee.Request{Order: order,
			Reference: callee.Reference(order, 1), Charge: a.ID})
		if how == itRefused {
			how = itFailed // of the order, not of the card
		}
	}
	n.mu.Lock()
	said := n.waits[order]
	n.mu.Unlock()
	select {
	case said <- how:
	default: // nobody waits any more, or somebody knows
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "taken"})
}
