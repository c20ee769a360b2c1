package definition

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"onced/saga"
	"onced/saga/egress"
	"onced/saga/httpstep"
	"onced/saga/machine"
)

// rendered is the request of the call of the only step, or the error.
func rendered(t testing.TB, d *Document, input string, secrets map[string]string) (*httpstep.Request, error) {
	t.Helper()
	def := d.defs[0]
	deps := &Deps{CallbackURL: func(CallbackUse) (string, error) { return "https://x/cb", nil }}
	if secrets != nil {
		deps.Secret = func(_ context.Context, u SecretUse) (string, error) {
			if v, ok := secrets[u.Name]; ok {
				return v, nil
			}
			return "", errors.New("it is not there")
		}
	}
	c := &saga.Call{Run: "run_1", Key: "o-1", Round: 1, Step: def.name, DownstreamKey: "key-1",
		Input: []byte(input)}
	target := &Target{Version: "1", Origin: FromAPI}
	s := def.call.newScope(t.Context(), c, target, deps)
	return def.call.request(s, target)
}

// A dot that is written as %2e before an expression is a dot to the callee.
func TestHiddenDotSegments(t *testing.T) {
	t.Parallel()
	d := parsed(t, "name: a\nsteps:\n- {name: b, call: {url: 'http://h/p/%2e${input.v}/q'}}\n")
	for v, want := range map[string]string{".": "makes a segment . or ..", "%2e": "", "x": ""} {
		req, err := rendered(t, d, `{"v": "`+v+`"}`, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %+v, %v", v, req, err)
		}
	}
}

// A query and a form are written as package net/url does, whatever their names are.
func TestQueriesAreThoseOfNetURL(t *testing.T) {
	t.Parallel()
	d := parsed(t, `name: a
steps:
- name: b
  call:
    url: http://h/
    query: {"b c": "x y&", "ä": "é=${input.v}", B: 2, "a&=": true, b: "${input.v}",
      gone: "${nil ?? nil}"}
    form: {z: "", y: "+%\n", "b": "${input.v}", "gone": "${nil ?? nil}"}
`)
	for _, v := range []string{"", "plain", "a b", "ü&=;%00", "\r\n"} {
		req, err := rendered(t, d, string(appendJSON(nil, map[string]any{"v": v})), nil)
		if err != nil {
			t.Fatal(err)
		}
		query := url.Values{"b c": {"x y&"}, "ä": {"é=" + v}, "B": {"2"}, "a&=": {"true"}, "b": {v}}
		form := url.Values{"z": {""}, "y": {"+%\n"}, "b": {v}}
		if req.URL != "http://h/?"+query.Encode() || string(req.Body) != form.Encode() {
			t.Errorf("%q: %s %s\nwant %s\n%s", v, req.URL, req.Body, query.Encode(), form.Encode())
		}
	}
}

// Whatever the values are, they stay where they were put.
func TestValuesCannotLeaveTheirPlace(t *testing.T) {
	t.Parallel()
	d := parsed(t, `name: a
steps:
- name: b
  call:
    url: http://h:1/p/${input.v}/q?a=${input.v}&b=1
    query: {c: "${input.v}"}
    headers: {X: "x ${input.v}"}
    form: {f: "${input.v}"}
`)
	for v, want := range map[string]string{
		"plain": "http://h:1/p/plain/q?a=plain&b=1&c=plain",
		"a/b?c#d&e=f": "http://h:1/p/a%2Fb%3Fc%23d&e=f/q?a=a%2Fb%3Fc%23d%26e%3Df&b=1&c=a%2Fb%3Fc%23d%26" +
			"e%3Df",
		"../../admin":  "http://h:1/p/..%2F..%2Fadmin/q?a=..%2F..%2Fadmin&b=1&c=..%2F..%2Fadmin",
		"%2e%2e":       "http://h:1/p/%252e%252e/q?a=%252e%252e&b=1&c=%252e%252e",
		"ü @:80":       "http://h:1/p/%C3%BC%20@:80/q?a=%C3%BC+%40%3A80&b=1&c=%C3%BC+%40%3A80",
		"..":           "error: steps[0].call.url: makes a segment . or .. of the path",
		".":            "error: steps[0].call.url: makes a segment . or .. of the path",
		"":             "error: steps[0].call.url: ${input.v} is empty, and would change what the path means",
		"a\r\nEvil: 1": "error: the value of the header X has a line break or another control character",
		"a\x00b":       "error: the value of the header X has a line break or another control character",
	} {
		input := string(appendJSON(nil, map[string]any{"v": v}))
		req, err := rendered(t, d, input, nil)
		var got string
		if err != nil {
			got = "error: " + err.Error()
		} else {
			got = req.URL
		}
		if got != want {
			t.Errorf("%q gives\n %s, want\n %s", v, got, want)
		}
		if err != nil {
			continue
		}
		if body := string(req.Body); strings.Contains(body, "&") || !strings.HasPrefix(body, "f=") {
			t.Errorf("%q gives the form %s", v, body)
		}
	}
	for _, input := range []string{`{}`, `{"v": null}`, `{"v": [1]}`, `{"v": {}}`} {
		_, err := rendered(t, d, input, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "steps[0].call.") {
			t.Errorf("%s: %v", input, err)
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	d := parsed(t, `name: a
steps:
- name: b
  call:
    url: http://h/
    headers: {A: "${input.none ?? nil}", B: "b"}
    query: {none: "${input.none ?? nil}"}
    body: {z: "${input.n}", a: [1.50, true, null, "x ${input.n} y", "$${n}"],
      none: "${input.none ?? nil}", o: "${input.o}",
      "a\"b": "<&>"}
`)
	req, err := rendered(t, d, `{"n": 1.10, "o": {"z": [], "a": 100000000000000000000.0}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"z":1.10,"a":[1.50,true,null,"x 1.10 y","${n}"],"none":null,` +
		`"o":{"a":100000000000000000000.0,"z":[]},"a\"b":"<&>"}`
	if string(req.Body) != want || req.URL != "http://h/" || fmt.Sprint(req.Header) != "map[B:[b]]" ||
		req.Key != "key-1" {
		t.Errorf("%s\n%s\n%s\n%v", req.Body, want, req.URL, req.Header)
	}
	if req.Trust != egress.Guarded {
		t.Error("a document of the API is trusted")
	}
}

// What goes wrong before the send is not done, says what it is, and is tried again: a
// missing secret until it is there.
func TestAMissingSecretIsNotDoneAndNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.services.mu.Lock()
	delete(r.secrets, "loyalty")
	r.services.mu.Unlock()
	r.goodShop()
	v := r.runs(shop, shopInput)
	r.want(v, machine.Held, "")
	r.wantHistory(v,
		`the call was not made: steps[0].call.headers.Authorization: ${secrets.loyalty} cannot be read: `+
			`secret "loyalty": it is not in the configuration`)
	r.setSecret("loyalty", "back-again")
	r.operate(v, machine.Retry)
	v = r.end(v.Run)
	if v.State.Status != machine.Completed ||
		!strings.Contains(r.sent(callLoyalty)[0], "auth=Bearer back-again") {
		t.Errorf("the run is %s: %s", v.State.Status, r.sent(callLoyalty))
	}
}

// A reply that gives secrets back, in any form that JSON has, does not get them stored.
func TestSecretsOfAReplyAreNotKept(t *testing.T) {
	t.Parallel()
	const src = `name: leak
steps:
- name: default
  call: {url: http://HOST/default, headers: {Authorization: "Basic ${base64(secrets.gateway + ':')}"}}
  undo: {url: http://HOST/undo}
- name: text
  call: {url: http://HOST/text, form: {s: "${secrets.gateway}"}}
  output: "${reply.text}"
  undo: {url: http://HOST/undo}
- name: mapped
  call: {url: http://HOST/mapped, query: {token: "${secrets.loyalty}"}, body: {tell: "${callback_url}"}}
  output: {all: "${reply.body}", head: "${reply.headers['x-echo']}", text: "${reply.text}"}
  await: {}
  nothing_to_undo: true
- name: last
  call: {url: http://HOST/last, body: {k: "${secrets.gateway}"}}
  retry: {attempts: 1, first: 1ms, most: 1ms}
`
	r := newRig(t)
	secret, basic := r.secrets["gateway"], "czNjcjN0LSJxdW90ZWQiOg=="
	r.answers("POST /default", answer{body: `{"a": "x s3cr3t-\u0022\u0071uoted\" y", "` + basic +
		`": 1, "b": ["` + basic + `"]}`})
	r.answers("POST /text", answer{body: `<p class="s3cr3t-&#34;quoted&#34;">s3cr3t-%22quoted%22 ` +
		`s3cr3t-"quoted" s3cr3t-\"quoted\"`})
	r.answers("POST /mapped?token=loyal-token", answer{header: map[string]string{"X-Echo": "loyal-token"},
		body: `{"t": "loyal-token!", "n": {"u": "https:\/\/onced.test\/v1\/callbacks\/RUN-mapped-1"}}`})
	r.answers("POST /last", answer{status: 422, body: `{"k": "s3cr3t-\"quoted\"", "say": "no"}`})
	s := r.put(src)
	run := r.start(s.Name, "o-1", "").Run
	v := r.reach(run, waiting("mapped"))
	r.wantOutput(v, "default", `{"[redacted]":1,"a":"x [redacted] y","b":["[redacted]"]}`)
	r.wantOutput(v, "text", `"<p class=\"[redacted]\">[redacted] [redacted] [redacted]"`)
	r.wantOutput(v, "mapped",
		`{"all":{"n":{"u":"https://onced.test/v1/callbacks/RUN-mapped-1"},"t":"[redacted]!"},`+
			`"head":"[redacted]","text":"{\"t\": \"[redacted]!\", \"n\": {\"u\": `+
			`\"https:\\/\\/onced.test\\/v1\\/callbacks\\/RUN-mapped-1\"}}"}`)
	if err := r.engine.Signal(t.Context(), saga.Signal{Run: run, Step: "mapped"}); err != nil {
		t.Fatal(err)
	}
	v = r.end(run)
	all := fmt.Sprintf("%+v %s", v, history(v))
	for _, leak := range []string{secret, basic, "loyal-token", "s3cr3t"} {
		if strings.Contains(all, leak) {
			t.Errorf("%q is kept in\n%s", leak, all)
		}
	}
	r.wantHistory(v, "no")
}

func TestTheCallbackURLOfAReplyIsNotKept(t *testing.T) {
	t.Parallel()
	d := parsed(t, "name: a\nsteps:\n- {name: b, await: {}, call: {url: 'http://h/', body: {tell: "+
		"'${callback_url}'}}}\n")
	c := &saga.Call{Run: "run_1", Step: "b"}
	s := d.defs[0].call.newScope(t.Context(), c, &Target{}, &Deps{
		CallbackURL: func(CallbackUse) (string, error) {
			return "https://x/callbacks/0123456789ABCDEF", nil
		}})
	if _, err := d.defs[0].call.request(s, &Target{}); err != nil {
		t.Fatal(err)
	}
	out := wholeBody(&httpstep.Reply{Status: 200, Body: []byte(`{"hook": "https:\/\/x\/callbacks\/` +
		`0123456789ABCDEF", "token": "0123456789ABCDEF"}`)}, s)
	if string(out) != `{"hook":"[redacted]","token":"[redacted]"}` {
		t.Errorf("the output is %s", out)
	}
}

// A document of the API cannot call what is not public; one of a file can.
func TestTrustFollowsTheOrigin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const src = "name: a\nsteps:\n- {name: b, call: {url: 'http://HOST/x'}, retry: {attempts: 2, first: " +
		"1ms, most: 1ms}}\n"
	_, _, err := r.book.Put(t.Context(), []byte(r.text(src)), FromAPI)
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Field != "steps[0].call.url" ||
		problems[0].Line != 3 || !strings.Contains(problems[0].Message, "loopback") {
		t.Fatalf("the problems are %v", err)
	}
	byName := strings.ReplaceAll(r.text(src), "127.0.0.1", "localhost")
	s, created, err := r.book.Put(t.Context(), []byte(byName), FromAPI)
	if err != nil || !created || s.Origin != FromAPI {
		t.Fatal(s, created, err)
	}
	v := r.end(r.start("a", "o-1", "").Run)
	r.want(v, machine.Held, "") // an operator can allow it
	r.wantHistory(v, "loopback")
	v = r.runs(strings.Replace(byName, "name: a", "name: c", 1), "")
	r.want(v, machine.Completed, "POST /x")
}

// The same document, input and outputs make the same bytes, every time.
func TestRenderingIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	d := parsed(t, `name: a
steps:
- name: b
  call:
    url: http://h/${input.id}
    query: {b: "${input.id}", a: "${len(input.o)}"}
    headers: {X: "${input.id}", B: "2", A: "1"}
    body: {o: "${input.o}", m: "${map(input.l, {{a: #, b: input.o, c: 1, d: 2}})}", key: "${key}"}
`)
	input := `{"id": "x", "l": [1, 2], "o": {"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}}`
	first := ""
	for i := range 50 {
		req, err := rendered(t, d, input, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%s %s %v %s", req.Method, req.URL, req.Header, req.Body)
		if first == "" {
			first = got
		}
		if got != first {
			t.Fatalf("the rendering %d is\n%s\nand the first\n%s", i, got, first)
		}
	}
}
