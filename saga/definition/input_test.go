package definition

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/saga"
	"onced/saga/httpstep"
)

// TestWholeValuesAreSentAsTheyWouldBeWritten: the input of a run and the output of a step,
// where they are a body or a part of one, are the bytes of reading and writing them.
func TestWholeValuesAreSentAsTheyWouldBeWritten(t *testing.T) {
	t.Parallel()
	d := parsed(t, `name: a
steps:
- {name: b, call: {url: 'http://h/', body: "${input}"}, undo: {url: 'http://h/', body: "${output}"}}
- {name: c, call: {url: 'http://h/', body: {whole: "${input}", list: ["${input}"]}}}
`)
	b, c := d.defs[0], d.defs[1]
	body := func(call *callDef, raw []byte) string {
		s := call.newScope(t.Context(), &saga.Call{Step: "b", Input: raw, Out: raw}, &Target{}, &Deps{})
		req, err := call.request(s, &Target{})
		if err != nil {
			return "error: " + err.Error()
		}
		if again, err := call.request(s, &Target{}); err != nil || !bytes.Equal(again.Body, req.Body) {
			t.Errorf("%q: the second time it is %q, %v", raw, again.Body, err)
		}
		return string(req.Body)
	}
	for _, text := range append(jsonTexts(), `{"a":1,"b":[1.50,"x"]}`, `"text"`, `7`, `{"b":1,"a":2}`, ` 7`) {
		raw := []byte(text)
		v, err := decodedByTheLibrary(raw)
		want := string(appendJSON(nil, v))
		part := `{"whole":` + want + `,"list":[` + want + `]}`
		for name, made := range map[string]struct{ got, want, problem string }{
			"the input":           {body(b.call, raw), want, "error: steps[0].call.body: ${input} "},
			"an output":           {body(b.undo, raw), want, "error: steps[0].undo.body: ${output} "},
			"a part of the input": {body(c.call, raw), part, "error: steps[1].call.body.whole: ${input} "},
		} {
			problem := made.problem + "is missing"
			if err != nil {
				problem = made.problem + err.Error()
			}
			if err != nil || v == nil {
				made.want = problem
			}
			if made.got != made.want {
				t.Errorf("%.40q: %s is sent as %.80s, want %.80s", text, name, made.got, made.want)
			}
		}
	}
}

// TestTheInputIsSharedByCalls: also by one that overstays its time.
func TestTheInputIsSharedByCalls(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{"b": "x", "a": [1, {"c": 2}]}`, `{"a":[1,{"c":2}],"b":"x"}`} {
		in := &runInput{raw: []byte(raw)}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				v, err := in.decoded()
				if got := string(appendJSON(nil, v)); err != nil || got != string(in.written()) ||
					got != `{"a":[1,{"c":2}],"b":"x"}` {
					t.Errorf("it is %s and %s, %v", got, in.written(), err)
				}
			})
		}
		all.Wait()
	}
}

// TestWhatIsTheSameForAllRuns: a URL without expressions is read when the document is, and
// one that cannot be sent to is found by each call, as any other.
func TestWhatIsTheSameForAllRuns(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://h/a%2Fb?x=1":                     "http://h/a%2Fb?x=1&q=%26",
		"http://h":                               "http://h?q=%26",
		"http://h/${input.x}":                    "http://h/1?q=%26",
		"http://h/?x=${input.x}":                 "http://h/?x=1&q=%26",
		"http://h/" + strings.Repeat("x", 9<<10): "",
	} {
		d := parsed(t, "name: a\nsteps:\n- {name: b, call: {url: '"+url+"', query: {q: '&'}}}\n")
		call := d.defs[0].call
		req, err := rendered(t, d, `{"x":1}`, nil)
		if err != nil || want != "" && req.URL != want {
			t.Errorf("%.40s is %.80s, %v", url, req.URL, err)
		}
		fixed := !strings.Contains(url, "${") && want != ""
		if (call.endpoint != nil) != fixed || req.Endpoint != call.endpoint || fixed && call.fixed != want {
			t.Errorf("%.40s is the same for all: %v, %.80s", url, call.endpoint != nil, call.fixed)
		}
		if _, err := httpstep.NewEndpoint(req.URL); (err == nil) != (want != "") {
			t.Errorf("%.40s: %v", url, err)
		}
	}
}

// TestTheLimitOfACall: the longest of a step is that of the step, which the engine holds;
// the others hold their own.
func TestTheLimitOfACall(t *testing.T) {
	t.Parallel()
	d := parsed(t, `name: a
steps:
- name: b
  call: {url: 'http://h/', timeout: 40s}
  undo: {url: 'http://h/', timeout: 2s}
  check: {url: 'http://h/', timeout: 40s, done: "${reply.status == 200}"}
- {name: c, call: {url: 'http://h/'}}
`)
	b, c := d.defs[0], d.defs[1]
	for i, x := range []struct {
		call *callDef
		want time.Duration
	}{{b.call, 0}, {b.undo, 2 * time.Second}, {b.check.call, 0}, {c.call, 0}} {
		s := x.call.newScope(t.Context(), &saga.Call{Step: "b"}, &Target{}, &Deps{})
		if req, err := x.call.request(s, &Target{}); err != nil || req.Timeout != x.want {
			t.Errorf("call %d has the limit %v of its own, want %v; %v", i, req.Timeout, x.want, err)
		}
	}
	if b.timeout() != 40*time.Second || c.timeout() != saga.DefaultTimeout {
		t.Errorf("the steps have %v and %v", b.timeout(), c.timeout())
	}
}

// TestAReplyIsReadOnce: an expression can ask for a part of it for each item of a list.
func TestAReplyIsReadOnce(t *testing.T) { //nolint:paralleltest // it counts allocations
	r := &replied{Reply: &httpstep.Reply{Status: 200, Body: []byte(`["a","b"]`),
		Header: map[string][]string{"X-A": {"1", "2"}}}, mask: maskOf([]string{"secret"})}
	for _, part := range []string{"headers", "body", "text"} {
		v, err := r.part(part)
		if err != nil || v == nil {
			t.Errorf("%s is %v, %v", part, v, err)
		}
		again := testing.AllocsPerRun(10, func() {
			if w, err := r.part(part); err != nil || !equal(v, w) {
				t.Errorf("%s is then %v, %v", part, w, err)
			}
		})
		if again > 0 {
			t.Errorf("%s is made anew, in %v pieces", part, again)
		}
	}
}

// TestWhatWasReadIsNotLookedAtAgain: a body can have one large output in many places.
func TestWhatWasReadIsNotLookedAtAgain(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{`{"a":1}`: `{"a":1}`, `{"b":1,"a":2}`: "", `null`: "", ``: ""} {
		s := &scope{call: &saga.Call{Step: "b", Out: []byte(raw)}}
		out := kept{step: "b"}
		if got := s.written(out); string(got) != want {
			t.Errorf("%s is taken as %q, want %q", raw, got, want)
		}
		if _, err := s.value(out); err != nil {
			t.Error(err)
		}
		if got := s.written(out); got != nil {
			t.Errorf("%s was read, and is looked at again: %q", raw, got)
		}
	}
}
