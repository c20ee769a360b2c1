package definition

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"onced/saga"
	"onced/saga/egress"
	"onced/saga/machine"
)

func TestSettingsOfAStep(t *testing.T) {
	t.Parallel()
	d := parsed(t, `name: a
deadline: 30d
steps:
- name: b
  call: {url: "http://h:81/", timeout: 90s, outcomes: {refused: "409,4xx", done: [2xx]}}
  undo: {url: "http://h/", timeout: 2m}
  check: {url: "http://h/", done: "${reply.status == 200}"}
  repeatable: true
  settles_after: 7s
  undo_key_valid_for: 2d
  retry: {attempts: 2, undo_attempts: 3, first: 1m30s, most: 1h}
- {name: c, call: {url: "http://h"}, repeatable: false}
`)
	b, c := d.defs[0], d.defs[1]
	got := fmt.Sprint(d.deadline, b.call.timeout, b.undo.timeout, b.check.call.timeout, b.keyValidFor,
		b.settlesAfter,
		b.undoKeyValidFor, b.attempts, b.undoAttempts, b.first, b.most, c.keyValidFor) +
		" " + c.call.url.host + " " + b.call.url.host
	if want := "720h0m0s 1m30s 2m0s 10s 24h0m0s 7s 48h0m0s 2 3 1m30s 1h0m0s 0s h h:81"; got != want {
		t.Errorf("the settings are\n%s, want\n%s", got, want)
	}
	if b.call.outcomes.Of(404).String() != "refused" || b.call.outcomes.Of(401).String() != "refused" ||
		b.call.outcomes.Of(202).String() != "done" || c.call.outcomes.Of(401).String() != "retry" {
		t.Error("the outcomes are not those that are written")
	}
	// Over an old connection goes what can be settled: looked up, sent again, undone.
	if b.call.fresh || b.call.isCheck || !c.call.fresh || b.undo.fresh || b.undo.isCheck ||
		!b.check.call.isCheck {
		t.Error("the calls are sent in another way than their steps allow")
	}
}

// Whoever gives out secrets is told who asks and where the value goes.
func TestTheUseOfASecretIsTold(t *testing.T) {
	t.Parallel()
	d := parsed(t, "name: a\nsteps:\n- {name: b, call: {url: 'http://h:81/', headers: {A: "+
		"'${secrets.gateway}'}}}\n")
	var use SecretUse
	s := d.defs[0].call.newScope(t.Context(), &saga.Call{Definition: "a", Step: "b"},
		&Target{Origin: FromAPI},
		&Deps{Secret: func(_ context.Context, u SecretUse) (string, error) { use = u; return "value", nil }})
	if _, err := d.defs[0].call.request(s, &Target{}); err != nil {
		t.Fatal(err)
	}
	if want := (SecretUse{"gateway", "a", "b", FromAPI, "h:81"}); use != want {
		t.Errorf("it is %+v, want %+v", use, want)
	}
}

// A run that a person let go on without a step's output fails before the send, and says
// what is missing.
func TestAnUndoWithoutWhatItNeedsIsStuck(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.plan[callLoyalty] = []answer{{body: `{"spent": 1}`}}
	r.plan[callCharge] = []answer{{status: 204}} // it has no id
	v := r.runs(shop, shopInput)
	r.wantHistory(v, "the call was not made: steps[2].call.body.charge: ${steps.charge.output.id} is missing")
	r.want(v, machine.Stuck, callLoyalty+", "+callCharge)
	r.wantHistory(v, "the call was not made: steps[1].undo.body.charge: ${output.id} is missing")
	if st := v.State.Steps[1]; st.UndoSends != 1 {
		t.Errorf("what cannot be rendered was tried %d times", st.UndoSends)
	}
}

// A secret that is missing may come: the undo is tried again before it is stuck.
func TestAnUndoWithoutItsSecretIsTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callOrder] = []answer{{status: 422, before: func() {
		r.services.mu.Lock()
		defer r.services.mu.Unlock()
		delete(r.secrets, "loyalty")
	}}}
	src := strings.Replace(shop, "undo: {url: http://HOST/refunds,",
		`undo: {url: http://HOST/refunds, headers: {A: "${secrets.loyalty}"},`, 1)
	v := r.runs(src, shopInput)
	r.want(v, machine.Stuck, callLoyalty+", "+callCharge+", "+callOrder)
	if st := v.State.Steps[1]; st.UndoSends != 3 {
		t.Errorf("it was tried %d times", st.UndoSends)
	}
}

// Where the API may not call is told once for each host, with what to add where.
func TestAHostThatIsNotPublicIsToldOnceWithTheRemedy(t *testing.T) {
	t.Parallel()
	d := parsed(t, `name: a
steps:
- {name: a, call: {url: 'http://127.0.0.1:9300/a'}, undo: {url: 'http://127.0.0.1:9300/b'}}
- {name: b, call: {url: 'http://10.0.0.1/c'}, undo: {url: 'http://127.0.0.1:9300/d'}}
- {name: c, call: {url: 'http://8.8.8.8/e'}}
`)
	client, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	got := d.CheckURLs(FromAPI, client.Check)
	if len(got) != 2 || got[0].Line != 3 || got[0].Field != "steps[0].call.url" || got[1].Line != 4 {
		t.Fatalf("there are %v", got)
	}
	if want := "calls 127.0.0.1:9300, which is not a public address (loopback): add 127.0.0.1:9300 to " +
		"sagas.allow_hosts in onced.yaml, or name the file in sagas.definitions (so do 2 calls more)"; got[0].
		Message != want {
		t.Errorf("it says %q", got[0].Message)
	}
	if got := d.CheckURLs(FromFile, client.Check); len(got) != 0 {
		t.Errorf("of a file: %v", got)
	}
	allowed, err := egress.New(egress.Config{Allow: []string{"127.0.0.1:9300", "10.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.CheckURLs(FromAPI, allowed.Check); len(got) != 0 {
		t.Errorf("the remedy does not help: %v", got)
	}
}

func BenchmarkRequest(b *testing.B) {
	c := &saga.Call{Run: "run_1", Key: "o-1", Step: "charge", DownstreamKey: "key", Input: []byte(shopInput)}
	src := strings.Replace(shop, `, spent: "${steps.loyalty.output.spent}"`, "", 1)
	def := parsed(b, src).defs[1]
	b.ReportAllocs()
	for b.Loop() {
		s := def.call.newScope(b.Context(), c, &Target{}, &Deps{})
		if _, err := def.call.request(s, &Target{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	src := []byte(sample(b))
	for b.Loop() {
		if _, problems := Parse(src, Options{}); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}
