package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"onced/api/demo/book"
	"onced/api/demo/callee"
	"onced/kv"
)

// The states of an order, for people.
const (
	statePending = "pending"
	statePaid    = "paid"
	stateFailed  = "failed"
)

// outcomeWait is how long a checkout waits before it says that the order is pending.
const outcomeWait = 8 * time.Second

// errFull and errReset are answers to a checkout.
var (
	errFull  = fmt.Errorf("demo: %d orders are enough; begin anew with POST /toggle/reset", maxOrders)
	errReset = errors.New("demo: the demo was reset; place the order again")
)

// orderEntry is one line of the shop's file.
type orderEntry struct {
	Kind  string    `json:"kind"` // asked, accepted, declined or gave-up
	Order string    `json:"order"`
	At    time.Time `json:"at"`
}

// The kinds of lines in the shop's file.
const (
	kindAsked    = "asked"
	kindAccepted = "accepted"
	kindDeclined = "declined"
	kindGaveUp   = "gave-up" // only without protection
)

// order is what the shop knows of an order.
type order struct {
	id      string
	asked   time.Time
	settled string    // accepted, declined or gave-up; empty while that is not known
	unknown time.Time // since then nobody knows how it ended; zero when somebody does
	needs   string    // what a person is needed for; empty when nobody is
	called  bool      // it may be that the service was asked about it
	busy    bool      // somebody pursues it
	active  int       // requests that wait to pursue it, or do
	changed chan struct{}
}

func (o *order) state() string {
	switch o.settled {
	case kindDeclined, kindGaveUp:
		return stateFailed
	case kindAccepted:
		return statePaid
	}
	return statePending
}

// shop keeps orders. It has no defence of its own against anything happening twice.
type shop struct {
	journal *book.Journal
	clock   kv.Clock
	stories *stories
	payer   payer

	mu     sync.Mutex
	orders map[string]*order
	sorted []*order // in their order
}

// payer carries an order out, or finds out what became of it.
type payer interface {
	pay(ctx context.Context, c call) result
}

func openShop(name string, s *shop) (*shop, error) {
	s.orders = map[string]*order{}
	var err error
	s.journal, err = book.OpenJournal(name, func(line []byte) error {
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
	if e.Kind != kindAsked {
		o.settled, o.unknown, o.needs = e.Kind, time.Time{}, ""
	}
	o.wake()
}

// wake wakes who waits for the order. The caller holds the shop's mu.
func (o *order) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

func (s *shop) add(e orderEntry) error {
	e.At = s.clock.Now()
	if err := s.journal.Append(e); err != nil {
		return err
	}
	s.take(e)
	return nil
}

// view is what the shop answers about an order.
type view struct {
	Order  string `json:"orderId"`
	Status string `json:"status"`
	// Needs is what a person is needed for.
	Needs string `json:"needs,omitempty"`
}

func viewOf(o order) view { return view{Order: o.id, Status: o.state(), Needs: o.needs} }

// look returns an order as it is now.
func (s *shop) look(id string) (o order, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.orders[id]
	if p == nil {
		return order{}, false
	}
	return *p, true
}

// checkout places an order, or the same one again, and waits for its end, as long
// as wait at most. down says that the service could not be reached all the time.
func (s *shop) checkout(ctx context.Context, id string, wait time.Duration) (v view, down bool, err error) {
	if _, found := s.look(id); !found {
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
		o, _ := s.look(id)
		return viewOf(o), o.settled == "" && s.isDown(), nil
	}
	waiting, cancel := context.WithTimeout(ctx, min(wait, outcomeWait))
	defer cancel()
	down, err = s.pursue(waiting, id)
	if err != nil {
		return view{}, down, err
	}
	o, _ := s.look(id)
	return viewOf(o), down && o.settled == "", nil
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

// pursue carries an order out until its end is known or ctx ends. One at a time does
// so for an order, and one that has failed is not carried out again: that would be a
// new try.
func (s *shop) pursue(ctx context.Context, id string) (down bool, err error) {
	s.activity(id, 1)
	defer s.activity(id, -1)
	if !s.enter(ctx, id) {
		return s.isDown(), nil
	}
	defer s.leave(id)
	if o, _ := s.look(id); o.state() == stateFailed {
		s.stories.tell(id, "The shop remembered that the order had failed.")
		return false, nil
	}
	down = true
	for {
		r := s.payer.pay(ctx, s.nextCall(id))
		down = down && r.kind == serviceDown
		switch r.kind {
		case accepted, declined, gaveUp:
			if r.says != "" {
				s.stories.tell(id, r.says)
			}
			return false, s.settle(id, r)
		case serviceDown:
		case outcomeUnknown, needsPerson:
			s.unknownNow(id, r.needs)
		}
		if r.says != "" && ctx.Err() == nil {
			s.stories.tell(id, r.says)
		}
		if r.last {
			return down, nil
		}
		callee.Pause(ctx, r.after)
		if ctx.Err() != nil {
			return down, nil
		}
	}
}

// enter waits until nobody else pursues the order.
func (s *shop) enter(ctx context.Context, id string) bool {
	for {
		s.mu.Lock()
		o := s.orders[id]
		changed, free := o.changed, !o.busy
		if free {
			o.busy = true
		}
		s.mu.Unlock()
		if free {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (s *shop) leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders[id].busy = false
	s.orders[id].wake()
}

// settle notes how an order ended. It is written once; of an order that is carried out
// again without protection, the first stays.
func (s *shop) settle(id string, r result) error {
	o, _ := s.look(id)
	if o.settled != "" {
		s.stories.tell(id, "The shop got the same answer again: "+r.outcome()+".")
		return nil
	}
	kind := map[resultKind]string{accepted: kindAccepted, declined: kindDeclined, gaveUp: kindGaveUp}[r.kind]
	if err := s.add(orderEntry{Kind: kind, Order: id}); err != nil {
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

func (s *shop) unknownNow(id, needs string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.orders[id]
	if o == nil || o.settled != "" {
		return
	}
	if o.unknown.IsZero() {
		o.unknown = s.clock.Now()
	}
	o.needs = needs
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

// left are at most limit orders that are not settled and that nobody pursues, those
// that wait for a person only on demand.
func (s *shop) left(limit int, people bool) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.sorted {
		if o.settled == "" && o.active == 0 && (people || o.needs == "") && len(ids) < limit {
			ids = append(ids, o.id)
		}
	}
	return ids
}

// snapshot copies the orders.
func (s *shop) snapshot() []order {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]order, len(s.sorted))
	for i, o := range s.sorted {
		out[i] = *o
	}
	return out
}

// knows reports whether an order was placed.
func (s *shop) knows(id string) bool {
	_, found := s.look(id)
	return found
}

// How often what was left behind is taken up, and how often what waits for a person.
const (
	resumeEvery = 500 * time.Millisecond
	personEvery = 10 // times as seldom
)

// resume pursues orders that were left: by a client that went away, or by a
// shop that was stopped.
func (s *shop) resume(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for round := 0; ctx.Err() == nil; round++ {
		for _, id := range s.left(50, round%personEvery == 0) {
			work.Go(func() {
				waiting, cancel := context.WithTimeout(ctx, outcomeWait)
				defer cancel()
				_, _ = s.pursue(waiting, id) // what is not settled then is left for the next round
			})
		}
		work.Wait()
		callee.Pause(ctx, resumeEvery)
	}
}

func (s *shop) close() error { return s.journal.Close() }
