package definition

import (
	"strings"
	"testing"
	"time"

	"onced/saga"
	"onced/saga/machine"
)

// shop is the checkout of the tests: quick retries, every step with a look-up.
const shop = `name: checkout
input: {order: string, points: int, amount: decimal}
labels: {order: "${input.order}"}
steps:
- name: loyalty
  call: {url: "http://HOST/points/${input.order}", body: {points: "${input.points}"},
    headers: {Authorization: "Bearer ${secrets.loyalty}"}}
  output: {spent: "${reply.body.spent}"}
  undo: {url: "http://HOST/points/${input.order}/back", body: {points: "${output.spent}"}}
  check: {url: "http://HOST/points?key=${key}", done: "${reply.status == 200}",
    absent: "${reply.status == 404}", output: {spent: "${reply.body.spent}"}}
  settles_after: 1ms
  retry: {first: 1ms, most: 2ms, attempts: 3, undo_attempts: 4}
- name: charge
  call: {url: http://HOST/charges, body: {amount: "${input.amount}", spent: "${steps.loyalty.output.spent}"}}
  undo: {url: http://HOST/refunds, body: {charge: "${output.id}"}}
  check: {url: http://HOST/charges, query: {key: "${key}"}, done: "${reply.body.state == 'paid'}",
    refused: "${reply.body.state == 'declined'}", absent: "${reply.status == 404}"}
  settles_after: 1ms
  retry: {first: 1ms, most: 2ms, attempts: 3, undo_attempts: 3}
- name: order
  call: {url: http://HOST/orders, body: {order: "${input.order}", charge: "${steps.charge.output.id}"}}
  retry: {first: 1ms, most: 2ms, attempts: 3}
`

const shopInput = `{"order": "o/1", "points": 100, "amount": "12.50"}`

// The routes of the shop.
const (
	callLoyalty = "POST /points/o%2F1"
	callBack    = "POST /points/o%2F1/back"
	callCharge  = "POST /charges"
	callRefund  = "POST /refunds"
	callOrder   = "POST /orders"
)

func (r *rig) goodShop() {
	r.plan[callLoyalty] = []answer{{body: `{"spent": 100, "token": "loyal-token"}`}}
	r.plan[callCharge] = []answer{{body: `{"id": "ch_1", "fee": 0.30}`}}
}

func TestSG03_AGoodRunIsCompletedAndNeverRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	v := r.runs(shop, shopInput)
	r.want(v, machine.Completed, callLoyalty+", "+callCharge+", "+callOrder)
	r.wantOutput(v, "loyalty", `{"spent":100}`)
	r.wantOutput(v, "charge", `{"id": "ch_1", "fee": 0.30}`)
	if v.Labels["order"] != "o/1" {
		t.Errorf("the labels are %v", v.Labels)
	}
	if got := r.sent(callCharge)[0]; !strings.HasSuffix(got, "\n"+`{"amount":"12.50","spent":100}`) {
		t.Errorf("the charge was %s", got)
	}
	got := r.sent(callLoyalty)[0]
	if !strings.Contains(got, "auth=Bearer loyal-token type=application/json") ||
		strings.Contains(got, "key= ") {
		t.Errorf("the loyalty call was %s", got)
	}
	if s := r.start("checkout", "o-1", shopInput); !s.Joined || s.Run != v.Run {
		t.Errorf("the second start gave %+v", s)
	}
	r.want(v, machine.Completed, callLoyalty+", "+callCharge+", "+callOrder)
}

func TestSG01_ARefusalAtTheThirdStepUndoesTheTwoBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callOrder] = []answer{{status: 422, body: `{"error": "out of stock"}`}}
	v := r.runs(shop, shopInput)
	r.want(v, machine.Compensated, callLoyalty+", "+callCharge+", "+callOrder+", "+callRefund+", "+callBack)
	r.wantHistory(v, "out of stock")
	if got := r.sent(callRefund)[0]; !strings.HasSuffix(got, `{"charge":"ch_1"}`) {
		t.Errorf("the refund was %s", got)
	}
}

func TestSG06_ALostReplyIsLookedUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callCharge] = []answer{{lost: true}}
	s := r.put(shop)
	key := ""
	r.services.mu.Lock()
	r.plan[callCharge][0].before = func() {
		r.services.mu.Lock()
		defer r.services.mu.Unlock()
		_, key, _ = strings.Cut(r.requests[callCharge][0], "key=")
		key, _, _ = strings.Cut(key, " ")
		r.plan["GET /charges?key="+key] = []answer{{body: `{"state": "paid", "id": "ch_7"}`}}
	}
	r.services.mu.Unlock()
	v := r.end(r.start(s.Name, "o-1", shopInput).Run)
	r.want(v, machine.Completed, callLoyalty+", "+callCharge+", GET /charges, "+callOrder)
	r.wantOutput(v, "charge", `{"state":"paid","id":"ch_7"}`)
	if got := r.sent("GET /charges?key=" + key); key == "" || !strings.HasPrefix(got[0], "key= ") {
		t.Errorf("the look-up of %s has a key: %s", key, got)
	}
	if got := r.sent(callOrder)[0]; !strings.HasSuffix(got, `{"order":"o/1","charge":"ch_7"}`) {
		t.Errorf("the order was %s", got)
	}
}

func TestSG07_WhatTheLookUpDoesNotFindIsNotUndone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callCharge] = []answer{{status: 500, body: "boom"}}
	s := r.put(strings.Replace(shop, "query: {key: \"${key}\"}, ", "", 1))
	r.answers("GET /charges", answer{status: 404, body: "{}"})
	v := r.end(r.start(s.Name, "o-1", shopInput).Run)
	if v.State.Status != machine.Compensated || strings.Contains(r.made(), callRefund) ||
		!strings.HasSuffix(r.made(), callBack) || strings.Count(r.made(), callCharge) != 3 {
		t.Errorf("the run is %s; calls: %s", v.State.Status, r.made())
	}
	r.wantHistory(v, "500")
}

func TestALookUpThatFindsARefusal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callCharge] = []answer{{status: 503}}
	r.plan["GET /charges"] = []answer{{body: `{"state": "declined"}`}}
	v := r.runs(strings.Replace(shop, "query: {key: \"${key}\"}, ", "", 1), shopInput)
	r.want(v, machine.Compensated, callLoyalty+", "+callCharge+", GET /charges, "+callBack)
	r.wantHistory(v, "the look-up finds it refused")
}

// A look-up that cannot be made, or that says two things, proves nothing: the run is held.
func TestALookUpThatTellsNothing(t *testing.T) {
	t.Parallel()
	for _, a := range []answer{
		{status: 401, body: `{}`}, {status: 500, body: `{"state": "paid"}`}, {status: 200, body: `<html>`},
		{status: 200, body: `{"state": "new"}`}, {status: 404, body: `{"state": "paid"}`}, {status: 302},
		{status: 429, body: `{"state": "paid"}`},
	} {
		r := newRig(t)
		r.goodShop()
		r.plan[callCharge] = []answer{{status: 503}}
		r.plan["GET /charges"] = []answer{a}
		v := r.runs(strings.Replace(shop, "query: {key: \"${key}\"}, ", "", 1), shopInput)
		if v.State.Status != machine.Held || strings.Count(r.made(), callCharge) != 1 {
			t.Errorf("after %d %s the run is %s; calls: %s", a.status, a.body, v.State.Status, r.made())
		}
	}
}

func TestSG08_AnUndoThatFailsIsTriedAgainWithTheSameKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callOrder] = []answer{{status: 422}}
	r.plan[callBack] = []answer{{status: 500}, {lost: true}, {status: 503}, {status: 200}}
	v := r.runs(shop, shopInput)
	r.want(v, machine.Compensated, callLoyalty+", "+callCharge+", "+callOrder+", "+callRefund+
		strings.Repeat(", "+callBack, 4))
	sent := r.sent(callBack)
	for _, s := range sent[1:] {
		if s != sent[0] {
			t.Errorf("a try was\n%s, the first\n%s", s, sent[0])
		}
	}
}

func TestSG09_AnUndoThatFailsForEverIsStuck(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callOrder] = []answer{{status: 422}}
	r.plan[callRefund] = []answer{{status: 401, body: "who are you?"}}
	v := r.runs(shop, shopInput)
	r.want(v, machine.Stuck, callLoyalty+", "+callCharge+", "+callOrder+strings.Repeat(", "+callRefund, 3))
	r.wantHistory(v, "who are you?")
	if a := <-r.alarms; a.Status != 401 {
		t.Errorf("the alarm is %+v", a)
	}
	r.answers(callRefund, answer{status: 200})
	if _, err := r.engine.Operate(t.Context(), v.Run, saga.Act{Verb: machine.Retry, Step: "charge",
		Actor:  "ann",
		Reason: "key renewed"}); err != nil {
		t.Fatal(err)
	}
	if v = r.end(v.Run); v.State.Status != machine.Compensated {
		t.Errorf("the run is %s", v.State.Status)
	}
}

// Row 2 of the reports: a reply in a shape that nobody knows is said to be unclear, with
// its body, and the run does not go on as if it were done.
func TestReport02_AnUnclearReplyIsShownWithItsBody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.plan[callLoyalty] = []answer{{body: `{"result": "DENIED", "why": "no such customer"}`}}
	r.plan["GET /points"] = []answer{{status: 500}}
	v := r.runs(strings.Replace(shop, "points?key=${key}", "points", 1), shopInput)
	if v.State.Status != machine.Held || strings.Contains(r.made(), callCharge) {
		t.Errorf("the run is %s; calls: %s", v.State.Status, r.made())
	}
	r.wantHistory(v, `output.spent: ${reply.body.spent} is missing`)
	r.wantHistory(v, `no such customer`)
}

// Row 5: whatever waits for a service that was down is due at once for one who asks.
func TestReport05_ARetryByAPersonIsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callCharge] = []answer{{status: 429}}
	s := r.put(strings.Replace(shop, "retry: {first: 1ms, most: 2ms, attempts: 3, undo_attempts: 3}",
		"retry: {first: 3h, most: 3h}", 1))
	run := r.start(s.Name, "o-1", shopInput).Run
	v := r.reach(run, func(v *saga.RunView) bool {
		return v.State.Steps[1].Status == machine.Ready && v.State.Steps[1].Tries == 1
	})
	r.answers(callCharge, answer{body: `{"id": "ch_1"}`})
	if _, err := r.engine.Operate(t.Context(), v.Run, saga.Act{Verb: machine.Retry, Step: "charge",
		Actor:  "ann",
		Reason: "it is back"}); err != nil {
		t.Fatal(err)
	}
	r.want(r.end(run), machine.Completed, callLoyalty+", "+callCharge+", "+callCharge+", "+callOrder)
}

// Row 6: tries are counted with pauses between them.
func TestReport06_TriesHavePausesBetweenThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callOrder] = []answer{{status: 429}}
	v := r.runs(strings.Replace(shop, "retry: {first: 1ms, most: 2ms, attempts: 3}\n",
		"retry: {first: 40ms, most: 1s, attempts: 3}\n", 1), shopInput)
	r.want(v, machine.Compensated, callLoyalty+", "+callCharge+strings.Repeat(", "+callOrder, 3)+", "+
		""+callRefund+
		", "+callBack)
	var sent []saga.HistoryEntry
	for _, h := range v.History {
		if h.Note == machine.NoteSent && h.Step == "order" {
			sent = append(sent, h)
		}
	}
	if len(sent) != 3 || sent[1].At.Sub(sent[0].At).Milliseconds() < 20 ||
		sent[2].At.Sub(sent[1].At).Milliseconds() < 40 {
		t.Errorf("the sends are %+v", sent)
	}
}

// Row 7: the deadline passes while an outcome is unknown: the step is resolved, then undone.
func TestReport07_TheDeadlinePassesWhileAStepIsUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callCharge] = []answer{{status: 500}}
	r.plan["GET /charges"] = []answer{{status: 500}, {body: `{"state": "paid", "id": "ch_9"}`}}
	src := strings.Replace(shop, "query: {key: \"${key}\"}, ", "", 1)
	src = strings.Replace(src, "steps:", "deadline: 700ms\nsteps:", 1)
	src = strings.Replace(src, "retry: {first: 1ms, most: 2ms, attempts: 3, undo_attempts: 3}",
		"retry: {first: 1500ms, most: 1500ms}", 1)
	v := r.runs(src, shopInput)
	r.want(v, machine.Compensated, callLoyalty+", "+callCharge+", GET /charges, GET /charges, "+
		""+callRefund+", "+
		callBack)
	if v.State.Cause != machine.CauseDeadline {
		t.Errorf("the cause is %s", v.State.Cause)
	}
	if got := r.sent(callRefund)[0]; !strings.HasSuffix(got, `{"charge":"ch_9"}`) {
		t.Errorf("the refund was %s", got)
	}
}

// Row 13: a call that hangs ends at the time limit of its call, and says so.
func TestReport13_ACallThatHangsEndsAtItsTimeLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	hang := make(chan struct{})
	defer close(hang)
	r.plan[callOrder] = []answer{{before: func() { <-hang }}, {body: "{}"}}
	src := strings.Replace(shop, "http://HOST/orders, body", "http://HOST/orders, timeout: 1s, body", 1)
	src = strings.Replace(src, "  retry: {first: 1ms, most: 2ms, attempts: 3}\n",
		"  repeatable: true\n  retry: {first: 1ms, most: 2ms, attempts: 3}\n", 1)
	v := r.runs(src, shopInput)
	r.want(v, machine.Completed, callLoyalty+", "+callCharge+", "+callOrder+", "+callOrder)
	r.wantHistory(v, "it may have happened")
}

// Row 23: the key that a service gets is the same on every try, and the bytes too.
func TestReport23_EveryTrySendsTheSameBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callOrder] = []answer{{status: 429}, {status: 429,
		header: map[string]string{"Retry-After": "0"}}, {}}
	v := r.runs(shop, shopInput)
	r.want(v, machine.Completed, callLoyalty+", "+callCharge+strings.Repeat(", "+callOrder, 3))
	sent := r.sent(callOrder)
	if sent[0] != sent[1] || sent[1] != sent[2] || !strings.HasPrefix(sent[0], "key=") ||
		strings.HasPrefix(sent[0], "key= ") {
		t.Errorf("the tries are %q", sent)
	}
}

// Row 29: a service can refuse, and can ask to be asked again; in the body too.
func TestReport29_ReadingsOfTheReply(t *testing.T) {
	t.Parallel()
	src := strings.Replace(shop, "- name: order\n  call: {url: http://HOST/orders,", `- name: order
  repeatable: 1h
  settles_after: 1ms
  call: {url: http://HOST/orders, refused_if: "${reply.body.status == 'declined'}",
    retry_if: "${reply.body.status == 'busy'}", unfinished_if: "${reply.body.status == 'pending'}",`, 1)
	for _, c := range []struct {
		answers []answer
		status  machine.Status
		orders  int
		says    string
	}{
		{[]answer{{body: `{"status": "declined"}`}}, machine.Compensated, 1, "refused_if holds"},
		{[]answer{{status: 500, body: `{"status": "declined"}`}}, machine.Compensated, 1, "refused_if holds"},
		{[]answer{{body: `{"status": "busy"}`}, {body: `{"status": "ok"}`}}, machine.Completed, 2,
			"retry_if holds"},
		{[]answer{{body: `{"status": "pending"}`}, {body: `{"status": "ok"}`}}, machine.Completed, 2,
			"unfinished_if holds"},
		// a body that cannot be read is not one without a refusal
		{[]answer{{body: `<html>`}, {body: `{"status": "ok"}`}}, machine.Completed, 2, "refused_if cannot " +
			"tell"},
		{[]answer{{body: `[1]`}, {body: `{"status": "ok"}`}}, machine.Completed, 2, "refused_if cannot tell"},
		{[]answer{{status: 204}}, machine.Completed, 1, ""},
		// but a status that is no 2xx says by itself what it means
		{[]answer{{status: 422, body: `no`}}, machine.Compensated, 1, "answered 422"},
		{[]answer{{status: 429, body: `slow down`}, {body: `{"status": "ok"}`}}, machine.Completed, 2,
			"answered 429"},
		{[]answer{{status: 401, body: `<html>`}, {body: `{"status": "ok"}`}}, machine.Completed, 2,
			"answered 401"},
	} {
		r := newRig(t)
		r.goodShop()
		r.plan[callOrder] = c.answers
		v := r.runs(src, shopInput)
		if v.State.Status != c.status || strings.Count(r.made(), callOrder) != c.orders {
			t.Errorf("after %+v the run is %s; calls: %s\n%s", c.answers, v.State.Status, r.made(),
				history(v))
		}
		r.wantHistory(v, c.says)
	}
}

// SG-21: the hint of the callee is kept.
func TestSG21_RetryAfterIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callOrder] = []answer{{status: 429, header: map[string]string{"Retry-After": "1"}}, {}}
	v := r.runs(shop, shopInput)
	r.want(v, machine.Completed, callLoyalty+", "+callCharge+", "+callOrder+", "+callOrder)
	var at []int64
	for _, h := range v.History {
		if h.Note == machine.NoteSent && h.Step == "order" {
			at = append(at, h.At.UnixMilli())
		}
	}
	if len(at) != 2 || at[1]-at[0] < 1000 {
		t.Errorf("the sends are at %v", at)
	}
}

// SG-15: after the pivot there is only forward.
func TestSG15_AfterThePivotNothingIsUndone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callOrder] = []answer{{status: 422, body: "no"}, {status: 422, body: "no"}, {status: 200}}
	src := strings.Replace(shop, "  undo: {url: http://HOST/refunds, body: {charge: \"${output.id}\"}}\n",
		"  pivot: true\n", 1)
	v := r.runs(src, shopInput)
	r.want(v, machine.Completed, callLoyalty+", "+callCharge+strings.Repeat(", "+callOrder, 3))
	r.answers(callOrder, answer{status: 422, body: "never"})
	r.answers("POST /points/o%2F2", answer{body: `{"spent": 1}`})
	v = r.end(r.start("checkout", "o-2", strings.Replace(shopInput, "o/1", "o/2", 1)).Run)
	if v.State.Status != machine.Held || v.State.Hold != machine.HoldForward ||
		strings.Contains(r.made(), "refund") {
		t.Errorf("the run is %s %s; calls: %s", v.State.Status, v.State.Hold, r.made())
	}
}

// SG-16: what is irreversible is not said to be undone.
func TestSG16_WhatIsIrreversibleIsHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callOrder] = []answer{{status: 422}}
	v := r.runs(strings.Replace(shop, "  undo: {url: http://HOST/refunds, body: {charge: "+
		"\"${output.id}\"}}\n",
		"  irreversible: true\n", 1), shopInput)
	if v.State.Status != machine.Held || v.State.Hold != machine.HoldIrreversible {
		t.Errorf("the run is %s %s", v.State.Status, v.State.Hold)
	}
}

// A step of which nothing can tell whether it happened is undone all the same when that
// does no harm; and its undo cannot count on an output.
func TestUndoWhenAbsent(t *testing.T) {
	t.Parallel()
	const src = `name: hold
steps:
- name: stock
  call: {url: http://HOST/stock}
  undo: {method: DELETE, url: http://HOST/stock, query: {id: "${output.id ?? nil}"},
	outcomes: {done: [2xx, 404]}}
  undo_when_absent: safe
  settles_after: 1ms
  retry: {first: 1ms, most: 1ms, attempts: 2}
- name: order
  call: {url: http://HOST/orders}
`
	r := newRig(t)
	r.plan["POST /stock"] = []answer{{status: 502}}
	r.plan["DELETE /stock"] = []answer{{status: 404}}
	v := r.runs(src, "")
	r.want(v, machine.Compensated, "POST /stock, DELETE /stock")
}

// A callee that honours keys is asked again with the same key until it answers.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	const src = `name: pay
steps:
- name: charge
  call: {url: http://HOST/charges, key_header: X-Note, body: {at: "${key}"}}
  repeatable: 24h
  settles_after: 1ms
  retry: {first: 1ms, most: 2ms, attempts: 5}
`
	r := newRig(t)
	r.plan[callCharge] = []answer{{status: 500}, {lost: true}, {status: 202}, {status: 409},
		{body: `{"id": 1}`}}
	v := r.runs(src, "")
	r.want(v, machine.Completed, strings.TrimPrefix(strings.Repeat(", "+callCharge, 5), ", "))
	sent := r.sent(callCharge)
	for _, s := range sent {
		if s != sent[0] || !strings.Contains(s, "key= ") || !strings.Contains(s,
			"x=") || strings.Contains(s, "x=\n") {
			t.Errorf("the tries are %q", sent)
		}
	}
}

func TestCredentialsThatAreWrongRaiseAnAlarmAndDoNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callCharge] = []answer{{status: 401, body: "bad key"}, {body: `{"id": "ch_1"}`}}
	v := r.runs(shop, shopInput)
	r.want(v, machine.Completed, callLoyalty+", "+callCharge+", "+callCharge+", "+callOrder)
	if a := <-r.alarms; a.Status != 401 || !strings.Contains(r.URL, a.Host) {
		t.Errorf("the alarm is %+v", a)
	}
	r.wantHistory(v, "bad key")
}

// One wrong credential in a configuration does not undo the orders of the day: what
// waits for it goes on when it is right.
func TestCredentialsThatStayWrongHoldTheRunAndUndoNothing(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 407} {
		r := newRig(t)
		r.goodShop()
		r.plan[callOrder] = []answer{{status: status}}
		v := r.runs(shop, shopInput)
		r.want(v, machine.Held, callLoyalty+", "+callCharge+strings.Repeat(", "+callOrder, 3))
		if v.State.Hold != machine.HoldBroken ||
			!strings.Contains(v.State.Reason, "credentials are not accepted") ||
			!strings.Contains(v.State.Reason, "retry") {
			t.Errorf("it is held for %s: %s", v.State.Hold, v.State.Reason)
		}
		r.answers(callOrder, answer{status: 429}, answer{status: 200})
		r.operate(v, machine.Retry)
		v = r.end(v.Run)
		r.want(v, machine.Completed, callLoyalty+", "+callCharge+strings.Repeat(", "+callOrder, 5))
	}
}

// Where the document says that 401 is a refusal, it is one.
func TestADocumentCanTakeA401ForARefusal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callOrder] = []answer{{status: 401}}
	v := r.runs(strings.Replace(shop, "http://HOST/orders,", "http://HOST/orders, "+
		"outcomes: {refused: 401},", 1), shopInput)
	r.want(v, machine.Compensated, callLoyalty+", "+callCharge+", "+callOrder+", "+callRefund+", "+callBack)
}

// What is too early is asked for again, and is not said to have not happened.
func TestTooEarlyIsNotFinished(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.goodShop()
	r.plan[callCharge] = []answer{{status: 425}}
	r.plan["GET /charges"] = []answer{{body: `{"state": "paid", "id": "ch_8"}`}}
	v := r.runs(strings.Replace(shop, "query: {key: \"${key}\"}, ", "", 1), shopInput)
	r.want(v, machine.Completed, callLoyalty+", "+callCharge+", GET /charges, "+callOrder)
}

// A callee that knows no keys gets an undo once: one that may have happened is stuck,
// and goes over a connection of its own.
func TestAnUndoThatMustNotComeTwice(t *testing.T) {
	t.Parallel()
	src := strings.Replace(shop, "  undo: {url: http://HOST/refunds,",
		"  undo_key_valid_for: 0s\n  undo: {url: http://HOST/refunds,", 1)
	for _, a := range []answer{{lost: true}, {status: 500}, {status: 202}} {
		r := newRig(t)
		r.goodShop()
		r.plan[callOrder] = []answer{{status: 422}}
		r.plan[callRefund] = []answer{a, {status: 200}}
		v := r.runs(src, shopInput)
		r.want(v, machine.Stuck, callLoyalty+", "+callCharge+", "+callOrder+", "+callRefund)
	}
	d := parsed(t, src)
	if u := d.defs[1].undo; u.isCheck || !u.fresh {
		t.Errorf("it may be sent twice by the connection: %v, %v", u.isCheck, u.fresh)
	}
	r := newRig(t)
	r.goodShop()
	r.plan[callOrder] = []answer{{status: 422}}
	r.plan[callRefund] = []answer{{status: 429}, {status: 200}} // that did not happen
	v := r.runs(src, shopInput)
	r.want(v, machine.Compensated, callLoyalty+", "+callCharge+", "+callOrder+", "+callRefund+", "+callRefund+
		", "+callBack)
}

// A call without a time limit of its own has the default, whatever the others of its
// step may take.
func TestEveryCallHasItsOwnTimeLimit(t *testing.T) {
	t.Parallel()
	d := parsed(t, strings.Replace(shop, "undo: {url: http://HOST/refunds,",
		"undo: {url: http://HOST/refunds, timeout: 5m,", 1))
	s := d.defs[1]
	if s.call.timeout != saga.DefaultTimeout || s.undo.timeout != 5*time.Minute ||
		s.check.call.timeout != checkTimeout {
		t.Errorf("the limits are %v, %v, %v", s.call.timeout, s.undo.timeout, s.check.call.timeout)
	}
}
