package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// What a run was held for once is not why it is as it is now, and a step that does not go
// on by itself has no time at which it would.
func TestARunDoesNotShowWhatIsPast(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		for i, c := range []struct{ verb, state, reason string }{
			{"mark_done", "completed", ""}, {"cancel", "held", "it is undone"},
			{"close", "closed", "told so"}} {
			r.set("charge", "dropped")
			path := r.started("pay", fmt.Sprint(i))
			held := r.state(path, "held")
			if !strings.Contains(held.text("reason"), "not known") ||
				strings.Contains(string(held.raw), "next_at") {
				t.Errorf("held: %s", held.raw)
			}
			if c.verb == "mark_done" {
				r.operate(path, c.verb, "step", "charge").want(t, 200, "")
			} else {
				r.operate(path, c.verb).want(t, 200, "")
			}
			a := r.state(path, c.state)
			if got, _ := a.at("reason").(string); !strings.Contains(got, c.reason) ||
				c.reason == "" && got != "" || strings.Contains(string(a.raw), "next_at") {
				t.Errorf("%s: %s", c.verb, a.raw)
			}
			if c.verb == "cancel" {
				r.operate(path, "mark_not_done", "step", "charge").want(t, 200, "")
				if a := r.state(path, "compensated"); a.text("reason") != "told so" {
					t.Errorf("undone after a hold: %s", a.raw)
				}
			}
		}
	})
}

// Who only wants to know how a run stands gets that, and the same headers.
func TestReturnMinimalShowsHowARunStands(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		members := func(a answer) string {
			var all map[string]any
			if err := json.Unmarshal(a.raw, &all); err != nil {
				t.Fatal(err)
			}
			return strings.Join(slices.Sorted(maps.Keys(all)), " ")
		}
		const least = "definition id key round state"
		r.set("charge", "", "refused", "dropped")
		for i, c := range []struct{ name, prefer, applied, state, members string }{
			{"checkout", "wait=9, return=minimal", "wait=9, return=minimal", "completed", least},
			{"checkout", `Return="Minimal"; x, wait=9`, "wait=9, return=minimal", "compensated",
				"cause definition failed_step id key reason round state"},
			{"pay", "wait=9,return=minimal,return=representation", "wait=9, return=minimal", "held",
				"definition hold id key reason round state"},
		} {
			a := r.ask("acme", "POST /v1/runs", startBody(c.name, fmt.Sprint(i)), "Prefer", c.prefer).
				want(t, 201, "")
			if a.text("state") != c.state || members(a) != c.members || a.header.Get("ETag") == "" ||
				a.header.Get("Preference-Applied") != c.applied {
				t.Errorf("%s: %v %s", c.prefer, a.header, a.raw)
			}
			path := a.header.Get("Location")
			full := r.ask("acme", "GET "+path, nil, "Prefer", "return=representation, return=minimal").
				want(t, 200, "")
			if full.header.Get("Preference-Applied") != "" || full.at("steps") == nil {
				t.Errorf("%v %s", full.header, full.raw)
			}
			seen := r.ask("viewer", "GET "+path, nil, "Prefer", "return=minimal").want(t, 200, "")
			if seen.header.Get("Preference-Applied") != "return=minimal" ||
				seen.header.Get("ETag") != full.header.Get("ETag") ||
				members(seen) != strings.ReplaceAll(c.members, "reason ", "") {
				t.Errorf("a viewer sees %v %s", seen.header, seen.raw)
			}
			for name := range strings.FieldsSeq(c.members) {
				if fmt.Sprint(a.at(name)) != fmt.Sprint(full.at(name)) {
					t.Errorf("%s is %v, in full %v", name, a.at(name), full.at(name))
				}
			}
		}
		r.ask("acme", "POST /v1/runs", startBody("checkout", "0"), "Prefer", "return=minimal").
			want(t, 200, "")
	})
}
