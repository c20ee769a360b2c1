package callee

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"onced/api/demo/book"
)

// How long a charge takes to settle, how late a late callback is, and how long an
// answer waits for a callback that is to come before it.
const (
	settleFrom, settleTo = 50 * time.Millisecond, 250 * time.Millisecond
	callbackLate         = 1300 * time.Millisecond
	earlyWait            = 500 * time.Millisecond
)

// OrderHeader is a header of a callback, which names the order for the demo's
// stories. It proves nothing.
const OrderHeader = "Demo-Order"

// gateway takes charges, and settles them later.
type gateway struct {
	*service

	mu      sync.Mutex
	pending map[string]int    // charges under way, by reference
	byKey   map[string]string // ids of charges under way, by key
	sent    int               // deliveries of callbacks
}

func newGateway(s *service) *gateway {
	return &gateway{service: s, pending: map[string]int{}, byKey: map[string]string{}}
}

func (g *gateway) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST "+ChargesPath, g.handle("charge", false, g.charge))
	mux.HandleFunc("GET "+ChargesPath+"/{reference}", g.look)
	mux.HandleFunc("POST "+RefundsPath, g.handle("refund", true, g.refund))
}

// charge accepts a charge. Unless keys are honoured, it charges whoever asks.
func (g *gateway) charge(o *op) (reply, error) {
	if !o.Amount.IsSet() {
		return reply{status: http.StatusBadRequest, Answer: Answer{Status: StatusFailed,
			Error: "an amount is needed"}}, nil
	}
	o.value = o.Amount.String()
	no := o.refused()
	if no && g.Plan.roll("at once", o.Reference, 0, 2) == 0 {
		return o.refuse("The gateway declined the card.")
	}
	e := o.entry(book.Effect, "ch")
	if no {
		e = o.entry(book.Refusal, "dec")
	}
	accepted := reply{status: http.StatusAccepted, point: After + AcceptPoint,
		Answer: Answer{ID: e.ID, Status: StatusPending, Reference: o.Reference}}
	g.mu.Lock()
	if id := g.byKey[o.key]; id != "" {
		g.mu.Unlock()
		accepted.ID, accepted.point = id, ""
		return accepted, nil
	}
	g.pending[o.Reference]++
	if o.key != "" {
		g.byKey[o.key] = e.ID
	}
	g.mu.Unlock()
	early := g.on(Early) && g.Plan.isEarly(o.Reference)
	first := make(chan struct{})
	g.activity(1)
	g.work.Go(func() {
		defer g.activity(-1)
		g.settle(*o, e, early, sync.OnceFunc(func() { close(first) }))
	})
	if early {
		accepted.wait = first
	}
	return accepted, nil
}

// settle charges in its time, or declines, and says so. told is called when the
// first callback has been tried, if there is one.
func (g *gateway) settle(o op, e book.Entry, early bool, told func()) {
	defer told()
	if !early {
		Pause(g.Ctx, g.Plan.between("settle", o.Reference, settleFrom, settleTo))
	}
	if !g.book(&o, e) {
		return
	}
	if e.Kind == book.Effect && o.how != belated {
		g.Crash(After+string(book.Charge), o.Order)
	}
	if early {
		g.Tell(o.Order, "The callback came before the gateway's own answer.")
		defer time.AfterFunc(earlyWait, told).Stop()
	}
	g.callBack(&o, e, told)
}

// book writes down what became of a charge, unless it is too late for that.
func (g *gateway) book(o *op, e book.Entry) bool {
	defer g.lock(o.Reference)()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.pending[o.Reference]--
		delete(g.byKey, o.key)
	}()
	e.At = g.Clock.Now()
	if g.Ctx.Err() != nil || e.At.Sub(o.arrived) > BookBy || g.ledger.Add(e) != nil {
		return false
	}
	if e.Kind == book.Refusal {
		g.Tell(o.Order, "The gateway declined the card, some time after it had taken the call.")
	} else {
		g.Tell(o.Order, fmt.Sprintf("The gateway charged %s (%s).", e.Value, e.ID))
	}
	return true
}

// refund takes a charge back, once.
func (g *gateway) refund(o *op) (reply, error) {
	a := g.ledger.Find(o.Reference)
	if len(a.Effects) == 0 {
		return reply{status: http.StatusUnprocessableEntity, Answer: Answer{Status: StatusFailed,
			Error: "there is no such charge"}}, nil
	}
	return o.takeBackOnce(a, "The gateway refunded "+a.Effects[0].Value+".", "")
}

// look says what became of a charge; one that is not settled is pending.
func (g *gateway) look(w http.ResponseWriter, r *http.Request) {
	reference := r.PathValue("reference")
	g.mu.Lock()
	pending := g.pending[reference] > 0
	g.mu.Unlock()
	if a := g.ledger.Find(reference); pending && len(a.Effects) == 0 && !a.Refused {
		writeJSON(w, http.StatusOK, Answer{Status: StatusPending, Reference: reference})
		return
	}
	g.lookUp(w, r)
}

func (g *gateway) deliveries() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sent
}

// callBack tells of a charge: once, often, late or never.
func (g *gateway) callBack(o *op, e book.Entry, told func()) {
	if o.CallbackURL == "" {
		return
	}
	if g.on(Drop) && g.Plan.drops(o.Reference) {
		g.Tell(o.Order, "The callback was dropped.")
		return
	}
	if g.on(Delay) && g.Plan.delaysCallback(o.Reference) {
		g.Tell(o.Order, "The callback is late.")
		Pause(g.Ctx, callbackLate)
	}
	copies := 1
	if g.on(Duplicate) {
		copies = g.Plan.copies(o.Reference)
	}
	if copies > 1 {
		g.Tell(o.Order, fmt.Sprintf("The callback came %d times.", copies))
	}
	var at sync.WaitGroup
	for range copies - copies/2 { // these at the same moment, and the others later
		at.Go(func() { g.deliver(o, e, told) })
	}
	at.Wait()
	for range copies / 2 {
		g.deliver(o, e, told)
	}
}

// deliveries is how often a callback is tried until it is acknowledged.
const deliveries = 12

// deliver sends a callback until it is acknowledged, as gateways do.
func (g *gateway) deliver(o *op, e book.Entry, told func()) {
	for try := range deliveries {
		if try > 0 {
			Pause(g.Ctx, time.Duration(try)*200*time.Millisecond)
		}
		if g.Ctx.Err() != nil {
			return
		}
		g.mu.Lock()
		g.sent++
		g.mu.Unlock()
		err := g.send(o, e)
		told()
		if err == nil {
			g.acknowledged(o, e)
			return
		}
	}
}

// acknowledged notes the first time that a callback was taken.
func (g *gateway) acknowledged(o *op, e book.Entry) {
	defer g.lock(o.Reference)()
	if !g.ledger.WasTold(e.ID) {
		_ = g.ledger.Add(book.Entry{Kind: book.Told, ID: e.ID, Order: o.Order, Reference: o.Reference,
			At: g.Clock.Now()})
	}
}

func (g *gateway) send(o *op, e book.Entry) error {
	a := Answer{ID: e.ID, Status: StatusDone, Reference: o.Reference, Event: "evt_" + e.ID}
	if e.Kind == book.Refusal {
		a.Status, a.Error = StatusFailed, refusals[book.Charge]
	}
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.Ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.CallbackURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", a.Event)
	req.Header.Set(OrderHeader, o.Order)
	req.GetBody = nil // whether to send again is for this code to say
	resp, err := g.Client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("demo: the callback was answered with %s", resp.Status)
	}
	return nil
}
