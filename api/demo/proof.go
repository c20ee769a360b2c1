package demo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"onced/kv/money"
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
	// Proven says that there is an order, that every one came to its end, each paid
	// one with one charge of its price and one effect, each failed one with a
	// decline or none of either, and that no charge belongs to no order.
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
	// MostEffects is the highest number of effects that callbacks had on one order:
	// how often it was shipped.
	MostEffects int `json:"mostEffectsOnOneOrder"`
	// WrongAmount are charges of something else than the price.
	WrongAmount int `json:"chargesOfWrongAmount"`
	// WrongID are paid orders whose charge, as the shop knows it, is not in the ledger.
	WrongID int `json:"paidOrdersWithUnknownCharge"`
	// NoDecline are orders that failed for a decline that is not in the ledger.
	NoDecline int `json:"failedOrdersWithoutDecline"`
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
	Effects int    `json:"effects"` // of callbacks
	Why     string `json:"why"`
}

// OpenOrder is an order with an unknown outcome.
type OpenOrder struct {
	Order string `json:"orderId"`
	// AgeMS is for how long nobody has known, in milliseconds.
	AgeMS int64 `json:"ageMs"`
}

// shown bounds the orders that a proof names.
const shown = 10

// prove compares orders of the shop with a ledger. Between the two something may
// happen, so the orders are read first: a charge is written before its order is paid.
func prove(s *shop, orders []order, l *ledger, now time.Time) Proof {
	all, undelivered := l.accounts()
	p := Proof{DistinctOrders: len(orders), Undelivered: undelivered,
		Wrong: []WrongOrder{}, OldUnknowns: []OpenOrder{}}
	known := make(map[string]bool, len(orders))
	for i := range orders {
		known[orders[i].id] = true
		p.count(&orders[i], all[orders[i].id], now)
	}
	for reference, a := range all {
		n := len(a.charges)
		p.RealCharges += n
		p.Most = max(p.Most, n)
		if known[reference] || n == 0 {
			continue
		}
		if _, _, placed := s.look(reference); placed { // since the orders were read
			continue
		}
		p.NoOrder += n
		p.Wrong = append(p.Wrong, WrongOrder{reference, "not an order", n, 0, "charged without an order"})
	}
	slices.SortStableFunc(p.Wrong, func(a, b WrongOrder) int { return b.Charges - a.Charges })
	p.Wrong = p.Wrong[:min(shown, len(p.Wrong))]
	p.ZeroDoubleCharges = p.Most <= 1
	p.Proven = p.DistinctOrders > 0 && p.Pending == 0 && p.agrees()
	return p
}

// agrees reports that nothing is wrong, whatever is still under way.
func (p *Proof) agrees() bool {
	return p.ZeroDoubleCharges && p.ChargesNot1 == 0 && p.NoOrder == 0 && p.NoCharge == 0 &&
		p.OnFailed == 0 && p.MostEffects <= 1 && p.WrongAmount == 0 && p.WrongID == 0 && p.NoDecline == 0
}

// count takes one order into the proof.
func (p *Proof) count(o *order, a account, now time.Time) {
	charges := len(a.charges)
	var why []string
	add := func(wrong bool, n *int, text string) {
		if wrong {
			*n++
			why = append(why, text)
		}
	}
	paid, failed := o.state() == statePaid, o.state() == stateFailed
	switch {
	case paid:
		p.Paid++
	case failed:
		p.Failed++
	default:
		p.Pending++
		p.pending(o, now)
	}
	add(charges > 1, &p.ChargesNot1, "charged more than once")
	add(paid && charges == 0, &p.ChargesNot1, "paid without a charge")
	if paid && charges == 0 {
		p.NoCharge++
	}
	add(failed && charges > 0, &p.OnFailed, "failed and charged")
	add(o.settled == kindDeclined && !a.declined, &p.NoDecline, "failed without a decline")
	theirs := func(e entry) bool { return e.ID == o.charge }
	add(paid && charges > 0 && !slices.ContainsFunc(a.charges, theirs),
		&p.WrongID, "the shop knows another charge, "+o.charge)
	for _, e := range a.charges {
		add(!isPrice(e.Amount), &p.WrongAmount, "charged "+e.Amount.String())
	}
	p.MostEffects = max(p.MostEffects, o.effects)
	if o.effects > 1 {
		why = append(why, fmt.Sprintf("shipped %d times", o.effects))
	}
	if len(why) > 0 {
		p.Wrong = append(p.Wrong, WrongOrder{o.id, o.state(), charges, o.effects, strings.Join(why, "; ")})
	}
}

// pending takes an order that has not come to its end into the proof.
func (p *Proof) pending(o *order, now time.Time) {
	if o.unknown.IsZero() {
		return
	}
	p.Unknowns++
	p.OldUnknowns = append(p.OldUnknowns, OpenOrder{o.id, now.Sub(o.unknown).Milliseconds()})
	slices.SortStableFunc(p.OldUnknowns, func(a, b OpenOrder) int { return int(b.AgeMS - a.AgeMS) })
	p.OldUnknowns = p.OldUnknowns[:min(shown, len(p.OldUnknowns))]
}

// isPrice reports whether an amount is what every order costs.
func isPrice(m money.Amount) bool {
	want, err := price()
	return err == nil && m.Equal(want)
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
	if orders == 0 {
		return fmt.Errorf("%w: there is no order", ErrProof)
	}
	return fmt.Errorf("%w: most charges on one order: %d, most effects: %d, "+
		"paid orders without a charge: %d, failed orders with one: %d, "+
		"failed without a decline: %d, charges without an order: %d, "+
		"of a wrong amount: %d, that the shop does not know: %d",
		ErrProof, p.Most, p.MostEffects, p.NoCharge, p.OnFailed, p.NoDecline, p.NoOrder,
		p.WrongAmount, p.WrongID)
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
