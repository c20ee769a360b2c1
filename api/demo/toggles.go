package demo

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"onced/api/demo/book"
	"onced/api/demo/callee"
)

// toggleNames are the switches, in the order of the page.
var toggleNames = []string{callee.Delay, callee.Lose, callee.Fail, callee.Refuse, callee.Duplicate,
	callee.Drop, callee.Early, "crash", callee.Keys}

// usualAt is where a switch that each service has is turned on when nobody says.
var usualAt = map[string]book.Service{callee.Delay: book.Charge, callee.Lose: book.Charge,
	callee.Fail: book.Charge, callee.Refuse: book.Order}

// everywhere is what "at" says for all services.
const everywhere = "all"

// toggles are the switches. crash is kept by the crasher.
type toggles struct {
	mu    sync.Mutex
	on    map[string]map[book.Service]bool
	crash *crasher
}

// newToggles turns faults on; with load they are on at every service.
func newToggles(f Faults, load bool, c *crasher) *toggles {
	t := &toggles{crash: c, on: map[string]map[book.Service]bool{}}
	for name, on := range f.switches() {
		t.on[name] = map[book.Service]bool{}
		if on {
			t.set(name, usualSet(name, load))
		}
	}
	return t
}

// usualSet are the services at which a switch is turned on.
func usualSet(name string, all bool) []book.Service {
	if at, each := usualAt[name]; each && !all {
		return []book.Service{at}
	}
	return book.Services()
}

// set turns a switch on at some services, and off at the others.
func (t *toggles) set(name string, at []book.Service) {
	for _, s := range book.Services() {
		t.on[name][s] = slices.Contains(at, s)
	}
}

// at reports whether a switch is on at a service.
func (t *toggles) at(name string, s book.Service) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.on[name][s]
}

// where are the services at which a switch is on.
func (t *toggles) where(name string) (at []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range book.Services() {
		if t.on[name][s] {
			at = append(at, string(s))
		}
	}
	return at
}

func (t *toggles) is(name string) bool {
	if name == "crash" {
		return t.crash.point() != ""
	}
	return len(t.where(name)) > 0
}

// all returns every switch.
func (t *toggles) all() map[string]bool {
	m := map[string]bool{}
	for _, name := range toggleNames {
		m[name] = t.is(name)
	}
	return m
}

// switched is the answer to a flip: it says what is so from now on.
type switched struct {
	Toggle string `json:"toggle"`
	Value  bool   `json:"value"`
	// At is where it will crash, or the services at which the switch is on.
	At      string `json:"at,omitempty"`
	Meaning string `json:"meaning"`
}

// flip turns a switch over, or to what "to" says: on or off. "at" is a service, or
// all; or where to crash.
func (t *toggles) flip(name, to, at string) (switched, error) {
	if !slices.Contains(toggleNames, name) {
		return switched{}, fmt.Errorf("there is no switch %q; there are %s and reset", name,
			strings.Join(toggleNames, ", "))
	}
	if to != "" && to != "on" && to != "off" {
		return switched{}, fmt.Errorf("to is %q; allowed: on, off, or nothing to turn it over", to)
	}
	if allowed := t.allowedAt(name); at != "" && !slices.Contains(allowed, at) {
		return switched{}, fmt.Errorf("at is %q; allowed for %s: %s", at, name, strings.Join(allowed, ", "))
	}
	if name == "crash" {
		point := t.crash.flip(to, at)
		return switched{Toggle: name, Value: point != "", At: point, Meaning: t.crash.meaning(point)}, nil
	}
	t.turn(name, to, at)
	return switched{Toggle: name, Value: t.is(name), At: t.places(name), Meaning: t.meaning(name)}, nil
}

// allowedAt is what "at" may say for a switch; of some, nothing.
func (t *toggles) allowedAt(name string) []string {
	if name == "crash" {
		return t.crash.points()
	}
	if _, each := usualAt[name]; !each {
		return nil
	}
	allowed := []string{everywhere}
	for _, s := range book.Services() {
		allowed = append(allowed, string(s))
	}
	return allowed
}

func (t *toggles) turn(name, to, at string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	here := usualSet(name, at == everywhere)
	if at != "" && at != everywhere {
		here = []book.Service{book.Service(at)}
	}
	isOn := func(s book.Service) bool { return t.on[name][s] }
	on := to == "on"
	if to == "" && at == "" { // off if it is on anywhere
		on = !slices.ContainsFunc(book.Services(), isOn)
	} else if to == "" {
		on = slices.ContainsFunc(here, func(s book.Service) bool { return !isOn(s) })
	}
	if !on && at == "" {
		here = book.Services()
	}
	for _, s := range here {
		t.on[name][s] = on
	}
}

// places names the services at which a switch is on, for those that can be on at some.
func (t *toggles) places(name string) string {
	if _, each := usualAt[name]; !each {
		return ""
	}
	return strings.Join(t.where(name), ",")
}

// meaning says in plain words what a switch does now.
func (t *toggles) meaning(name string) string {
	if name == "crash" {
		return t.crash.meaning(t.crash.point())
	}
	text := meanings[name][t.is(name)]
	if name == callee.Early && t.is(name) && t.is(callee.Drop) {
		text = "Callbacks would come before the gateway's own answer; those that drop keeps back never come."
	}
	if at := t.places(name); at != "" {
		text += " Now at: " + strings.ReplaceAll(at, ",", ", ") + "."
	}
	return text
}

// meanings say in plain words what a switch does.
var meanings = map[string]map[bool]string{
	callee.Delay: {
		true:  "Services answer after the time-out, do things late or lose the call; callbacks come late.",
		false: "Services answer at once.",
	},
	callee.Lose: {
		true:  "Services do what they are asked, and their answer is lost.",
		false: "Answers arrive.",
	},
	callee.Fail: {
		true:  "Services do what they are asked, and answer 500; look-ups fail too, at first.",
		false: "Services answer what is so.",
	},
	callee.Refuse: {
		true:  "Services refuse: no points, no voucher, a declined card, out of stock. All before is undone.",
		false: "Services refuse nothing.",
	},
	callee.Duplicate: {
		true: "Each callback comes three to five times, some at the same moment; calls come twice " +
			"where keys are honoured.",
		false: "Each callback comes once.",
	},
	callee.Drop: {
		true:  "Callbacks never come. onced waits for them a while, and then looks the charge up.",
		false: "Callbacks come.",
	},
	callee.Early: {
		true:  "Callbacks come before the gateway's own answer.",
		false: "Callbacks come after the gateway's answer.",
	},
	callee.Keys: {
		true: "Gateway and voucher service honour idempotency keys, as the others do.",
		false: "Gateway and voucher service ignore idempotency keys: each call that reaches them charges " +
			"and redeems.",
	},
}
