package demo_test

import (
	"net/http"
	"strings"
	"testing"
)

// A point tells where the service was when it was killed; so it is not passed
// by calls that are somewhere else.
func TestCrashPointsAreNotAtReplays(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir(), "--faults=crash") // which arms it, at after-charge
	if s := d.stats(); !s.Toggles["crash"] {
		t.Errorf("--faults=crash armed nothing: %+v", s)
	}
	d.order("ord_A")
	if s := d.stats(); s.Kills["after-charge"] != 1 {
		t.Fatalf("not killed: %+v", s)
	}
	for _, point := range []string{"before-intent", "after-outcome"} {
		d.set("crash?at=" + point)
		if code, status := d.order("ord_A"); code != http.StatusOK || status != "paid" {
			t.Errorf("%s: the same order again: %d %s", point, code, status)
		}
		if s := d.stats(); s.Kills[point] != 0 || !s.Toggles["crash"] {
			t.Errorf("%s: killed at a replay: %+v", point, s)
		}
		d.order("ord-" + point)
		if s := d.stats(); s.Kills[point] != 1 {
			t.Errorf("%s: not killed: %+v", point, s)
		}
	}
	d.once(d.atRest(3), 3)
}

// Without onced nobody is there to be killed: the shop's call is cut off.
func TestCrashWithoutOnced(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir(), "--unprotected")
	if code, answer := d.post("/toggle/crash?at=after-outcome", ""); code != http.StatusBadRequest {
		t.Errorf("a point of the service: %d %v", code, answer)
	}
	for i, want := range []string{"after-accept", "before-charge"} {
		_, answer := d.post("/toggle/crash", "")
		meaning, _ := answer["meaning"].(string)
		if answer["at"] != want || !strings.Contains(meaning, "cut off") ||
			strings.Contains(meaning, "service") {
			t.Errorf("it answers %v", answer)
		}
		d.order("ord_" + string(rune('A'+i)))
	}
	s := d.stats()
	if s.Kills["after-accept"] != 1 || s.Kills["before-charge"] != 1 || s.MostChargesOnOneOrder != 2 {
		t.Errorf("cut off before and after a charge: %+v", s)
	}
	_, page := d.get("/")
	for _, text := range []string{"call was cut off just after the gateway has taken a charge on",
		"calls were cut off 2 times"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
	if strings.Contains(page, "service was killed") {
		t.Error("a service that is not there was killed")
	}
}
