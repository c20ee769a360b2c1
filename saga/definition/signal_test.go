package definition

import (
	"errors"
	"strings"
	"testing"
	"time"

	"onced/saga"
	"onced/saga/machine"
)

// slow is a charge that is finished by a callback.
const slow = `name: slow
steps:
- name: charge
  call: {url: http://HOST/charges, body: {tell: "${callback_url}"}}
  await:
    for: 1h
    done: "${signal.body.status == 'succeeded'}"
    refused: "${signal.body.status == 'failed'}"
    output: {id: "${signal.body.id}"}
    at: "${signal.body.at ?? nil}"
  undo: {url: http://HOST/refunds, body: {id: "${output.id}"}}
- name: order
  call:
    url: http://HOST/orders
    body: {charge: "${steps.charge.output.id}", by: "${steps.charge.signal.id ?? 'none'}"}
`

// callback gives the body of a callback to a run, as the API does.
func (r *rig) callback(run, body string) (decided bool) {
	r.Helper()
	v, err := r.engine.Get(r.Context(), run)
	if err != nil {
		r.Fatal(err)
	}
	s, decided, ok, err := r.book.ReadSignal(r.Context(), v, "charge", []byte(body))
	if err != nil || !ok {
		r.Fatal(ok, err)
	}
	if !decided {
		return false
	}
	s.Run = run
	if err := r.engine.Signal(r.Context(), s); err != nil {
		r.Fatal(err)
	}
	return true
}

func TestAwaitIsFinishedByItsCallback(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.plan[callCharge] = []answer{{status: 202, body: `{"asked": true}`}}
	s := r.put(slow)
	run := r.start(s.Name, "o-1", "").Run
	r.reach(run, waiting("charge"))
	if r.callback(run, `{"status": "pending"}`) {
		t.Error("a body that says nothing was taken for a signal")
	}
	for range 2 { // a callback may come twice
		if !r.callback(run, `{"status": "succeeded", "id": "ch_1"}`) {
			t.Error("a clear body was not taken")
		}
	}
	r.want(r.end(run), machine.Completed, callCharge+", "+callOrder)
	if got := r.sent(callOrder)[0]; !strings.HasSuffix(got, `{"charge":"ch_1","by":"ch_1"}`) {
		t.Errorf("the order was %s", got)
	}
	want := `{"tell":"https://onced.test/v1/callbacks/` + run + `-charge-1"}`
	if got := r.sent(callCharge)[0]; !strings.HasSuffix(got, want) {
		t.Errorf("the charge was %s, want %s", got, want)
	}
}

// The callback comes before the reply of the call that asked for it.
func TestAnEarlyCallbackCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := make(chan string, 1)
	r.plan[callCharge] = []answer{{body: `{"asked": 1}`,
		before: func() { r.callback(<-run, `{"status": "succeeded", "id": "ch_1"}`) }}}
	s := r.put(slow)
	started := r.start(s.Name, "o-1", "")
	run <- started.Run
	r.want(r.end(started.Run), machine.Completed, callCharge+", "+callOrder)
}

func TestARefusalByCallbackUndoes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.put(slow)
	run := r.start(s.Name, "o-1", "").Run
	r.reach(run, waiting("charge"))
	r.callback(run, `{"status": "failed", "why": "no money"}`)
	r.want(r.end(run), machine.Compensated, callCharge)
}

// A later step is refused: the undo sees what came with the signal.
func TestTheUndoOfAnAwaitedStepSeesItsSignal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.plan[callOrder] = []answer{{status: 422}}
	s := r.put(slow)
	run := r.start(s.Name, "o-1", "").Run
	r.reach(run, waiting("charge"))
	r.callback(run, `{"status": "succeeded", "id": "ch_1"}`)
	r.want(r.end(run), machine.Compensated, callCharge+", "+callOrder+", "+callRefund)
	if got := r.sent(callRefund)[0]; !strings.HasSuffix(got, `{"id":"ch_1"}`) {
		t.Errorf("the refund was %s", got)
	}
}

func TestAStepThatOnlyWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.put("name: a\nsteps:\n- name: charge\n  await: {}\n- name: order\n" +
		"  call: {url: http://HOST/orders, body: \"${steps.charge.output}\"}\n")
	run := r.start(s.Name, "o-1", "").Run
	r.reach(run, waiting("charge"))
	r.callback(run, `{"outcome": "done", "data": {"by": "ann"}}`)
	r.want(r.end(run), machine.Completed, callOrder)
	if got := r.sent(callOrder)[0]; !strings.HasSuffix(got, `{"by":"ann"}`) {
		t.Errorf("the order was %s", got)
	}
}

func TestReadingOfCallbacks(t *testing.T) {
	t.Parallel()
	full := parsed(t, slow)
	plain := parsed(t, "name: a\nsteps:\n- {name: charge, await: {}}\n")
	for _, c := range []struct {
		d          *Document
		step, body string
		want       string // done DATA, refused DATA, nothing, or the error
	}{
		{full, "charge", `{"status": "succeeded", "id": "c"}`, `done {"id":"c"}`},
		{full, "charge", `{"status": "failed", "id": 1.50}`, `refused {"id":1.50,"status":"failed"}`},
		{full, "charge", `{"status": "pending"}`, `nothing`},
		{full, "charge", `{}`, `nothing`},
		{full, "charge", `{"status": "succeeded"}`,
			`saga: body is unclear: steps[0].await.output.id: ${signal.body.id} is missing`},
		{full, "charge", `[1]`,
			`saga: body is unclear: done: ${signal.body.status == 'succeeded'} reads the field ` +
				`status of a list`},
		{full, "charge", ``, `saga: body is not JSON`}, {full, "charge", `x`, `saga: body is not JSON`},
		{full, "charge", `{} {}`, `saga: body is more than one JSON value`},
		{full, "order", `{}`, `saga: step "order" awaits no signal; steps that do are charge`},
		{full, "chrage", `{}`,
			`saga: step "chrage" awaits no signal; did you mean charge?; steps that do are charge`},
		{full, "charge", `{"status": "succeeded", "id": 1, "at": "noon"}`,
			`saga: body is unclear: at: ${signal.body.at ?? nil} is no time as 2026-01-31T10:00:00Z, nor ` +
				`seconds since 1970`},
		{plain, "charge", `{"outcome": "done", "data": [1.0]}`, `done [1.0]`},
		{plain, "charge", `{"outcome": "done"}`, `done `},
		{plain, "charge", `{"outcome": "refused", "reason": "no"}`, `refused {"reason":"no"}`},
		{plain, "charge", `{"outcome": "maybe"}`, `saga: body.outcome must be done or refused`},
		{plain, "charge", `"done"`,
			`saga: body is text; it must be {"outcome":"done"} or {"outcome":"refused"}, with "data"`},
	} {
		s, decided, err := c.d.ReadSignal(c.step, []byte(c.body))
		got := "nothing"
		switch {
		case err != nil:
			got = err.Error()
			if !errors.Is(err, saga.ErrInput) {
				t.Errorf("%q is not of the class of inputs", got)
			}
		case decided && s.Refused:
			got = "refused " + string(s.Data)
		case decided:
			got = "done " + string(s.Data)
		}
		if got != c.want {
			t.Errorf("%s is read as\n %s, want\n %s", c.body, got, c.want)
		}
	}
	for body, want := range map[string]time.Time{
		`{"status": "succeeded", "id": 1, "at": "2026-01-31T10:00:00+01:00"}`: time.Date(2026, 1, 31, 9,
			0, 0, 0, time.UTC),
		`{"status": "succeeded", "id": 1, "at": 1700000000}`: time.Unix(1_700_000_000,
			0).UTC(),
		`{"status": "succeeded", "id": 1}`: {},
	} {
		if s, _, err := full.ReadSignal("charge", []byte(body)); err != nil || !s.At.Equal(want) {
			t.Errorf("%s is at %v, %v; want %v", body, s.At, err, want)
		}
	}
}

// What a step has come to has the fields that all ways to end it give; what only some
// give may be missing, and so may the signal.
func TestTheOutputOfAnAwaitedStepHasOneType(t *testing.T) {
	t.Parallel()
	const src = `name: a
steps:
- name: charge
  call: {url: http://h/c, body: "${callback_url}"}
  await: {done: "${signal.body.ok}", output: {id: "${signal.body.id}", fee: "${signal.body.fee}"}}
  check: {url: http://h/c, done: "${reply.status == 200}", absent: "${reply.status == 404}",
    output: {id: "${reply.body.id}", fee: "${reply.body.fee ?? nil}", more: "${reply.body.more}"}}
  undo: {url: http://h/r, body: "${UNDO}"}
- name: order
  call: {url: http://h/o, body: "${ORDER}"}
`
	for _, c := range []struct{ undo, order, want string }{
		{"output.id", "steps.charge.output.id", ""},
		{"steps.charge.output.id", "steps.charge.output", ""},
		{"output.id", "steps.charge.output.fee", "may be missing"},
		{"output.id", "steps.charge.output.more", "may be missing"},
		{"output.id", "steps.charge.output.fee ?? 0", ""},
		{"output.id", "steps.charge.output.nr", "nr is not known"},
		{"output.id", "steps.charge.signal.id", "steps.<name>.output is there however it ended"},
		{"output.id", "steps.charge.signal", "may be missing"},
		{"output.id", "steps.charge.signal.more ?? nil", "more is not known"},
		{"output.id", "steps.charge.signal.id ?? nil", ""},
		{"steps.charge.signal.id", "1", "may be missing"},
		{"output.more", "1", "may be missing"},
	} {
		got := found(strings.NewReplacer("UNDO", c.undo, "ORDER", c.order).Replace(src))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s, %s: %s, want %s", c.undo, c.order, got, c.want)
		}
	}
	for _, c := range [][2]string{{", fee: \"${reply.body.fee ?? nil}\"", "has no fee, which await.output"},
		{",\n    output: {id: \"${reply.body.id}\", fee: \"${reply.body.fee ?? nil}\", " +
			"more: \"${reply.body.more}\"}",
			"the step has await.output, so say how it is read"}} {
		less := strings.Replace(src, c[0], "", 1)
		got := found(strings.NewReplacer("UNDO", "output.id", "ORDER", "1").Replace(less))
		if less == src || !strings.Contains(got, c[1]) || strings.Contains(got, "\n") {
			t.Errorf("without %s: %s", c[0], got)
		}
	}
	safe := strings.Replace(src, "  undo:",
		"  undo_when_absent: safe\n  output: {id: '${reply.body.id}'}\n  undo:", 1)
	for undo, want := range map[string]string{"output.id": "may be missing", "output.id ?? nil": "",
		"output.nr ?? nil": "nr is not known"} {
		got := found(strings.NewReplacer("UNDO", undo, "ORDER", "1").Replace(safe))
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", undo, got, want)
		}
	}
}

// The look-up ends a step; the callback comes between two tries of the next one, which
// are the same all the same.
func TestALateCallbackDoesNotChangeWhatIsSent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	src := strings.Replace(slow, "    for: 1h\n", "    for: 5ms\n", 1)
	src = strings.Replace(src, "  undo:", "  check: {url: http://HOST/look, "+
		"done: '${reply.status == 200}',\n"+
		"    output: {id: '${reply.body.id}'}}\n  undo:", 1)
	src += "  retry: {first: 1ms, most: 1ms}\n"
	r.plan["GET /look"] = []answer{{body: `{"id": "seen"}`}}
	run := make(chan string, 1)
	r.plan[callOrder] = []answer{{status: 429,
		before: func() { r.callback(<-run, `{"status": "succeeded", "id": "told"}`) }}, {}}
	s := r.put(src)
	started := r.start(s.Name, "o-1", "")
	run <- started.Run
	r.want(r.end(started.Run), machine.Completed, callCharge+", GET /look, "+callOrder+", "+callOrder)
	sent := r.sent(callOrder)
	if len(sent) != 2 || sent[0] != sent[1] || !strings.HasSuffix(sent[0], `{"charge":"seen","by":"none"}`) {
		t.Errorf("the tries are %q", sent)
	}
}
