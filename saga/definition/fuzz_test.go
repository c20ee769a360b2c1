package definition

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"onced/saga"
	"onced/saga/httpstep"
)

// FuzzParse: any bytes give a document that compiles, or problems with a place in the
// text.
func FuzzParse(f *testing.F) {
	f.Add([]byte(sample(f)))
	f.Add([]byte(two))
	f.Add([]byte(slow))
	f.Add([]byte(`{"name": "a", "steps": [{"name": "b",
		"call": {"url": "http:\/\/h/${input.x}", "body": {"n": 1.50}}}]}`))
	f.Add([]byte("name: a\nsteps:\n- {name: b, call: {url: 'http://h/${map(input.l, {{a: #}})}'}}\n"))
	f.Add([]byte("a: &a [*a]\n<<: *a\n? [x]\n: |\n  ${x"))
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, name := range files {
		if b, err := os.ReadFile(name); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d, problems := Parse(src, Options{Secrets: []string{"gateway", "loyalty"}})
		if (d == nil) != (len(problems) > 0) {
			t.Fatalf("the document is %v, the problems are %v", d, problems)
		}
		lines := strings.Count(string(src), "\n") + 1
		for _, p := range problems {
			if p.Line < 0 || p.Line > lines+1 || p.Column < 0 || p.Message == "" ||
				!utf8.ValidString(p.Message) {
				t.Fatalf("the problem has no place or no text: %+v", p)
			}
		}
		if d == nil {
			return
		}
		if err := d.compile(Target{Version: "1"}, Deps{}).Err(); err != nil {
			t.Fatal(err)
		}
		again, problems := Parse(src, Options{})
		if len(problems) > 0 || again.Digest() != d.Digest() || d.Digest() == "" {
			t.Fatalf("the second reading differs: %v", problems)
		}
		for _, s := range d.defs {
			if s.call != nil {
				render(t, d, s)
			}
		}
	})
}

// render makes the request of a step twice, of an input that fits nothing much.
func render(t *testing.T, d *Document, s *stepDef) {
	t.Helper()
	deps := &Deps{CallbackURL: func(CallbackUse) (string, error) { return "https://x/cb", nil }}
	c := &saga.Call{Run: "r", Key: "k", Step: s.name, DownstreamKey: "key", Input: []byte(world)}
	var first string
	for i := range 2 {
		sc := s.call.newScope(t.Context(), c, &Target{}, deps)
		if usesSteps(d, s.name) {
			return // what steps gave is known to the engine only
		}
		req, err := s.call.request(sc, &Target{})
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = req.Method + " " + req.URL + " " + string(req.Body)
			u, err := url.Parse(req.URL)
			if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != s.call.url.base && u.User == nil &&
				!strings.EqualFold(u.Scheme+"://"+u.Host, s.call.url.base) {
				t.Fatalf("the URL is %q, its base was %q: %v", req.URL, s.call.url.base, err)
			}
		}
		if i > 0 && got != first {
			t.Fatalf("two renderings:\n%s\n%s", first, got)
		}
		first = got
	}
}

// usesSteps reports that a step can refer to earlier ones.
func usesSteps(d *Document, name string) bool { return len(d.defs) > 0 && d.defs[0].name != name }

// FuzzExpression: any text gives a value that is JSON, an error, or problems; within
// bounds, the same every time.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{`input.a + 1.10`, `map(input.items, {{s: .sku}})`,
		`input.s matches '^t.x' ? 1 : nil`,
		`join(split(input.s, ''), "\u0001")`, `filter(input.list, # in [1, 2.0]) | len()`,
		`-input.b * 3 ?? 'x'`,
		`find(input.items, #index > 0)?.count`, `decimal(input.amount) >= 12.5 and not false`, `((((1))))`} {
		f.Add(s, world)
	}
	f.Add(`any(input, any(input, # == 2))`, `[1,1,1,1,1,1]`)
	f.Fuzz(func(t *testing.T, source, input string) {
		e := &env{input: anyType, key: true, run: true, steps: []stepType{}, used: map[string]bool{}}
		x, problems := compileExpr(source, e)
		if (x == nil) != (len(problems) > 0) {
			t.Fatalf("%v, %v", x, problems)
		}
		if x == nil {
			return
		}
		first := ""
		for i := range 2 {
			s := &scope{input: []byte(input), call: &saga.Call{Key: "k", Step: "b"}}
			v, err := x.value(s)
			var got string
			if err != nil {
				got = "error: " + err.Error()
			} else {
				out := appendJSON(nil, v)
				if !json.Valid(out) {
					t.Fatalf("%s is %s, which is no JSON", source, out)
				}
				got = string(out)
				if !equal(v, v) && !strings.ContainsAny(got, "eE") && len(got) < maxDigits {
					t.Fatalf("%s is %s, which is not equal to itself", source, got)
				}
				text := x.typ.kind == anyKind || x.typ.kind == stringKind || x.typ.amount
				if _, is := v.(string); is && !text {
					t.Fatalf("%s is text, its type is %s", source, x.typ.kind)
				}
			}
			if i > 0 && got != first {
				t.Fatalf("two values:\n%s\n%s", first, got)
			}
			first = got
		}
	})
}

// FuzzNumber: numbers are those of JSON, and arithmetic agrees with itself.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-0", "1.50", "1e3", "-12.345e-7", "01", ".5", "5.", "1e", "+1",
		"1e999999999999"} {
		f.Add(s, "0.1")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if isNumber(a) != (json.Valid([]byte(a)) && strings.Trim(a, "0123456789+-.eE") == "" && a != "") {
			t.Fatalf("%q is a number: %v", a, isNumber(a))
		}
		x, err := parseDecimal(a)
		y, err2 := parseDecimal(b)
		if err != nil || err2 != nil {
			return
		}
		if z, err := parseDecimal(x.String()); err == nil && z.cmp(x) != 0 {
			t.Fatalf("%q is written %q", a, x)
		}
		sum, err := arithmetic("+", json.Number(a), json.Number(b))
		if err != nil {
			return
		}
		back, err := arithmetic("-", sum, json.Number(b))
		if err != nil {
			return
		}
		if d, err := decimalOf(back); err != nil || d.cmp(x) != 0 {
			t.Fatalf("%s + %s - %s is %v; %v", a, b, b, back, y)
		}
	})
}

// FuzzReply: whatever a callee answers, what is kept is JSON without the secret.
func FuzzReply(f *testing.F) {
	for _, s := range []string{`{"a": "hunter2!\"x"}`, `{"hunter2!\"x": 1}`,
		`[1e400, "\u0068unter2!\"x"]`, `<p>`, ``, `{} {}`} {
		f.Add(s, `hunter2!"x`)
	}
	d := parsed(f, "name: a\nsteps:\n- name: b\n  call: {url: 'http://h/', headers: {A: "+
		"'${secrets.gateway}'}}\n"+
		"  output: {body: '${reply.body ?? nil}', text: '${reply.text}', head: '${reply.headers.x ?? "+
		"nil}'}\n")
	f.Fuzz(func(t *testing.T, body, secret string) {
		checkReply(t, d, body, secret)
	})
}

func checkReply(t *testing.T, d *Document, body, secret string) {
	t.Helper()
	if len(secret) < minSecret || strings.Contains(redacted, secret) || !utf8.ValidString(secret) {
		return
	}
	s := &scope{call: &saga.Call{Step: "b"}}
	s.keep(secret)
	if len(s.secrets) == 0 || len(s.secrets[0]) < minSecret {
		return
	}
	reply := &httpstep.Reply{Status: 200, Body: []byte(body), Header: map[string][]string{"X": {body}}}
	for _, out := range [][]byte{wholeBody(reply, s), output(d, s, reply)} {
		if out == nil {
			continue
		}
		v, err := decodeJSON(out)
		if err != nil {
			t.Fatalf("%q is kept, which is no JSON: %v", out, err)
		}
		if holds(v, s.secrets[0]) {
			t.Fatalf("%q is kept, which holds the secret %q", out, s.secrets[0])
		}
	}
}

func output(d *Document, s *scope, reply *httpstep.Reply) []byte {
	s.reply = nil
	s.take(reply)
	out, err := d.defs[0].output.append(nil, s)
	if err != nil {
		return nil
	}
	return out
}

// holds reports that a text in a value has the secret.
func holds(v any, secret string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(strings.ReplaceAll(v, redacted, "\x00"), secret)
	case json.Number:
		return strings.Contains(string(v), secret)
	case []any:
		for _, item := range v {
			if holds(item, secret) {
				return true
			}
		}
	case map[string]any:
		for k, item := range v {
			if holds(k, secret) || holds(item, secret) {
				return true
			}
		}
	}
	return false
}
