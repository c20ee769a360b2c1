package demo

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"onced/api/demo/book"
	"onced/api/demo/proof"
)

//go:embed page
var pageFiles embed.FS

// pages are the templates: the page, and the parts of it that change.
type pages struct{ t *template.Template }

func loadPages() (*pages, error) {
	t, err := template.ParseFS(pageFiles, "page/*.html")
	if err != nil {
		return nil, err
	}
	return &pages{t: t}, nil
}

// partNames are the parts of the page that change.
var partNames = []string{"proof", "switches", "orders"}

// render returns the changing parts of the page.
func (p *pages) render(w *world) (map[string]string, error) {
	v := newPageView(w)
	parts := map[string]string{}
	for _, name := range partNames {
		var b bytes.Buffer
		if err := p.t.ExecuteTemplate(&b, name, v); err != nil {
			return nil, err
		}
		parts[name] = b.String()
	}
	return parts, nil
}

// page serves the page, complete without its script.
func (d *demo) page(w http.ResponseWriter, _ *http.Request) {
	world := d.present(w)
	if world == nil {
		return
	}
	var b bytes.Buffer
	if err := d.pages.t.ExecuteTemplate(&b, "page", newPageView(world)); err != nil {
		refuse(w, http.StatusInternalServerError, "the page cannot be made")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = b.WriteTo(w)
}

// assetTypes are the files that the page loads.
var assetTypes = map[string]string{
	"demo.css": "text/css; charset=utf-8", "demo.js": "text/javascript; charset=utf-8",
}

func asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	kind := assetTypes[name]
	if kind == "" {
		http.NotFound(w, r)
		return
	}
	text, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(text) //nolint:gosec // one of two files of our own
}

// pageView is what the templates show.
type pageView struct {
	Good      bool   // nothing is wrong so far
	Headline  string // the proof in a sentence
	Protected bool
	Numbers   []numberView
	Ledgers   []ledgerView
	Wrong     []proof.Wrong
	People    []proof.Open
	Service   string
	Switches  []switchView
	Next      string // a name for the next order
	Orders    []orderView
}

type numberView struct {
	Value int
	Name  string
	Bad   bool
}

type ledgerView struct {
	Name, Did, Took string // what is in it: done, and taken back
	proof.Sums
	Bad bool
}

type switchView struct {
	Name, Meaning, To string
	On                bool
	Places            []placeView // where it can be on; none when it is everywhere or nowhere
}

type placeView struct {
	Name, To string
	On       bool
}

type orderView struct {
	ID, State string
	Charges   int    // that stand
	Charged   string // the same in words
	Needs     string
	Bad       bool
	Steps     []stepView
	Lines     []line
	More      int
}

// stepView is one step of an order, as the ledger of its service has it.
type stepView struct{ Name, Word, Class string }

func newPageView(w *world) pageView {
	p := w.proof()
	v := pageView{Protected: p.Protected, Wrong: p.Wrong, People: p.People,
		Next: fmt.Sprintf("ord_%d", p.DistinctOrders+1)}
	v.Good = p.Agrees()
	v.Headline = headline(p, v.Good)
	f := p.Findings
	v.Numbers = []numberView{
		{p.DistinctOrders, "orders", false},
		{p.RealCharges, "real charges", false},
		{p.MostCharges, "most charges on one order", p.MostCharges > 1},
		{f.Twice + f.UndoneTwice, "done or undone twice", f.Twice+f.UndoneTwice > 0},
		{f.Missing + f.Left, "half done or half undone", f.Missing+f.Left > 0},
		{f.NoOrder + f.WrongValue + f.WrongCharge + f.NoReason, "wrong otherwise",
			f.NoOrder+f.WrongValue+f.WrongCharge+f.NoReason > 0},
		{p.Pending, "orders pending", false},
		{p.NeedPerson, "wait for a person", p.NeedPerson > 0},
	}
	for _, s := range book.Services() {
		t := ledgerTitles[s]
		v.Ledgers = append(v.Ledgers, ledgerView{t[0], t[1], t[2], p.Ledgers[s], p.Ledgers[s].Most > 1})
	}
	v.Service = serviceText(p)
	for _, name := range toggleNames {
		v.Switches = append(v.Switches, newSwitchView(w.toggles, name))
	}
	for _, t := range w.stories.last() {
		if o, found := w.shop.look(t.order); found {
			v.Orders = append(v.Orders, newOrderView(w, o, t))
		}
	}
	return v
}

func newSwitchView(t *toggles, name string) switchView {
	flip := func(on bool) string { return map[bool]string{true: "off", false: "on"}[on] }
	v := switchView{Name: name, On: t.is(name), To: flip(t.is(name)), Meaning: t.meaning(name)}
	if _, each := usualAt[name]; !each {
		return v
	}
	for _, s := range book.Services() {
		on := t.at(name, s)
		v.Places = append(v.Places, placeView{Name: string(s), On: on, To: flip(on)})
	}
	return v
}

func newOrderView(w *world, o order, t tale) orderView {
	v := orderView{ID: t.order, State: o.state(), Needs: o.needs, Lines: t.lines, More: t.more}
	paid, failed := o.state() == statePaid, o.state() == stateFailed
	for _, s := range book.Services() {
		a := w.ledgers[s].OfOrder(o.id)
		n := a.Standing()
		if s == book.Charge {
			v.Charges, v.Charged = n, charged(n, len(a.Effects) > 0)
		}
		v.Bad = v.Bad || n > 1 || paid && n == 0 || failed && n > 0
		v.Steps = append(v.Steps, newStepView(s, a, n))
	}
	return v
}

// charged says what the gateway has of an order: how many charges stand, and else
// whether there was one.
func charged(stand int, was bool) string {
	switch {
	case stand == 1:
		return "charged once"
	case stand > 1:
		return fmt.Sprintf("charged %d×", stand)
	case was:
		return "charged and refunded"
	}
	return "not charged"
}

func newStepView(s book.Service, a book.Account, n int) stepView {
	t := ledgerTitles[s]
	v := stepView{Name: t[0], Word: "not yet", Class: "none"}
	switch {
	case n > 1:
		v.Word, v.Class = fmt.Sprintf("%s %d×", t[1], n), "bad"
	case n == 1:
		v.Word, v.Class = t[1], "done"
	case a.Refused:
		v.Word, v.Class = "refused", "refused"
	case len(a.Effects) > 0:
		v.Word, v.Class = t[2], "back"
	}
	return v
}

func headline(p Proof, good bool) string {
	switch {
	case p.DistinctOrders == 0:
		return "No orders yet. Place one, then break something."
	case !p.ZeroDoubleCharges:
		return "Customers were charged twice."
	case p.Findings.Twice > 0:
		return "Something happened twice."
	case p.Findings.Missing+p.Findings.Left > 0:
		return "Orders are half done: what stands at one service is missing at another."
	case !good:
		return "The ledgers and the orders do not agree."
	case p.NeedPerson > 0:
		return "Nothing happened twice. Some orders wait for a person."
	case p.Pending > 0:
		return "Nothing happened twice. Some orders are still on their way."
	}
	return "Of every order all four steps stand, or none. Nobody was charged twice."
}

func serviceText(p Proof) string {
	kills := 0
	for _, n := range p.Kills {
		kills += n
	}
	switch {
	case !p.Protected && kills > 0:
		return "onced is left out: the shop calls the services itself; its calls were cut off " +
			times(kills) + "."
	case !p.Protected:
		return "onced is left out: the shop calls the services itself."
	case p.Pid == 0:
		return "onced is being started again."
	case kills == 0:
		return fmt.Sprintf("onced is running (process %d).", p.Pid)
	}
	return fmt.Sprintf("onced is running (process %d); it was killed %s and came back.", p.Pid, times(kills))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// Class names a state for the style sheet.
func (o orderView) Class() string { return strings.ToLower(o.State) }
