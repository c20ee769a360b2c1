// Package proof judges the demo: it compares the ledgers of the four services with
// the orders that the shop took, one by one.
//
// # What is guaranteed
//
// [Of] is a pure function. It asks neither onced nor the services, only what they
// wrote down. It is content with an order that was paid when each of the four effects
// stands exactly once, with one that failed when none stands and somebody refused it,
// and with one under way as long as nothing happened twice.
//
// # What is not
//
// It knows nothing that is in no ledger. A service that does more than it writes down
// deceives it.
//
// # What survives a crash, and what the caller must do
//
// Nothing is kept here. The caller reads the orders first and the ledgers after them:
// what an order was told is then in the ledgers already.
package proof

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"onced/api/demo/book"
)

// State is what the shop told its customer about an order.
type State string

// The states.
const (
	Pending State = "pending" // it is under way
	Paid    State = "paid"    // all of it stands
	Failed  State = "failed"  // nothing of it stands
)

// Order is what the shop knows of an order.
type Order struct {
	ID    string
	State State
	// Unknown is since when nobody has known what became of it; zero when somebody does.
	Unknown time.Time
	// Needs says why a person is needed, when one is: its run is held or stuck.
	Needs string
}

// Books are the entries of each service.
type Books map[book.Service][]book.Entry

// Facts are what a proof is made of.
type Facts struct {
	Orders []Order
	Books  Books
	// Values are what one order costs at each service; of a service without one any
	// value is right.
	Values map[book.Service]string
	// Known reports an order that was placed after Orders were read; nil is none.
	Known func(order string) bool
	Now   time.Time
}

// Sums are the totals of one ledger.
type Sums struct {
	// Effects happened, Undone is how often one was taken back, Standing are those of
	// which none was. Refused are the references that were refused.
	Effects  int `json:"effects"`
	Undone   int `json:"undone"`
	Standing int `json:"standing"`
	Refused  int `json:"refused"`
	// Most is the most effects that one order has had without one taken back: 1 or
	// less in a good demo.
	Most int `json:"most"`
}

// Again is how many of Undone took back what did not stand: a second time, or for
// nothing. It is 0 in a good demo; then Effects are Undone and Standing together.
func (s Sums) Again() int { return s.Undone + s.Standing - s.Effects }

// Findings are what is wrong, by kind. Each is 0 in a good demo.
type Findings struct {
	// Twice: an effect that happened again although it stood.
	Twice int `json:"effectsTwice"`
	// UndoneTwice: an effect that was taken back more than once, or one that never
	// was.
	UndoneTwice int `json:"undosWithoutEffect"`
	// Missing: an effect of a paid order that does not stand.
	Missing int `json:"paidWithoutEffect"`
	// Left: an effect of a failed order that stands.
	Left int `json:"failedWithEffect"`
	// NoOrder: an effect that stands for an order that nobody placed.
	NoOrder int `json:"effectsWithoutOrder"`
	// WrongValue: an effect of something else than the order's, or an undo of
	// something else than its effect.
	WrongValue int `json:"effectsOfWrongValue"`
	// WrongCharge: an order that was made for a charge that does not stand.
	WrongCharge int `json:"ordersOfUnknownCharge"`
	// NoReason: an order that failed though nobody refused it.
	NoReason int `json:"failedWithoutRefusal"`
}

func (f Findings) any() bool { return f != Findings{} }

// Wrong is an order that is not as it should be.
type Wrong struct {
	Order string `json:"orderId"`
	// Status is pending, paid, failed, or not an order.
	Status string `json:"status"`
	// Charges and Effects are its standing charges, and the orders that stand for it.
	Charges int    `json:"charges"`
	Effects int    `json:"effects"`
	Why     string `json:"why"`
}

// Open is an order whose outcome is not known, or whose run waits for a person.
type Open struct {
	Order string `json:"orderId"`
	// AgeMS is for how long nobody has known, in milliseconds.
	AgeMS int64 `json:"ageMs,omitempty"`
	// Why is what a person is needed for.
	Why string `json:"why,omitempty"`
}

// Proof is the result.
type Proof struct {
	// DistinctOrders were placed; RealCharges are in the gateway's ledger, refunded or
	// not.
	DistinctOrders int `json:"distinctOrders"`
	RealCharges    int `json:"realCharges"`
	// ZeroDoubleCharges says that no order was charged while a charge stood, whatever
	// the totals.
	ZeroDoubleCharges bool `json:"zeroDoubleCharges"`
	// Proven says that there is an order, that every one came to its end, and that
	// nothing is wrong.
	Proven bool `json:"proven"`

	Paid    int `json:"paidOrders"`
	Failed  int `json:"failedOrders"`
	Pending int `json:"pendingOrders"`

	// ChargesNot1 are paid orders without exactly one standing charge, and others with
	// more than one.
	ChargesNot1 int `json:"ordersWithChargesNot1"`
	// MostCharges and MostEffects are the most charges that stood for one order, and
	// the most orders that were made for one.
	MostCharges int `json:"mostChargesOnOneOrder"`
	MostEffects int `json:"mostEffectsOnOneOrder"`

	Ledgers  map[book.Service]Sums `json:"ledgers"`
	Findings Findings              `json:"findings"`
	// Wrong are some of the orders that are not as they should be.
	Wrong []Wrong `json:"wrongOrders"`

	// Unknowns are orders of which nobody knows; OldUnknowns are some.
	Unknowns    int    `json:"openUnknowns"`
	OldUnknowns []Open `json:"oldestUnknowns"`
	// NeedPerson are orders whose runs are held or stuck; People are some.
	NeedPerson int    `json:"needPerson"`
	People     []Open `json:"waitingForPerson"`
}

// shown bounds the orders that a proof names.
const shown = 10

// Of proves.
func Of(f Facts) Proof {
	p := Proof{DistinctOrders: len(f.Orders), Ledgers: map[book.Service]Sums{}, Wrong: []Wrong{},
		OldUnknowns: []Open{}, People: []Open{}}
	accounts := f.accounts()
	known := make(map[string]bool, len(f.Orders))
	for i := range f.Orders {
		o := &f.Orders[i]
		known[o.ID] = true
		p.count(f, o, accounts[o.ID])
	}
	for id, a := range accounts {
		p.sum(a)
		if known[id] || f.Known != nil && f.Known(id) {
			continue
		}
		p.stray(f, id, a)
	}
	p.finish()
	return p
}

func (p *Proof) finish() {
	slices.SortFunc(p.Wrong, func(a, b Wrong) int {
		if a.Charges != b.Charges {
			return b.Charges - a.Charges
		}
		return strings.Compare(a.Order, b.Order)
	})
	slices.SortStableFunc(p.OldUnknowns, func(a, b Open) int { return int(b.AgeMS - a.AgeMS) })
	p.Wrong = p.Wrong[:min(shown, len(p.Wrong))]
	p.OldUnknowns = p.OldUnknowns[:min(shown, len(p.OldUnknowns))]
	p.People = p.People[:min(shown, len(p.People))]
	p.RealCharges = p.Ledgers[book.Charge].Effects
	p.MostCharges, p.MostEffects = p.Ledgers[book.Charge].Most, p.Ledgers[book.Order].Most
	p.ZeroDoubleCharges = p.MostCharges <= 1
	p.Proven = p.DistinctOrders > 0 && p.Pending == 0 && p.Agrees()
}

// Agrees reports that nothing is wrong, whatever is still under way.
func (p *Proof) Agrees() bool {
	return p.ZeroDoubleCharges && p.ChargesNot1 == 0 && !p.Findings.any()
}

// count takes one order into the proof.
func (p *Proof) count(f Facts, o *Order, a *account) {
	switch o.State {
	case Paid:
		p.Paid++
	case Failed:
		p.Failed++
	default:
		p.Pending++
		p.open(f, o)
	}
	j := judge{f: f, p: p, a: a}
	j.always()
	charges := a.at(book.Charge).standing()
	switch o.State {
	case Paid:
		for _, s := range book.Services() {
			n := a.at(s).standing()
			j.wrong(n == 0, &p.Findings.Missing, "paid without "+noun(s))
		}
		if charges != 1 {
			p.ChargesNot1++
		}
	case Failed:
		for _, s := range book.Services() {
			n := a.at(s).standing()
			j.wrong(n > 0, &p.Findings.Left, "failed, and "+noun(s)+" stands")
		}
		j.wrong(!a.refused(), &p.Findings.NoReason, "failed though nobody refused it")
		fallthrough
	default:
		if charges > 1 {
			p.ChargesNot1++
		}
	}
	p.name(o.ID, string(o.State), a, j.why)
}

// open takes an order that has not come to its end into the proof.
func (p *Proof) open(f Facts, o *Order) {
	if o.Needs != "" {
		p.NeedPerson++
		p.People = append(p.People, Open{Order: o.ID, Why: o.Needs})
	}
	if !o.Unknown.IsZero() {
		p.Unknowns++
		p.OldUnknowns = append(p.OldUnknowns,
			Open{Order: o.ID, AgeMS: f.Now.Sub(o.Unknown).Milliseconds()})
	}
}

// stray takes what belongs to no order into the proof.
func (p *Proof) stray(f Facts, id string, a *account) {
	j := judge{f: f, p: p, a: a}
	j.always()
	for _, s := range book.Services() {
		n := a.at(s).standing()
		j.wrong(n > 0, &p.Findings.NoOrder, noun(s)+" stands without an order")
	}
	p.name(id, "not an order", a, j.why)
}

func (p *Proof) name(id, status string, a *account, why []string) {
	if len(why) > 0 {
		p.Wrong = append(p.Wrong, Wrong{Order: id, Status: status, Charges: a.at(book.Charge).standing(),
			Effects: a.at(book.Order).standing(), Why: strings.Join(why, "; ")})
	}
}

// sum adds an account to the totals.
func (p *Proof) sum(a *account) {
	for _, s := range book.Services() {
		t, l := p.Ledgers[s], a.at(s)
		t.Effects += l.effects
		t.Undone += l.undone
		t.Standing += l.standing()
		t.Refused += len(l.refused)
		t.Most = max(t.Most, l.most())
		p.Ledgers[s] = t
	}
}

// judge finds what is wrong with one order.
type judge struct {
	f   Facts
	p   *Proof
	a   *account
	why []string
}

func (j *judge) wrong(is bool, n *int, text string) {
	if is {
		*n++
		j.why = append(j.why, text)
	}
}

// always finds what is wrong with an order in whatever state.
func (j *judge) always() {
	for _, s := range book.Services() {
		l := j.a.at(s)
		n := l.most()
		j.wrong(n > 1, &j.p.Findings.Twice, fmt.Sprintf("%s %d times", noun(s), n))
		j.wrong(l.vain, &j.p.Findings.UndoneTwice, noun(s)+" was taken back more often than it happened")
		value, fixed := j.f.Values[s]
		for _, v := range l.values {
			j.wrong(fixed && v != value, &j.p.Findings.WrongValue, noun(s)+" of "+v)
		}
		j.wrong(l.unequal, &j.p.Findings.WrongValue, "something else was taken back than "+noun(s))
	}
	for _, charge := range j.a.at(book.Order).values {
		j.wrong(!slices.Contains(j.a.at(book.Charge).ids(), charge), &j.p.Findings.WrongCharge,
			"made for the charge "+charge+", which does not stand")
	}
}

// noun names what a service does, for people.
func noun(s book.Service) string {
	return map[book.Service]string{book.Loyalty: "points spent", book.Voucher: "a voucher redeemed",
		book.Charge: "a charge", book.Order: "an order made"}[s]
}
