package demo

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
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
	Wrong     []WrongOrder
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

type switchView struct {
	Name, Meaning, To string
	On                bool
}

type orderView struct {
	ID, State string
	Charges   int
	Bad       bool
	Lines     []line
	More      int
}

func newPageView(w *world) pageView {
	p := w.proof()
	accounts, _ := w.ledger.accounts()
	v := pageView{Protected: p.Protected, Wrong: p.Wrong, Next: fmt.Sprintf("ord_%d", p.DistinctOrders+1)}
	v.Good = p.agrees()
	v.Headline = headline(p, v.Good)
	v.Numbers = []numberView{
		{p.DistinctOrders, "orders", false},
		{p.RealCharges, "real charges", false},
		{p.Most, "most charges on one order", p.Most > 1},
		{p.MostEffects, "most effects on one order", p.MostEffects > 1},
		{p.NoCharge, "paid orders without a charge", p.NoCharge > 0},
		{p.NoOrder + p.OnFailed, "charges without a good order", p.NoOrder+p.OnFailed > 0},
		{p.Pending, "orders pending", false},
		{p.Unknowns, "open unknowns", false},
		{p.Undelivered, "callbacks not delivered", false},
	}
	v.Service = serviceText(p)
	for _, name := range toggleNames {
		s := switchView{Name: name, On: p.Toggles[name], To: "on", Meaning: meanings[name][p.Toggles[name]]}
		if name == "crash" {
			s.Meaning = w.crash.meaning(p.CrashAt)
		}
		if s.On {
			s.To = "off"
		}
		v.Switches = append(v.Switches, s)
	}
	for _, t := range w.stories.last() {
		o, _, found := w.shop.look(t.order)
		if !found {
			continue
		}
		n := len(accounts[t.order].charges)
		v.Orders = append(v.Orders, orderView{ID: t.order, State: o.state(), Charges: n, Bad: n > 1 ||
			o.effects > 1 || n > 0 && o.state() == stateFailed, Lines: t.lines, More: t.more})
	}
	return v
}

func headline(p Proof, good bool) string {
	switch {
	case p.DistinctOrders == 0:
		return "No orders yet. Place one, then break something."
	case !p.ZeroDoubleCharges:
		return "Customers were charged twice."
	case p.MostEffects > 1:
		return "An order took effect twice: it was shipped more than once."
	case !good:
		return "Charges and orders do not agree."
	case p.Pending > 0:
		return "Nobody was charged twice. Some orders are still on their way."
	}
	return "Every order has the charges it should have. Nobody was charged twice."
}

func serviceText(p Proof) string {
	kills := 0
	for _, n := range p.Kills {
		kills += n
	}
	switch {
	case !p.Protected && kills > 0:
		return "onced is left out: the shop calls the gateway itself; its calls were cut off " +
			times(kills) + "."
	case !p.Protected:
		return "onced is left out: the shop calls the gateway itself."
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
