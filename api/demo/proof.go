package demo

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrProof means that some order was not charged as it should have been, or
// that not all came to an end.
var ErrProof = errors.New("demo: the proof failed")

// Proof compares the gateway's ledger with the shop's orders, one by one.
type Proof struct {
	// DistinctOrders were placed, RealCharges are in the ledger.
	DistinctOrders int `json:"distinctOrders"`
	RealCharges    int `json:"realCharges"`
	// ZeroDoubleCharges says that no order was charged twice, whatever the totals.
	ZeroDoubleCharges bool `json:"zeroDoubleCharges"`
	// Proven says that every order came to its end, each paid one with one charge,
	// each failed one with none, and that no charge belongs to no order.
	Proven bool `json:"proven"`
	// Protected says that the service stands between shop and gateway.
	Protected bool `json:"protected"`

	Paid    int `json:"paidOrders"`
	Failed  int `json:"failedOrders"`
	Pending int `json:"pendingOrders"`

	// ChargesNot1 are paid orders without exactly one charge, and others with more.
	ChargesNot1 int `json:"ordersWithChargesNot1"`
	// NoOrder are charges of orders that the shop does not know.
	NoOrder int `json:"chargesWithoutOrder"`
	// NoCharge are paid orders without a charge.
	NoCharge int `json:"ordersWithoutCharge"`
	// OnFailed are failed orders with a charge: the customer paid for nothing.
	OnFailed int `json:"failedOrdersWithCharge"`
	// Most is the highest number of charges of one order.
	Most int `json:"mostChargesOnOneOrder"`
	// Wrong are some of the orders that are not as they should be.
	Wrong []WrongOrder `json:"wrongOrders"`

	// Unknowns are orders whose last call ended without a word about the charge.
	Unknowns    int         `json:"openUnknowns"`
	OldUnknowns []OpenOrder `json:"oldestUnknowns"`
	// Undelivered are charges whose callback nobody acknowledged.
	Undelivered int `json:"undeliveredCallbacks"`
	// CallbacksSent were tried; CallbacksAgain reached the shop a second time.
	CallbacksSent  int `json:"callbacksSent"`
	CallbacksAgain int `json:"callbacksSeenTwiceByShop"`

	// Kills of the service by point, and how often it came up. Pid is its process
	// now, 0 while it is down.
	Kills  map[string]int `json:"kills"`
	Starts int            `json:"serviceStarts"`
	Pid    int            `json:"servicePid"`

	Toggles map[string]bool `json:"toggles"`
	CrashAt string          `json:"crashAt,omitempty"`
}

// WrongOrder is an order that is not as it should be.
type WrongOrder struct {
	Order   string `json:"orderId"`
	Status  string `json:"status"`  // pending, paid, failed, or not an order
	Charges int    `json:"charges"` // in the ledger
}

// OpenOrder is an order with an unknown outcome.
type OpenOrder struct {
	Order string `json:"orderId"`
	// AgeMS is how long ago it was placed, in milliseconds.
	AgeMS int64 `json:"ageMs"`
}

// shown bounds the orders that a proof names.
const shown = 10

// prove makes the proof of now. Between the two books something may happen, so
// the shop is read first: a charge is written before its order is paid.
func prove(s *shop, l *ledger, now time.Time) Proof {
	orders := s.snapshot()
	charges, undelivered := l.counts()
	p := Proof{DistinctOrders: len(orders), Undelivered: undelivered,
		Wrong: []WrongOrder{}, OldUnknowns: []OpenOrder{}}
	known := make(map[string]bool, len(orders))
	for _, o := range orders {
		known[o.id] = true
		p.count(o, charges[o.id], now)
	}
	for reference, n := range charges {
		p.RealCharges += n
		p.Most = max(p.Most, n)
		if known[reference] {
			continue
		}
		if _, _, placed := s.look(reference); placed { // since the orders were read
			continue
		}
		p.NoOrder += n
		p.wrong(reference, "not an order", n)
	}
	slices.SortFunc(p.Wrong, func(a, b WrongOrder) int { return b.Charges - a.Charges })
	p.Wrong = p.Wrong[:min(shown, len(p.Wrong))]
	p.ZeroDoubleCharges = p.Most <= 1
	p.Proven = p.Pending == 0 && p.ChargesNot1 == 0 && p.NoOrder == 0 && p.NoCharge == 0 && p.OnFailed == 0
	return p
}

// count takes one order into the proof.
func (p *Proof) count(o order, charges int, now time.Time) {
	wrong := charges > 1
	switch o.state() {
	case statePaid:
		p.Paid++
		wrong = charges != 1
		if charges == 0 {
			p.NoCharge++
		}
	case stateFailed:
		p.Failed++
		if charges > 0 {
			p.OnFailed++
			if !wrong {
				p.wrong(o.id, stateFailed, charges)
			}
		}
	default:
		p.Pending++
		if o.unknown {
			p.Unknowns++
			if len(p.OldUnknowns) < shown { // orders come by age
				p.OldUnknowns = append(p.OldUnknowns, OpenOrder{o.id, now.Sub(o.asked).Milliseconds()})
			}
		}
	}
	if wrong {
		p.ChargesNot1++
		p.wrong(o.id, o.state(), charges)
	}
}

func (p *Proof) wrong(id, status string, charges int) {
	p.Wrong = append(p.Wrong, WrongOrder{Order: id, Status: status, Charges: charges})
}

// verdict returns nil when the proof holds for the number of orders wanted.
func (p Proof) verdict(orders int) error {
	switch {
	case p.Proven && p.DistinctOrders == orders:
		return nil
	case p.DistinctOrders != orders:
		return fmt.Errorf("%w: %d of %d orders were placed", ErrProof, p.DistinctOrders, orders)
	case p.Pending > 0:
		return fmt.Errorf("%w: %d orders did not come to an end", ErrProof, p.Pending)
	}
	return fmt.Errorf("%w: most charges on one order: %d, paid orders without a charge: %d, "+
		"failed orders with one: %d, charges without an order: %d",
		ErrProof, p.Most, p.NoCharge, p.OnFailed, p.NoOrder)
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
