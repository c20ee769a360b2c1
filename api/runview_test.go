package api

import (
	"fmt"
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
