package definition

import (
	"strings"
	"testing"

	"onced/saga/machine"
)

const wordy = `name: wordy
steps:
- name: charge
  call: {url: http://HOST/charges}
  undo: {url: http://HOST/refunds, body: {id: "${output.id}"}}
- name: order
  call: {url: http://HOST/orders, body: {a: "${steps.charge.output.fee.amount ?? 0}",
    b: "${len(steps.charge.output?.items[0].lines)}", c: "${steps['charge'].output.none ?? nil}"}}
  retry: {attempts: 1, first: 1ms, most: 1ms}
`

// A reply that is too long to be kept is kept in the parts that are read.
func TestALongReplyIsKeptInTheParts(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat("x", maxKept)
	body := `{"pad": "` + pad + `", "id": "ch_1", "fee": {"amount": 0.30, "pad": "` + pad +
		`"}, "items": [{"lines": [1, 2]}]}`
	r := newRig(t)
	r.answers("POST /charges", answer{body: body})
	r.answers("POST /orders", answer{status: 422})
	v := r.runs(wordy, "")
	r.want(v, machine.Compensated, "POST /charges, POST /orders, POST /refunds")
	r.wantOutput(v, "charge", `{"fee":{"amount":0.30},"id":"ch_1","items":[{"lines":[1,2]}]}`)
	if got := r.sent("POST /orders")[0]; !strings.HasSuffix(got, `{"a":0.30,"b":2,"c":null}`) {
		t.Error(got)
	}
	if got := r.sent("POST /refunds")[0]; !strings.HasSuffix(got, `{"id":"ch_1"}`) {
		t.Error(got)
	}
}

// What is read and cannot be kept leaves the outcome unknown, while somebody can still
// do something; what nobody reads does not matter.
func TestWhatIsReadMustBeKept(t *testing.T) {
	t.Parallel()
	long := `{"id": 1, "pad": "` + strings.Repeat("x", 300<<10) + `"}`
	unread := strings.NewReplacer("${output.id}", "1", "steps.charge.output", "input",
		"steps['charge'].output", "input").Replace(wordy)
	for _, c := range []struct {
		src, body string
		held      bool
	}{
		{wordy, long, true}, {wordy, nested(maxNested + 1), true}, {wordy, "OK", false}, {wordy, "", false},
		{unread, long, false}, {unread, nested(maxNested + 1), false},
	} {
		r := newRig(t)
		r.answers("POST /charges", answer{body: c.body})
		v := r.runs(c.src, "")
		if held := strings.Contains(history(v), "the document reads"); held != c.held ||
			held != (v.State.Status == machine.Held && r.made() == "POST /charges") {
			t.Errorf("%.30q: %s\n%s", c.body, v.State.Status, history(v))
		}
	}
}
