package callee

import (
	"fmt"
	"net/http"
	"strings"

	"onced/api/demo/book"
)

// The paths of the services.
const (
	SpendPath       = "/loyalty/spend"       // spends points
	ReturnPath      = "/loyalty/return"      // gives them back
	RedeemPath      = "/voucher/redeem"      // redeems a voucher
	ReleasePath     = "/voucher/release"     // releases it
	RedemptionsPath = "/voucher/redemptions" // looks up by reference
	ChargesPath     = "/gateway/charges"     // charges, and looks up by reference
	RefundsPath     = "/gateway/refunds"     // refunds
	OrdersPath      = "/orders"              // makes an order, and looks up by reference
)

// Reference names one try of an order; the rounds count from 1.
func Reference(order string, round int) string { return fmt.Sprintf("%s.%d", order, round) }

// orderOf is the order of a reference.
func orderOf(reference string) string {
	if i := strings.LastIndexByte(reference, '.'); i > 0 {
		return reference[:i]
	}
	return reference
}

// titles name the services, for people.
var titles = map[book.Service]string{book.Loyalty: "the loyalty service", book.Voucher: "the voucher service",
	book.Charge: "the gateway", book.Order: "the order service"}

func (s *service) title() string { return titles[s.name] }

// title begins a sentence.
func title(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func (s *Services) loyalty(mux *http.ServeMux) {
	one := s.all[book.Loyalty]
	mux.HandleFunc("POST "+SpendPath, one.handle("spend", false, func(o *op) (reply, error) {
		o.value = fmt.Sprint(o.Points)
		switch {
		case len(one.ledger.Find(o.Reference).Undos) > 0:
			return o.refuse("The loyalty service refused: the points were given back already.")
		case o.refused():
			return o.refuse("The loyalty service refused: not enough points.")
		}
		return o.effect("pts", o.value+" points were spent (%s).")
	}))
	mux.HandleFunc("POST "+ReturnPath, one.handle("return", true, func(o *op) (reply, error) {
		a := one.ledger.Find(o.Reference)
		if len(a.Effects) == 0 {
			return o.takeBack(nil, "There were no points to give back.")
		}
		return o.takeBack(&a.Effects[0], "The points were given back.") // and again for another key
	}))
}

func (s *Services) voucher(mux *http.ServeMux) {
	one := s.all[book.Voucher]
	mux.HandleFunc("POST "+RedeemPath, one.handle("redeem", false, func(o *op) (reply, error) {
		o.value = o.Voucher
		switch {
		case len(one.ledger.Find(o.Reference).Undos) > 0:
			return o.refuse("The voucher service refused: the voucher was released already.")
		case o.refused():
			return o.refuse("The voucher service refused: the voucher is not valid.")
		}
		return o.effect("red", "The voucher "+o.value+" was redeemed (%s).")
	}))
	mux.HandleFunc("POST "+ReleasePath, one.handle("release", true, func(o *op) (reply, error) {
		return o.takeBackOnce(one.ledger.Find(o.Reference), "The voucher was released.",
			"There was no voucher to release.")
	}))
	mux.HandleFunc("GET "+RedemptionsPath+"/{reference}", one.lookUp)
}

func (s *Services) order(mux *http.ServeMux) {
	one := s.all[book.Order]
	mux.HandleFunc("POST "+OrdersPath, one.handle("create", false, func(o *op) (reply, error) {
		o.value = o.Charge
		if o.refused() {
			return o.refuse("The order service refused: out of stock.")
		}
		return o.effect("order", "The order was made and shipped (%s).")
	}))
	mux.HandleFunc("GET "+OrdersPath+"/{reference}", one.lookUp)
}

// takeBackOnce takes back what stands of an account, and is content when nothing does.
func (o *op) takeBackOnce(a book.Account, story, nothing string) (reply, error) {
	undone := map[string]bool{}
	for _, u := range a.Undos {
		undone[u.Of] = true
	}
	for i := range a.Effects {
		if !undone[a.Effects[i].ID] {
			return o.takeBack(&a.Effects[i], story)
		}
	}
	if len(a.Undos) > 0 { // it was taken back already
		return reply{status: http.StatusOK, Answer: Answer{ID: a.Undos[0].ID, Status: StatusDone,
			Reference: o.Reference}}, nil
	}
	return o.takeBack(nil, nothing)
}
