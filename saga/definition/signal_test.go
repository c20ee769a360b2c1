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
  undo: {url: http://HOST/refunds, body: {id: "${steps.charge.signal.id}"}}
- name: order
  call:
    url: http://HOST/orders
    body: {charge: "${steps.charge.signal.id}", asked: "${steps.charge.output.asked}"}
`

// callback gives the body of a callback to a run, as the API does.
func (r *rig) callback(run, body string) (clear bool) {
	r.Helper()
	v, err := r.engine.Get(r.Context(), run)
	if err != nil {
		r.Fatal(err)
	}
	s, clear, ok, err := r.book.ReadSignal(v.Definition, v.Version, "charge", []byte(body))
	if err != nil || !ok {
		r.Fatal(ok, err)
	}
	if !clear {
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
	if got := r.sent(callOrder)[0]; !strings.HasSuffix(got, `{"charge":"ch_1","asked":true}`) {
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
	s := r.put(strings.Replace(slow, `, asked: "${steps.charge.output.asked}"`, "", 1))
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
		{full, "charge", `{} {}`, `saga: body is not JSON`},
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
		s, clear, err := c.d.ReadSignal(c.step, []byte(c.body))
		got := "nothing"
		switch {
		case err != nil:
			got = err.Error()
			if !errors.Is(err, saga.ErrInput) {
				t.Errorf("%q is not of the class of inputs", got)
			}
		case clear && s.Refused:
			got = "refused " + string(s.Data)
		case clear:
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
