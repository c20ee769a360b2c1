package app

import (
	"strings"
	"testing"
)

// The start says of each definition what is seldom meant in it.
func TestTheStartRemarksOnDefinitions(t *testing.T) {
	const doc = "name: a\nsteps:\n- {name: b, repeatable: 1h, call: {url: 'https://h.example/o'RETRY}}\n"
	for retry, want := range map[string]int{"": 0, ", outcomes: {retry: 503}": 1} {
		f := startFiled(t, "", "a.yaml", strings.Replace(doc, "RETRY", retry, 1))
		if n := strings.Count(f.log.String(), "field=steps[0].call.outcomes.retry"); n != want {
			t.Errorf("%q is remarked on %d times: %s", retry, n, f.log)
		}
	}
}
