package demo

import (
	"errors"
	"fmt"

	"onced/api/demo/proof"
)

// ErrProof means that some order is not as it should be, or that not all came to an
// end.
var ErrProof = errors.New("demo: the proof failed")

// Proof is the proof of the ledgers, and what is known besides.
type Proof struct {
	proof.Proof

	// Protected says that the service stands between shop and services.
	Protected bool `json:"protected"`
	// CallbacksSent were tried.
	CallbacksSent int `json:"callbacksSent"`
	// Kills of the service by point, and how often it came up. Pid is its process
	// now, 0 while it is down.
	Kills  map[string]int `json:"kills"`
	Starts int            `json:"serviceStarts"`
	Pid    int            `json:"servicePid"`

	Toggles map[string]bool `json:"toggles"`
	CrashAt string          `json:"crashAt,omitempty"`
}

// verdict returns nil when the proof holds for the number of orders wanted.
func (p Proof) verdict(orders int) error {
	switch {
	case orders == 0:
		return fmt.Errorf("%w: there is no order", ErrProof)
	case p.Proven && p.DistinctOrders == orders:
		return nil
	case p.DistinctOrders != orders:
		return fmt.Errorf("%w: %d of %d orders were placed", ErrProof, p.DistinctOrders, orders)
	case p.NeedPerson > 0:
		return fmt.Errorf("%w: %d orders wait for a person", ErrProof, p.NeedPerson)
	case p.Pending > 0:
		return fmt.Errorf("%w: %d orders did not come to an end", ErrProof, p.Pending)
	}
	f := p.Findings
	return fmt.Errorf("%w: effects that happened twice: %d, taken back too often: %d, "+
		"missing of paid orders: %d, left of failed ones: %d, of no order: %d, of a wrong value: %d, "+
		"orders of another charge: %d, failed for nothing: %d; most charges on one order: %d",
		ErrProof, f.Twice, f.UndoneTwice, f.Missing, f.Left, f.NoOrder, f.WrongValue, f.WrongCharge,
		f.NoReason, p.MostCharges)
}
