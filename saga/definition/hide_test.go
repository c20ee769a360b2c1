package definition

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"onced/saga"
	"onced/saga/machine"
)

// talkative sends its secrets with the first call; the others only read.
const talkative = `name: talk
steps:
- name: charge
  call: {url: http://HOST/charges, headers: {Authorization: "Bearer ${secrets.gateway}"},
    body: "${callback_url}"}
  await: {done: "${signal.body.ok}", refused: "${!signal.body.ok}"}
  check: {url: http://HOST/look, done: "${reply.status == 200}"}
  undo: {url: http://HOST/refunds}
- name: order
  call: {url: http://HOST/orders}
  retry: {attempts: 1, first: 1ms, most: 1ms}
`

// What one call sent is taken out of the replies of all others, of signals and of what
// the history says.
func TestSecretsOfOtherCallsAreNotKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                string
		charge, look, order int // the statuses
		signal              string
		status              machine.Status
	}{
		{"the look-up", 500, 200, 200, "", machine.Completed},
		{"a later step", 202, 200, 200, `{"ok": true, `, machine.Completed},
		{"a later step that refuses", 202, 200, 422, `{"ok": true, `, machine.Compensated},
		{"a signal that refuses", 202, 200, 200, `{"ok": false, `, machine.Compensated},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			started := make(chan string, 1)
			url := ""
			echo := func() string {
				return `"echo": ["\u0073` + strings.ReplaceAll(r.secrets["gateway"][1:], `"`, `\"`) + `", "` +
					url + `", "` + url[strings.LastIndexByte(url, '/')+1:] + `"], "say": "words"}`
			}
			r.answers("POST /charges", answer{status: c.charge, before: func() {
				run := <-started
				url = "https://onced.test/v1/callbacks/" + run + "-charge-1"
				r.answers("GET /look", answer{status: c.look, body: "{" + echo()})
				r.answers("POST /orders", answer{status: c.order, body: "{" + echo()})
			}})
			s := r.put(talkative)
			run := r.start(s.Name, "o-1", "").Run
			started <- run
			if c.signal != "" {
				r.reach(run, waiting("charge"))
				r.callback(run, c.signal+echo())
			}
			v := r.end(run)
			if v.State.Status != c.status {
				t.Errorf("the run is %s", v.State.Status)
			}
			all := history(v)
			for _, st := range v.State.Steps {
				all += fmt.Sprintf("%s %s %s\n", st.Output, st.SignalData, st.Error)
			}
			for _, leak := range []string{"3cr3t", url, run + "-charge-1"} {
				if strings.Contains(all, leak) {
					t.Errorf("%q is kept in\n%s", leak, all)
				}
			}
			if !strings.Contains(all, "words") {
				t.Errorf("nothing is kept: this test cannot fail\n%s", all)
			}
		})
	}
}

func nested(deep int) string { return strings.Repeat("[", deep) + strings.Repeat("]", deep) }

// What is nested too deep, or is no UTF-8, is not read and not kept.
func TestWhatIsNestedTooDeep(t *testing.T) {
	t.Parallel()
	if deeper([]byte(`{"[[[": "]\"[[[[[["}`), 1) || !deeper([]byte(`[[`), 1) || deeper([]byte(`[[]]`), 2) {
		t.Error("the depth is counted wrong")
	}
	for body, kept := range map[string]string{
		nested(maxNested):                 nested(maxNested),
		nested(maxNested + 1):             "",
		nested(9000):                      "",
		"{\"a\": \"\xff\"}":               "",
		`{"a": "` + "\xed\xa0\x80" + `"}`: "",
	} {
		r := newRig(t)
		r.answers("POST /orders", answer{body: body})
		v := r.runs("name: a\nsteps:\n- {name: order, call: {url: http://HOST/orders}}", "")
		r.want(v, machine.Completed, "POST /orders")
		if got := string(v.State.Steps[0].Output); got != kept {
			t.Errorf("%.40q: %.40q is kept", body, got)
		}
		r = newRig(t)
		r.answers("POST /orders", answer{body: body})
		v = r.runs("name: a\nsteps:\n- {name: order, call: {url: http://HOST/orders}, "+
			"output: {b: '${reply.body}'}}", "")
		r.want(v, machine.Held, "POST /orders") // one deeper, or not readable
	}
	d, _ := Parse([]byte(slow), Options{})
	for body, good := range map[string]bool{
		`{"status": "failed", "a": ` + nested(maxNested-1) + `}`:     true,
		`{"status": "failed", "a": ` + nested(maxNested) + `}`:       false,
		"{\"status\": \"failed\", \"a\": \"\xff\"}":                  false,
		`{"status": "succeeded", "id": ` + nested(maxNested-1) + `}`: true,
	} {
		_, _, err := d.ReadSignal("charge", []byte(body))
		e, ok := errors.AsType[*saga.InputError](err)
		if good != (err == nil) || !good && (!ok || e.Field != "body") {
			t.Errorf("%.40q: %v", body, err)
		}
	}
	for _, input := range []string{nested(maxNested + 1), "{\"a\": \"\xff\"}"} {
		if e, ok := errors.AsType[*saga.InputError](d.CheckInput([]byte(input))); !ok || e.Field != "input" {
			t.Errorf("%.40q is taken", input)
		}
	}
}

// A rendering that takes longer than there is time is not sent, and said to be so.
func TestWhatIsRenderedTooLateIsNotSent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	src := r.text("name: a\nsteps:\n- {name: order, call: {url: http://HOST/orders}}")
	d, problems := Parse([]byte(src), Options{})
	if d == nil {
		t.Fatal(problems)
	}
	run := &runner{stepDef: d.defs[0], doc: d, target: Target{Origin: FromFile}, deps: r.book.cfg.Deps}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := run.act(ctx, &saga.Call{Step: "order"})
	if saga.OutcomeOf(err) != saga.OutcomeRetry ||
		!strings.Contains(err.Error(), "longer than there is time") {
		t.Errorf("%v: %v", saga.OutcomeOf(err), err)
	}
	if r.made() != "" {
		t.Errorf("it was sent: %s", r.made())
	}
	s := &scope{ctx: ctx}
	began := 0
	for ; began < maxWork && s.spend(1) == nil; began++ {
	}
	if began >= 2*watched {
		t.Errorf("the time was not looked at for %d", began)
	}
}

// Names and keys that people read have nothing in them that is not seen or turns text
// round; texts that are only passed on may.
func TestNamesThatTurnTextRound(t *testing.T) {
	t.Parallel()
	const src = "name: a\ntitle: \"T\"\ninput: {\"I\": any}\nlabels: {\"L\": x}\nsteps:\n" +
		"- name: b\n  call: {url: http://h/, query: {\"Q\": x}, body: {\"B\": \"x\\u202Ey\"}}\n"
	if got := found(src); got != "" {
		t.Fatal(got)
	}
	for place, field := range map[string]string{"T": "title", "I": "input", "L": "labels",
		"Q": "steps[0].call.query", "B": "steps[0].call.body"} {
		for _, c := range []string{"\\u202E", "\\u2066", "\\u200B", "\\uFEFF", "\\u2028", "\\u0007"} {
			got := found(strings.Replace(src, "\""+place+"\"", "\"x"+c+"y\"", 1))
			if !strings.Contains(got, "turns text round") || !strings.Contains(got, field) ||
				strings.ContainsAny(got, "\u202E\u2066\u200B\uFEFF\u2028\u0007") {
				t.Errorf("%s %s: %q", place, c, got)
			}
		}
	}
	d, _ := Parse([]byte(src), Options{})
	for key, good := range map[string]bool{
		"o-1 é 注文": true, //nolint:gosmopolitan // keys may be of any script
		"o\u202E1": false, "o\u200B1": false,
	} {
		err := d.Prepare(&saga.StartRequest{Key: key})
		e, ok := errors.AsType[*saga.InputError](err)
		if good != (err == nil) || !good && (!ok || e.Field != "key") {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// What a callee asks to wait leaves a try within the time for which it knows the key.
func TestThePauseLeavesATryWithinTheKey(t *testing.T) {
	t.Parallel()
	d, _ := Parse([]byte("name: a\nsteps:\n- name: b\n  call: {url: http://h/}\n  repeatable: 1h\n"+
		"  undo: {url: http://h/}\n  undo_key_valid_for: 2h\n"), Options{})
	total := time.Duration(0)
	for try := 1; try <= 21; try++ {
		c := &saga.Call{Step: "b", Try: try}
		req, err := d.defs[0].call.request(&scope{call: c}, &Target{})
		if err != nil || try == 1 && req.MaxPause != 30*time.Minute || req.MaxPause <= 0 {
			t.Fatal(try, req.MaxPause, err)
		}
		if total += req.MaxPause; total >= time.Hour {
			t.Fatalf("the pauses before try %d are %s", try+1, total)
		}
		undo, err := d.defs[0].undo.request(&scope{call: c}, &Target{})
		if err != nil || undo.MaxPause < req.MaxPause || try == 1 && undo.MaxPause != time.Hour {
			t.Fatal(undo.MaxPause, err)
		}
	}
}
