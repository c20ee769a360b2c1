package proof

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"onced/api/demo/book"
)

var testNow = time.Unix(1_700_000_000, 0)

var testValues = map[book.Service]string{book.Loyalty: "100", book.Voucher: "TENOFF",
	book.Charge: "10.00 USD"}

// good is a world in which everything is as it should be: A was paid; B was refused
// by the order service, and all before it was taken back; C was refused at once; D was
// refused in its first round and paid in its second; E is under way, with half of its
// effects.
func good() Facts {
	f := Facts{Books: Books{}, Values: testValues, Now: testNow}
	add := func(s book.Service, kind book.Kind, ref string) {
		order, _, _ := strings.Cut(ref, ".")
		e := book.Entry{Kind: kind, ID: string(s) + "_" + ref, Order: order, Reference: ref,
			Value: testValues[s]}
		if kind == book.Undo {
			e.ID, e.Of = "undo_"+e.ID, e.ID
		}
		if s == book.Order && kind == book.Effect {
			e.Value = "charge_" + ref
		}
		f.Books[s] = append(f.Books[s], e)
	}
	paid := func(ref string) {
		for _, s := range book.Services() {
			add(s, book.Effect, ref)
		}
	}
	undone := func(ref string) {
		for _, s := range book.Services()[:3] {
			add(s, book.Effect, ref)
		}
		add(book.Order, book.Refusal, ref)
		for _, s := range []book.Service{book.Charge, book.Voucher, book.Loyalty} {
			add(s, book.Undo, ref)
		}
	}
	paid("A.1")
	undone("B.1")
	add(book.Loyalty, book.Refusal, "C.1")
	undone("D.1")
	paid("D.2")
	add(book.Loyalty, book.Effect, "E.1")
	add(book.Voucher, book.Effect, "E.1")
	add(book.Charge, book.Absent, "E.1")
	add(book.Charge, book.Told, "A.1")
	f.Orders = []Order{{ID: "A", State: Paid}, {ID: "B", State: Failed}, {ID: "C", State: Failed},
		{ID: "D", State: Paid}, {ID: "E", State: Pending}}
	return f
}

// rest is the good world without what is under way.
func rest() Facts {
	f := good()
	f.Orders = f.Orders[:4]
	for s, entries := range f.Books {
		f.Books[s] = slices.DeleteFunc(entries, func(e book.Entry) bool { return e.Order == "E" })
	}
	return f
}

func TestGoodWorldIsProven(t *testing.T) {
	p := Of(rest())
	if !p.Proven || !p.ZeroDoubleCharges || len(p.Wrong) > 0 ||
		p.Paid != 2 || p.Failed != 2 || p.Pending != 0 {
		t.Errorf("%+v", p)
	}
	if want := (Sums{Effects: 4, Undone: 2, Standing: 2, Most: 1}); p.Ledgers[book.Charge] != want {
		t.Errorf("the gateway's sums: %+v", p.Ledgers[book.Charge])
	}
	if want := (Sums{Effects: 2, Standing: 2, Refused: 2, Most: 1}); p.Ledgers[book.Order] != want {
		t.Errorf("the sums of orders: %+v", p.Ledgers[book.Order])
	}
	if p.RealCharges != 4 || p.MostCharges != 1 || p.MostEffects != 1 {
		t.Errorf("%+v", p)
	}
	p = Of(good())
	if p.Proven || !p.Agrees() || p.Pending != 1 {
		t.Errorf("under way: %+v", p)
	}
	if p := Of(Facts{}); p.Proven || !p.Agrees() {
		t.Errorf("nothing was placed: %+v", p)
	}
}

// find returns the entry of a service, by kind and reference.
func find(t *testing.T, f Facts, s book.Service, kind book.Kind, ref string) int {
	t.Helper()
	i := slices.IndexFunc(f.Books[s], func(e book.Entry) bool { return e.Kind == kind && e.Reference == ref })
	if i < 0 {
		t.Fatalf("no %s %s at %s", kind, ref, s)
	}
	return i
}

// harm is one way to spoil a world, and what the proof must say of it.
type harm struct {
	name  string
	spoil func(t *testing.T, f *Facts)
	finds func(*Findings) *int
	order string
}

func drop(s book.Service, kind book.Kind, ref string) func(*testing.T, *Facts) {
	return func(t *testing.T, f *Facts) {
		t.Helper()
		i := find(t, *f, s, kind, ref)
		f.Books[s] = slices.Delete(f.Books[s], i, i+1)
	}
}

// again has an entry written once more, with another id unless it is "".
func again(s book.Service, kind book.Kind, ref, id string) func(*testing.T, *Facts) {
	return func(t *testing.T, f *Facts) {
		t.Helper()
		i := find(t, *f, s, kind, ref)
		e := f.Books[s][i]
		if id != "" {
			e.ID = id
		}
		f.Books[s] = slices.Insert(f.Books[s], i+1, e)
	}
}

func change(s book.Service, kind book.Kind, ref string, to func(*book.Entry)) func(*testing.T, *Facts) {
	return func(t *testing.T, f *Facts) {
		t.Helper()
		to(&f.Books[s][find(t, *f, s, kind, ref)])
	}
}

func state(order string, to State) func(*testing.T, *Facts) {
	return func(_ *testing.T, f *Facts) {
		for i := range f.Orders {
			if f.Orders[i].ID == order {
				f.Orders[i].State = to
			}
		}
	}
}

func twice(f *Findings) *int       { return &f.Twice }
func undoneTwice(f *Findings) *int { return &f.UndoneTwice }
func missing(f *Findings) *int     { return &f.Missing }
func left(f *Findings) *int        { return &f.Left }
func noOrder(f *Findings) *int     { return &f.NoOrder }
func wrongValue(f *Findings) *int  { return &f.WrongValue }
func wrongCharge(f *Findings) *int { return &f.WrongCharge }
func noReason(f *Findings) *int    { return &f.NoReason }

func harms() []harm {
	other := func(e *book.Entry) { e.Value = "something else" }
	stranger := func(e *book.Entry) { e.Order, e.Reference = "X", "X.1" }
	var all []harm
	for _, s := range book.Services() {
		name := func(text string) string { return string(s) + " " + text }
		all = append(all,
			harm{name("missing"), drop(s, book.Effect, "A.1"), missing, "A"},
			harm{name("missing in the second round"), drop(s, book.Effect, "D.2"), missing, "D"},
			harm{name("twice"), again(s, book.Effect, "A.1", "another"), twice, "A"},
			harm{name("the same line twice"), again(s, book.Effect, "A.1", ""), twice, "A"},
			harm{name("without an order"), func(t *testing.T, f *Facts) {
				t.Helper()
				again(s, book.Effect, "A.1", "stray")(t, f)
				stranger(&f.Books[s][find(t, *f, s, book.Effect, "A.1")])
			}, noOrder, "X"},
		)
		if s == book.Order {
			continue
		}
		all = append(all,
			harm{name("never given back"), drop(s, book.Undo, "B.1"), left, "B"},
			harm{name("twice, and given back once"), again(s, book.Effect, "B.1", "another"), twice, "B"},
			harm{name("given back twice"), again(s, book.Undo, "B.1", "another"), undoneTwice, "B"},
			harm{name("given back, and never taken"), drop(s, book.Effect, "B.1"), undoneTwice, "B"},
			harm{name("of a paid order given back"), func(_ *testing.T, f *Facts) {
				f.Books[s] = append(f.Books[s], book.Entry{Kind: book.Undo, Order: "A", Reference: "A.1",
					Of: string(s) + "_A.1", Value: testValues[s]})
			}, missing, "A"},
			harm{name("again after it was given back"), func(t *testing.T, f *Facts) {
				t.Helper()
				e := f.Books[s][find(t, *f, s, book.Effect, "B.1")]
				e.ID = "late"
				f.Books[s] = append(f.Books[s], e)
			}, left, "B"},
			harm{name("of a wrong value"), change(s, book.Effect, "A.1", other), wrongValue, "A"},
			harm{name("given back in part"), change(s, book.Undo, "B.1", other), wrongValue, "B"},
			harm{name("before round one ended"), func(t *testing.T, f *Facts) {
				t.Helper()
				i := find(t, *f, s, book.Undo, "D.1")
				e := f.Books[s][i]
				f.Books[s] = append(slices.Delete(f.Books[s], i, i+1), e)
			}, twice, "D"},
		)
	}
	return append(all,
		harm{"order of another charge", change(book.Order, book.Effect, "A.1", other), wrongCharge, "A"},
		harm{"order of a charge of another's",
			change(book.Order, book.Effect, "A.1", func(e *book.Entry) { e.Value = "charge_D.2" }),
			wrongCharge, "A"},
		harm{"order of a charge that was refunded", change(book.Order, book.Effect, "D.2",
			func(e *book.Entry) { e.Value = "charge_D.1" }), wrongCharge, "D"},
		harm{"failed for nothing", drop(book.Loyalty, book.Refusal, "C.1"), noReason, "C"},
		harm{"told failed, and stands", state("A", Failed), left, "A"},
		harm{"told paid, and was undone", state("B", Paid), missing, "B"},
		harm{"told paid, and was refused", state("C", Paid), missing, "C"},
	)
}

// Each kind of harm is found, in the right order and as what it is.
func TestEveryHarmIsFound(t *testing.T) {
	all := harms()
	if len(all) < 4*5+3*8+7 {
		t.Fatalf("only %d harms", len(all))
	}
	for _, h := range all {
		f := rest()
		h.spoil(t, &f)
		p := Of(f)
		if p.Proven || p.Agrees() {
			t.Errorf("%s: proven all the same", h.name)
		}
		if *h.finds(&p.Findings) == 0 {
			t.Errorf("%s: it is found to be something else: %+v", h.name, p.Findings)
		}
		if !slices.ContainsFunc(p.Wrong, func(w Wrong) bool { return w.Order == h.order && w.Why != "" }) {
			t.Errorf("%s: it names %+v, not %s", h.name, p.Wrong, h.order)
		}
	}
}

// Two orders of which one was charged twice and the other never: the totals agree.
func TestTotalsProveNothing(t *testing.T) {
	for _, s := range book.Services() {
		f := rest()
		again(s, book.Effect, "A.1", "another")(t, &f)
		drop(s, book.Effect, "D.2")(t, &f)
		p := Of(f)
		if p.Ledgers[s].Standing != p.Paid {
			t.Fatalf("%s: this test shows nothing: %+v", s, p.Ledgers[s])
		}
		if p.Proven || p.Findings.Twice != 1 || p.Findings.Missing != 1 || len(p.Wrong) != 2 {
			t.Errorf("%s: %+v", s, p)
		}
		if p.ZeroDoubleCharges != (s != book.Charge) {
			t.Errorf("%s: zeroDoubleCharges is %v", s, p.ZeroDoubleCharges)
		}
		if s == book.Charge && (p.MostCharges != 2 || p.ChargesNot1 != 2) {
			t.Errorf("%s: %+v", s, p)
		}
	}
}

// A random harm upon another is found still.
func TestHarmsDoNotCancelOut(t *testing.T) {
	all := harms()
	r := rand.New(rand.NewPCG(1, 2))
	tried := 0
	for range 3000 {
		a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
		if a.order == b.order { // one may undo the other, and rightly
			continue
		}
		tried++
		f := rest()
		a.spoil(t, &f)
		if b.order == "X" || a.order == "X" {
			continue // it moves an entry that the other one wants
		}
		b.spoil(t, &f)
		if p := Of(f); p.Proven || *a.finds(&p.Findings) == 0 || *b.finds(&p.Findings) == 0 {
			t.Fatalf("%s and %s: %+v", a.name, b.name, p.Findings)
		}
	}
	if tried < 1000 {
		t.Errorf("only %d pairs", tried)
	}
}

// An order under way may be half done, and nothing of it may happen twice.
func TestUnderWay(t *testing.T) {
	f := good()
	f.Orders[4].Unknown = testNow.Add(-3 * time.Second)
	f.Orders[4].Needs = "held: it is not known whether step charge happened"
	p := Of(f)
	if p.Unknowns != 1 || len(p.OldUnknowns) != 1 || p.OldUnknowns[0].AgeMS != 3000 ||
		p.OldUnknowns[0].Order != "E" {
		t.Errorf("unknown: %+v", p)
	}
	if p.NeedPerson != 1 || len(p.People) != 1 || p.People[0].Order != "E" || p.People[0].Why == "" {
		t.Errorf("held: %+v", p)
	}
	again(book.Voucher, book.Effect, "E.1", "another")(t, &f)
	if p := Of(f); p.Findings.Twice != 1 || p.Agrees() {
		t.Errorf("twice, under way: %+v", p)
	}
}

// What was placed while the ledgers were read is no stray.
func TestPlacedMeanwhile(t *testing.T) {
	f := rest()
	f.Orders = f.Orders[1:]
	if p := Of(f); p.Findings.NoOrder != 4 || p.Proven {
		t.Errorf("nobody knows A: %+v", p.Findings)
	}
	f.Known = func(order string) bool { return order == "A" }
	if p := Of(f); !p.Proven {
		t.Errorf("A is known: %+v", p)
	}
}

// A release of what was not redeemed takes nothing back.
func TestUndoOfNothing(t *testing.T) {
	f := rest()
	f.Books[book.Voucher] = append(f.Books[book.Voucher],
		book.Entry{Kind: book.Undo, ID: "u", Order: "C", Reference: "C.1"})
	if p := Of(f); !p.Proven || p.Ledgers[book.Voucher].Undone != 2 {
		t.Errorf("%+v", p)
	}
}

func TestNamesAreBounded(t *testing.T) {
	f := rest()
	for i := range 3 * shown {
		f.Orders = append(f.Orders, Order{ID: fmt.Sprint(i), State: Paid},
			Order{ID: fmt.Sprint("u", i), State: Pending, Needs: "stuck",
				Unknown: testNow.Add(-time.Duration(i) * time.Second)})
	}
	p := Of(f)
	if len(p.Wrong) != shown || len(p.OldUnknowns) != shown || len(p.People) != shown ||
		p.OldUnknowns[0].AgeMS != (3*shown-1)*1000 {
		t.Errorf("%d, %d, %d names, the oldest unknown %+v", len(p.Wrong), len(p.OldUnknowns), len(p.People),
			p.OldUnknowns[0])
	}
}
