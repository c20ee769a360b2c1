package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"onced/kv"
	"onced/kv/money"
)

// The paths of the gateway, which are those of the service's routes too.
const (
	chargesPath   = "/charges"
	callbacksPath = "/callbacks"
)

// How late a delayed call is charged and answered, counted from its arrival.
// All lie beyond CallTimeout and, as to charges, below BookBy.
const (
	belatedFrom, belatedTo = 1100 * time.Millisecond, 1500 * time.Millisecond
	answerFrom, answerTo   = 1200 * time.Millisecond, 1600 * time.Millisecond
	callbackLate           = 1300 * time.Millisecond
)

// gateway takes charges. It runs in the parent, so its ledger outlives every
// crash of the service.
type gateway struct {
	ledger  *ledger
	toggles *toggles
	crash   *crasher
	plan    plan
	clock   kv.Clock
	stories *stories
	// callbackURL is where callbacks go now; it waits while that is not known.
	callbackURL func(ctx context.Context) (string, error)
	client      *http.Client

	ctx  context.Context // ends with the world
	work sync.WaitGroup

	mu       sync.Mutex
	attempts map[string]int           // by reference
	keys     map[string]chan struct{} // keys under way; closed at their end
	sent     int                      // deliveries of callbacks
	active   int                      // charges and callbacks under way, whoever has gone
}

// chargeRequest is the body of a charge.
type chargeRequest struct {
	Reference string       `json:"reference"`
	Amount    money.Amount `json:"amount"`
}

// chargeAnswer is the gateway's answer to a charge and to its look-up.
type chargeAnswer struct {
	Status    string        `json:"status"` // accepted or declined
	ID        string        `json:"id,omitempty"`
	Reference string        `json:"reference"`
	Amount    *money.Amount `json:"amount,omitempty"`
}

// The gateway's words.
const (
	statusAccepted = "accepted"
	statusDeclined = "declined"
)

// callback is what the gateway tells the shop.
type callback struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Reference string `json:"reference"`
	Charge    string `json:"charge"`
}

func eventID(charge string) string { return "evt_" + charge }

func callbackOf(e entry) callback {
	return callback{ID: eventID(e.ID), Type: "charge.succeeded", Reference: e.Reference, Charge: e.ID}
}

func (g *gateway) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+chargesPath, g.charge)
	mux.HandleFunc("GET "+chargesPath+"/{reference}", g.lookUp)
	mux.HandleFunc("GET /events", g.events)
	return mux
}

// charge takes one call. Unless keys are honoured, it charges whoever asks.
func (g *gateway) charge(w http.ResponseWriter, r *http.Request) {
	arrived := g.clock.Now()
	g.activity(1)
	defer g.activity(-1)
	var req chargeRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&req); err != nil ||
		req.Reference == "" || !req.Amount.IsSet() {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "reference and amount are needed"})
		return
	}
	key := ""
	if g.toggles.is("keys") {
		key = r.Header.Get("Idempotency-Key")
	}
	if key != "" {
		done, err := g.holdKey(r.Context(), key)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer done()
		if e, found := g.ledger.keyed(key); found {
			g.stories.tell(req.Reference, "The gateway knew the idempotency key and did not charge again.")
			writeJSON(w, http.StatusCreated, answerOf(e))
			return
		}
	}
	attempt := g.attempt(req.Reference)
	if g.crash.pass(beforeCharge, req.Reference) {
		panic(http.ErrAbortHandler) // the call died with its caller
	}
	if g.plan.declines(req.Reference) {
		g.decline(w, req)
		return
	}
	how := prompt
	if g.toggles.is("delay") {
		how = g.plan.slow(req.Reference, attempt)
	}
	g.perform(w, job{chargeRequest: req, key: key, attempt: attempt, arrived: arrived, how: how})
}

// job is a charge to be made.
type job struct {
	chargeRequest
	key     string
	attempt int
	arrived time.Time
	how     slowness
}

// perform charges and answers, each in its time.
func (g *gateway) perform(w http.ResponseWriter, j job) {
	answerAt := j.arrived.Add(g.plan.between("answer", j.Reference, answerFrom, answerTo))
	var e entry
	var booked bool
	switch j.how {
	case lost:
		g.stories.tell(j.Reference, "The call to the gateway was lost: no charge, no answer.")
		g.until(answerAt)
		panic(http.ErrAbortHandler)
	case belated:
		g.stories.tell(j.Reference, "The gateway let the call lie until its caller had given up.")
		g.until(j.arrived.Add(g.plan.between("belated", j.Reference, belatedFrom, belatedTo)))
		e, booked = g.book(j)
		g.until(answerAt)
	case tardy:
		e, booked = g.book(j)
		g.crashAfter(j, booked) // its caller still waits
		g.stories.tell(j.Reference, "It answered too late: the caller did not learn of the charge.")
		g.until(answerAt)
	default:
		e, booked = g.book(j)
		g.crashAfter(j, booked)
	}
	if !booked {
		panic(http.ErrAbortHandler)
	}
	writeJSON(w, http.StatusCreated, answerOf(e))
}

// crashAfter is the point after a charge. A charge that came late is none: its
// caller has given up, and may have looked it up by now.
func (g *gateway) crashAfter(j job, booked bool) {
	if booked && g.crash.pass(afterCharge, j.Reference) {
		panic(http.ErrAbortHandler)
	}
}

// book charges, unless it is too late for that.
func (g *gateway) book(j job) (entry, bool) {
	now := g.clock.Now()
	if g.ctx.Err() != nil || now.Sub(j.arrived) > BookBy {
		return entry{}, false
	}
	e := entry{Kind: kindCharge, ID: g.ledger.nextID(), Reference: j.Reference, Amount: j.Amount,
		Key: j.key, At: now, Asked: j.arrived}
	if err := g.ledger.add(e); err != nil {
		return entry{}, false
	}
	g.stories.tell(j.Reference, fmt.Sprintf("The gateway charged %s (%s).", e.Amount, e.ID))
	g.activity(1)
	g.work.Go(func() {
		defer g.activity(-1)
		g.callBack(e)
	})
	return e, true
}

func (g *gateway) decline(w http.ResponseWriter, req chargeRequest) {
	e := entry{Kind: kindDecline, ID: "dec_" + req.Reference, Reference: req.Reference, Amount: req.Amount,
		At: g.clock.Now()}
	if err := g.ledger.add(e); err != nil {
		panic(http.ErrAbortHandler)
	}
	g.stories.tell(req.Reference, "The gateway declined the card.")
	writeJSON(w, http.StatusPaymentRequired, answerOf(e))
}

func (g *gateway) lookUp(w http.ResponseWriter, r *http.Request) {
	reference := r.PathValue("reference")
	e, found := g.ledger.lookUp(reference)
	if !found {
		absent := entry{Kind: kindAbsent, ID: "none", Reference: reference, At: g.clock.Now()}
		if err := g.ledger.add(absent); err != nil {
			panic(http.ErrAbortHandler)
		}
		g.stories.tell(reference, "The service looked it up: the gateway knew of no charge yet.")
		writeJSON(w, http.StatusNotFound, map[string]string{"error": "there is no such charge"})
		return
	}
	g.stories.tell(reference, "The service looked it up instead of charging again.")
	writeJSON(w, http.StatusOK, answerOf(e))
}

// events lists charges from a position on, for whoever missed their callbacks.
func (g *gateway) events(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	writeJSON(w, http.StatusOK, g.ledger.after(after, 500))
}

func answerOf(e entry) chargeAnswer {
	if e.Kind == kindDecline {
		return chargeAnswer{Status: statusDeclined, Reference: e.Reference}
	}
	return chargeAnswer{Status: statusAccepted, ID: e.ID, Reference: e.Reference, Amount: &e.Amount}
}

func (g *gateway) activity(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active += n
}

// idle reports whether no call is under way that could still charge or tell.
func (g *gateway) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.active == 0
}

// attempt counts the calls for a reference, from 1 on.
func (g *gateway) attempt(reference string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.attempts[reference]++
	return g.attempts[reference]
}

// holdKey waits until nobody else works on the key, and takes it.
func (g *gateway) holdKey(ctx context.Context, key string) (done func(), err error) {
	for {
		g.mu.Lock()
		busy, taken := g.keys[key]
		if !taken {
			mine := make(chan struct{})
			g.keys[key] = mine
			g.mu.Unlock()
			return func() {
				g.mu.Lock()
				delete(g.keys, key)
				g.mu.Unlock()
				close(mine)
			}, nil
		}
		g.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// until waits for an instant; a gateway goes on when its caller has gone.
func (g *gateway) until(at time.Time) { pause(g.ctx, at.Sub(g.clock.Now())) }

// callBack tells the shop of a charge: once, often, late or never.
func (g *gateway) callBack(e entry) {
	if g.toggles.is("drop") && g.plan.drops(e.Reference) {
		g.stories.tell(e.Reference, "The callback was dropped.")
		return
	}
	if g.toggles.is("delay") && g.plan.delaysCallback(e.Reference) {
		g.stories.tell(e.Reference, "The callback is late.")
		pause(g.ctx, callbackLate)
	}
	copies := 1
	if g.toggles.is("duplicate") {
		copies = g.plan.copies(e.Reference)
	}
	if copies > 1 {
		g.stories.tell(e.Reference, fmt.Sprintf("The callback came %d times.", copies))
	}
	var at sync.WaitGroup
	for range copies - copies/2 { // these at the same moment, and the others later
		at.Go(func() { g.deliver(e) })
	}
	at.Wait()
	for range copies / 2 {
		g.deliver(e)
	}
}

// deliveries is how often a callback is tried until it is acknowledged.
const deliveries = 12

// deliver sends a callback until it is acknowledged, as gateways do.
func (g *gateway) deliver(e entry) {
	for try := range deliveries {
		if try > 0 {
			pause(g.ctx, time.Duration(try)*200*time.Millisecond)
		}
		if g.ctx.Err() != nil {
			return
		}
		g.mu.Lock()
		g.sent++
		g.mu.Unlock()
		if g.send(e) == nil {
			_ = g.ledger.deliver(e, g.clock.Now())
			return
		}
	}
}

func (g *gateway) send(e entry) error {
	url, err := g.callbackURL(g.ctx)
	if err != nil {
		return err
	}
	return postCallback(g.ctx, g.client, url, callbackOf(e))
}

// postCallback posts a callback and returns nil when it was acknowledged.
func postCallback(ctx context.Context, client *http.Client, url string, c callback) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", c.ID)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	defer drain(resp.Body)
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("demo: the callback was answered with %s", resp.Status)
	}
	return nil
}

func (g *gateway) deliveriesSent() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sent
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(max(0, d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// drain lets the connection be used again.
func drain(body io.Reader) { _, _ = io.Copy(io.Discard, io.LimitReader(body, 1<<20)) }

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // plain structs; else the client has gone
}
