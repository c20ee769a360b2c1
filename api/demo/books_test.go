package demo_test

import (
	"net/http"
	"strings"
	"testing"
)

// The lines that the demo says to try give 1, 1, true whatever ran in the folder
// before, and a start says what it goes on with.
func TestEarlierDemosLeaveTheFirstTryAlone(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	bare := start(t, data, "--unprotected")
	bare.order("ord_A")
	bare.order("ord_A")
	if s := bare.stats(); s.ZeroDoubleCharges {
		t.Fatalf("without onced the same order twice was charged once: %+v", s)
	}
	bare.stop()
	load := start(t, data, "--orders=3", "--faults=none")
	if code := load.wait(); code != 0 {
		t.Fatalf("exit code %d", code)
	}

	d := start(t, data)
	d.set("duplicate")
	for range 2 {
		if code, status := d.order("ord_A"); code != http.StatusOK || status != "paid" {
			t.Errorf("checkout: %d %s", code, status)
		}
	}
	d.once(d.stats(), 1)
	d.stop()
	if strings.Contains(d.out.String(), "continuing") {
		t.Error("it goes on with the books of another kind of demo")
	}

	again := start(t, data)
	again.once(again.stats(), 1)
	again.stop()
	if !strings.Contains(again.out.String(), "continuing with 1 order of an earlier demo; reset with") {
		t.Error("a start does not say what it goes on with")
	}
}
