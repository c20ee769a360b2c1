package demo

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// toggleNames are the switches, in the order of the page.
var toggleNames = []string{"delay", "duplicate", "drop", "crash", "keys"}

// toggles are the switches. crash is kept by the crasher.
type toggles struct {
	mu    sync.Mutex
	on    map[string]bool
	crash *crasher
}

func newToggles(f Faults, c *crasher) *toggles {
	return &toggles{crash: c, on: map[string]bool{
		"delay": f.Delay, "duplicate": f.Duplicate, "drop": f.Drop, "keys": f.Keys,
	}}
}

func (t *toggles) is(name string) bool {
	if name == "crash" {
		return t.crash.point() != ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.on[name]
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
	Toggle  string `json:"toggle"`
	Value   bool   `json:"value"`
	At      string `json:"at,omitempty"` // where it will crash
	Meaning string `json:"meaning"`
}

// flip turns a switch over, or to what "to" says: on or off. "at" is where to
// crash.
func (t *toggles) flip(name, to, at string) (switched, error) {
	if !slices.Contains(toggleNames, name) {
		return switched{}, fmt.Errorf("there is no switch %q; there are %s and reset", name,
			strings.Join(toggleNames, ", "))
	}
	if to != "" && to != "on" && to != "off" {
		return switched{}, fmt.Errorf("to is %q; allowed: on, off, or nothing to turn it over", to)
	}
	if at != "" && (name != "crash" || !slices.Contains(t.crash.points(), at)) {
		return switched{}, fmt.Errorf("at is %q; allowed for crash: %s", at,
			strings.Join(t.crash.points(), ", "))
	}
	if name == "crash" {
		point := t.crash.flip(to, at)
		return switched{Toggle: name, Value: point != "", At: point, Meaning: t.crash.meaning(point)}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on[name] = to == "on" || to == "" && !t.on[name]
	return switched{Toggle: name, Value: t.on[name], Meaning: meanings[name][t.on[name]]}, nil
}

// meanings say in plain words what a switch does.
var meanings = map[string]map[bool]string{
	"delay": {
		true:  "The gateway answers after the time-out, charges late or loses the call; callbacks come late.",
		false: "The gateway answers at once.",
	},
	"duplicate": {
		true:  "Each callback comes three to five times, some at the same moment.",
		false: "Each callback comes once.",
	},
	"drop": {
		true:  "Callbacks never come. Orders stay pending until reconciliation finds them.",
		false: "Callbacks come.",
	},
	"keys": {
		true:  "The gateway honours idempotency keys.",
		false: "The gateway ignores idempotency keys: each call that reaches it charges.",
	},
}
