package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"onced/kv"
)

// The states of an order, for people.
const (
	statePending = "pending"
	statePaid    = "paid"
	stateFailed  = "failed"
)

// How long a checkout waits before it says that the order is pending.
const (
	outcomeWait  = 8 * time.Second // for the outcome of the charge
	callbackWait = time.Second     // for the callback after it
)

// errFull and errReset are answers to a checkout.
var (
	errFull  = fmt.Errorf("demo: %d orders are enough; begin anew with POST /toggle/reset", maxOrders)
	errReset = errors.New("demo: the demo was reset; place the order again")
)

// orderEntry is one line of the shop's file.
type orderEntry struct {
	Kind   string    `json:"kind"` // asked, accepted, declined, gave-up or applied
	Order  string    `json:"order"`
	Charge string    `json:"charge,omitempty"`
	At     time.Time `json:"at"`
}

// The kinds of lines in the shop's file.
const (
	kindAsked    = "asked"
	kindAccepted = "accepted"
	kindDeclined = "declined"
	kindGaveUp   = "gave-up" // only without protection
	kindApplied  = "applied"
)

// order is what the shop knows of an order.
type order struct {
	id      string
	asked   time.Time
	charge  string
	settled string    // accepted, declined or gave-up; empty while that is not known
	applied bool      // the callback's effect has taken place
	effects int       // how often: a shipment for each
	unknown time.Time // since then nobody knows about the charge; zero when somebody does
	called  bool      // it may be that the service was asked about it
	active  int       // requests that pursue it
	changed chan struct{}
}

func (o *order) state() string {
	switch {
	case o.settled == kindDeclined || o.settled == kindGaveUp:
		return stateFailed
	case o.settled == kindAccepted && o.applied:
		return statePaid
	}
	return statePending
}

// shop keeps orders. It has no defence of its own against charging twice.
type shop struct {
	journal *journal
	clock   kv.Clock
	stories *stories
	payer   payer

	mu      sync.Mutex
	orders  map[string]*order
	sorted  []*order // in their order
	applied map[string]bool
	again   int // callbacks that reached the shop after they had been applied
	// unguarded shops ship for every callback. The others write the event's id
	// with its effect, and do nothing for one that they have.
	unguarded bool
}

// payer makes one charge of an order, or finds out what became of it.
type payer interface {
	pay(ctx context.Context, c call) result
}

func openShop(name string, s *shop) (*shop, error) {
	s.orders, s.applied = map[string]*order{}, map[string]bool{}
	var err error
	s.journal, err = openJournal(name, func(line []byte) error {
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		var e orderEntry
		if err := dec.Decode(&e); err != nil {
			return err
		}
		s.take(e)
		s.orders[e.Order].called = true // in an earlier life
		return nil
	})
	return s, err
}

// take puts a line that is on the disk into memory and wakes who waits.
func (s *shop) take(e orderEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.orders[e.Order]
	if o == nil {
		o = &order{id: e.Order, asked: e.At, changed: make(chan struct{})}
		s.orders[e.Order] = o
		s.sorted = append(s.sorted, o)
	}
	switch e.Kind {
	case kindAccepted, kindDeclined, kindGaveUp:
		o.settled, o.unknown = e.Kind, time.Time{}
		if e.Charge != "" {
			o.charge = e.Charge
		}
	case kindApplied:
		o.applied = true
		o.effects++
		s.applied[eventID(e.Charge)] = true
		if o.charge == "" {
			o.charge = e.Charge
		}
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

func (s *shop) add(e orderEntry) error {
	e.At = s.clock.Now()
	if err := s.journal.append(e); err != nil {
		return err
	}
	s.take(e)
	return nil
}

// view is what the shop answers about an order.
type view struct {
	Order  string `json:"orderId"`
	Status string `json:"status"`
	Charge string `json:"charge,omitempty"`
}

// look returns an order as it is now, and a channel that is closed when it changes.
func (s *shop) look(id string) (o order, changed <-chan struct{}, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.orders[id]
	if p == nil {
		return order{}, nil, false
	}
	return *p, p.changed, true
}

// checkout places an order, or the same one again, and waits for its end, as long
// as wait at most. down says that the service could not be reached all the time.
func (s *shop) checkout(ctx context.Context, id string, wait time.Duration) (v view, down bool, err error) {
	if _, _, found := s.look(id); !found {
		s.mu.Lock()
		full := len(s.sorted) >= maxOrders
		s.mu.Unlock()
		if full {
			return view{}, false, errFull
		}
		if err := s.add(orderEntry{Kind: kindAsked, Order: id}); err != nil {
			return view{}, false, err
		}
		s.stories.tell(id, "The customer ordered.")
	} else {
		s.stories.tell(id, "The customer ordered again, the same order.")
	}
	if wait <= 0 { // it is pursued all the same, soon
		o, _, _ := s.look(id)
		return view{Order: id, Status: o.state(), Charge: o.charge}, o.settled == "" && s.isDown(), nil
	}
	waiting, cancel := context.WithTimeout(ctx, min(wait, outcomeWait))
	defer cancel()
	down, err = s.pursue(waiting, id)
	if err != nil {
		return view{}, down, err
	}
	o, _, _ := s.look(id)
	if o.settled == kindAccepted {
		o = s.awaitCallback(ctx, id)
	}
	return view{Order: id, Status: o.state(), Charge: o.charge}, down && o.settled == "", nil
}

// isDown reports whether who takes the shop's calls is not there now.
func (s *shop) isDown() bool {
	g, guarded := s.payer.(guarded)
	if !guarded {
		return false
	}
	_, pid := g.service.status()
	return pid == 0
}

// awaitCallback waits for the callback's effect, a little.
func (s *shop) awaitCallback(ctx context.Context, id string) order {
	t := time.NewTimer(callbackWait)
	defer t.Stop()
	for {
		o, changed, _ := s.look(id)
		if o.applied {
			return o
		}
		select {
		case <-changed:
		case <-t.C:
			return o
		case <-ctx.Done():
			return o
		}
	}
}

// pursue pays until the outcome is known or ctx ends.
func (s *shop) pursue(ctx context.Context, id string) (down bool, err error) {
	s.activity(id, 1)
	defer s.activity(id, -1)
	down = true
	for {
		r := s.payer.pay(ctx, s.nextCall(id))
		down = down && r.kind == serviceDown
		switch r.kind {
		case accepted, declined, gaveUp:
			return false, s.settle(id, r)
		case serviceDown:
		case outcomeUnknown:
			s.unknownNow(id)
		}
		if r.says != "" && ctx.Err() == nil {
			s.stories.tell(id, r.says)
		}
		if r.last {
			return down, nil
		}
		pause(ctx, r.after)
		if ctx.Err() != nil {
			return down, nil
		}
	}
}

// settle notes the outcome of a charge. It is written once; of an order that is
// charged again without protection, the first stays.
func (s *shop) settle(id string, r result) error {
	o, _, _ := s.look(id)
	if o.settled != "" {
		s.stories.tell(id, "The shop got the same answer again: "+r.outcome()+".")
		return nil
	}
	kind := map[resultKind]string{accepted: kindAccepted, declined: kindDeclined, gaveUp: kindGaveUp}[r.kind]
	if err := s.add(orderEntry{Kind: kind, Order: id, Charge: r.charge}); err != nil {
		return err
	}
	s.stories.tell(id, "The shop was answered: "+r.outcome()+".")
	return nil
}

// nextCall notes that the shop calls for an order.
func (s *shop) nextCall(id string) call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := call{id: id}
	if o := s.orders[id]; o != nil {
		c.again, o.called = o.called, true
	}
	return c
}

func (s *shop) activity(id string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.orders[id]; o != nil {
		o.active += n
	}
}

func (s *shop) unknownNow(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.orders[id]; o != nil && o.settled == "" && o.unknown.IsZero() {
		o.unknown = s.clock.Now()
	}
}

// inFlight are the orders that somebody pursues now.
func (s *shop) inFlight() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.sorted {
		if o.active > 0 {
			ids = append(ids, o.id)
		}
	}
	return ids
}

// left are at most limit orders that are not settled and that nobody pursues.
func (s *shop) left(limit int) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.sorted {
		if o.settled == "" && o.active == 0 && len(ids) < limit {
			ids = append(ids, o.id)
		}
	}
	return ids
}

// callbacks takes callbacks, also those that it had before.
func (s *shop) callbacks(w http.ResponseWriter, r *http.Request) {
	var c callback
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&c); err != nil || c.ID == "" {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "id and reference are needed"})
		return
	}
	if err := s.apply(c); err != nil {
		writeJSON(w, http.StatusInternalServerError, map[string]string{"error": "the shop could not write"})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "applied"})
}

// apply lets a callback take effect: once, or each time in an unguarded shop.
func (s *shop) apply(c callback) error {
	s.mu.Lock()
	again, known := s.applied[c.ID], s.orders[c.Reference] != nil
	s.applied[c.ID] = true
	if again {
		s.again++
	}
	s.mu.Unlock()
	if again && !s.unguarded || !known {
		return nil
	}
	if err := s.add(orderEntry{Kind: kindApplied, Order: c.Reference, Charge: c.Charge}); err != nil {
		s.mu.Lock()
		delete(s.applied, c.ID)
		s.mu.Unlock()
		return err
	}
	if again {
		s.stories.tell(c.Reference, "The callback reached the shop again, and it shipped again.")
		return nil
	}
	s.stories.tell(c.Reference, "The callback reached the shop: paid, and shipped.")
	return nil
}

func (s *shop) close() error { return s.journal.close() }
