package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"onced/api/demo/book"
)

// ledgerTitles name the ledgers and what is in them, for people.
var ledgerTitles = map[book.Service][3]string{
	book.Loyalty: {"points", "spent", "given back"},
	book.Voucher: {"vouchers", "redeemed", "released"},
	book.Charge:  {"charges", "made", "refunded"},
	book.Order:   {"orders", "made", "taken back"},
}

// report prints the proof as a table and as one line of JSON, or as JSON alone.
func report(c Config, p Proof, took time.Duration) error {
	enc := json.NewEncoder(c.Stdout)
	if c.JSON {
		enc.SetIndent("", "  ")
		return enc.Encode(p)
	}
	w := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
	row := func(name string, value any, wrong bool) {
		mark := ""
		if wrong {
			mark = "WRONG"
		}
		_, _ = fmt.Fprintln(w, strings.TrimSuffix(fmt.Sprintf("%s\t%v\t%s", name, value, mark), "\t"))
	}
	who := "through onced"
	if !p.Protected {
		who = "WITHOUT onced, retried by the shop"
	}
	row("orders placed "+who, p.DistinctOrders, p.DistinctOrders != c.Orders)
	row("  paid", p.Paid, false)
	row("  failed", p.Failed, false)
	row("  pending", p.Pending, p.Pending > 0)
	row("  of these waiting for a person", p.NeedPerson, p.NeedPerson > 0)
	ledgerRows(p, row)
	row("real charges in the gateway's ledger", p.RealCharges, false)
	row("most charges on one order", p.MostCharges, p.MostCharges > 1)
	row("orders with charges not 1", p.ChargesNot1, p.ChargesNot1 > 0)
	f := p.Findings
	row("effects that happened twice", f.Twice, f.Twice > 0)
	row("effects taken back twice, or for nothing", f.UndoneTwice, f.UndoneTwice > 0)
	row("paid orders, half done", f.Missing, f.Missing > 0)
	row("failed orders, half undone", f.Left, f.Left > 0)
	row("failed orders that nobody refused", f.NoReason, f.NoReason > 0)
	row("effects without an order", f.NoOrder, f.NoOrder > 0)
	row("effects of a wrong value", f.WrongValue, f.WrongValue > 0)
	row("orders made for another charge", f.WrongCharge, f.WrongCharge > 0)
	row("open unknowns", p.Unknowns, p.Unknowns > 0)
	row("callbacks sent", p.CallbacksSent, false)
	killed := map[bool]string{true: "service killed", false: "calls cut off"}[p.Protected]
	row(killed, killsText(p.Kills), false)
	row("took", took.Round(100*time.Millisecond), false)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, o := range p.People {
		_, _ = fmt.Fprintf(c.Stdout, "%s waits for a person: %s\n", o.Order, o.Why)
	}
	for _, o := range p.Wrong {
		_, _ = fmt.Fprintf(c.Stdout, "%s (%s): %s\n", o.Order, o.Status, o.Why)
	}
	verdict := "the proof FAILED"
	if p.verdict(c.Orders) == nil {
		verdict = "proven: every paid order was charged once, every failed one never; " +
			"of each all four steps stand, or none"
	}
	if _, err := fmt.Fprintf(c.Stdout, "\n%s\n\n", verdict); err != nil {
		return err
	}
	return enc.Encode(p)
}

// ledgerRows prints the totals of the ledgers.
func ledgerRows(p Proof, row func(name string, value any, wrong bool)) {
	for _, s := range book.Services() {
		t, sums := ledgerTitles[s], p.Ledgers[s]
		again := ""
		if n := sums.Again(); n > 0 {
			again = fmt.Sprintf(" (%d of them again, or for nothing)", n)
		}
		text := fmt.Sprintf("%d %s, %d %s%s, %d stand", sums.Effects, t[1], sums.Undone, t[2], again,
			sums.Standing)
		if s == book.Order {
			text = fmt.Sprintf("%d made", sums.Effects)
		}
		row(t[0], text, p.Pending == 0 && sums.Standing != p.Paid)
	}
}

func killsText(kills map[string]int) string {
	var parts []string
	for point, n := range kills {
		parts = append(parts, fmt.Sprintf("%d %s", n, point))
	}
	if len(parts) == 0 {
		return "never"
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
