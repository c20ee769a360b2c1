package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

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
	row("real charges in the gateway's ledger", p.RealCharges, false)
	row("most charges on one order", p.Most, p.Most > 1)
	row("orders with charges not 1", p.ChargesNot1, p.ChargesNot1 > 0)
	row("most effects on one order", p.MostEffects, p.MostEffects > 1)
	row("orders without charge", p.NoCharge, p.NoCharge > 0)
	row("charges without order", p.NoOrder, p.NoOrder > 0)
	row("failed orders with a charge", p.OnFailed, p.OnFailed > 0)
	row("failed orders without a decline", p.NoDecline, p.NoDecline > 0)
	row("charges of a wrong amount", p.WrongAmount, p.WrongAmount > 0)
	row("charges that the shop does not know", p.WrongID, p.WrongID > 0)
	row("open unknowns", p.Unknowns, p.Unknowns > 0)
	row("callbacks sent", p.CallbacksSent, false)
	row("dropped callbacks, found by reconciling", p.Undelivered, false)
	again := "callbacks repeated to the shop, ignored"
	if !p.Protected {
		again = "callbacks repeated to the shop, applied"
	}
	row(again, p.CallbacksAgain, false)
	killed := map[bool]string{true: "service killed", false: "calls cut off"}[p.Protected]
	row(killed, killsText(p.Kills), false)
	row("took", took.Round(100*time.Millisecond), false)
	verdict := "the proof FAILED"
	if p.verdict(c.Orders) == nil {
		verdict = "proven: every paid order was charged once, every failed one never"
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.Stdout, "\n%s\n\n", verdict); err != nil {
		return err
	}
	return enc.Encode(p)
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
