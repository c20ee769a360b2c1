package definition

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"onced/saga"
)

// world is what the expressions of the tests see.
const world = `{"a": 1, "b": 2.50, "s": "text", "t": true, "n": null, "list": [1, 2.0, 3], "big": 123456789012345678901234567890.10,
 "items": [{"sku": "x", "count": 2}, {"sku": "y", "count": 5}], "o": {"k": {"deep": "d"}},
	"amount": "12.50", "e": 1e3, "huge": 1e999}`

// evaluated is the JSON of an expression over the world as input, or its error.
func evaluated(t testing.TB, source string, in *typ) string {
	t.Helper()
	e := &env{input: in, key: true, run: true, steps: []stepType{}, used: map[string]bool{}}
	x, problems := compileExpr(source, e)
	if len(problems) > 0 {
		return "problem: " + problems[0].message
	}
	s := &scope{input: []byte(world), call: &saga.Call{Key: "o-1", Run: "run_1", Round: 3,
		DownstreamKey: "key-1",
		ActionKey:     "key-0"}}
	v, err := x.value(s)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(appendJSON(nil, v))
}

// expressionsFile has an expression a line and below it, after a tab, its value as JSON,
// its error, or how its problem begins.
const expressionsFile = "testdata/expressions.txt"

func TestExpressions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(expressionsFile)
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(cases) < 2*90 {
		t.Fatalf("there are only %d cases", len(cases)/2)
	}
	for i := 0; i+1 < len(cases); i += 2 {
		source, want := cases[i], strings.TrimPrefix(cases[i+1], "\t")
		got := evaluated(t, source, anyType)
		begins := strings.HasPrefix(want, "problem: ") && strings.HasPrefix(got, want)
		if got != want && !begins {
			t.Errorf("%s is\n %s, want\n %s", source, got, want)
		}
	}
}

func TestDeclaredAmountsMayComeAsText(t *testing.T) {
	t.Parallel()
	in := &typ{kind: objectKind, fields: map[string]*typ{"amount": {kind: numberKind, amount: true},
		"a": {kind: numberKind}}}
	for source, want := range map[string]string{`input.amount`: `"12.50"`, `input.amount + 1`: `"13.50"`,
		`input.amount * 2 > 24`: `true`, `input.amount == '12.50'`: `true`, `input.amount == 12.5`: `true`} {
		if got := evaluated(t, source, in); got != want {
			t.Errorf("%s is %s, want %s", source, got, want)
		}
	}
}

func TestWorkOfAnExpressionIsBounded(t *testing.T) {
	t.Parallel()
	big := `[` + strings.Repeat(`1,`, 5000) + `1]`
	text := `"` + strings.Repeat("x", 100_000) + `"`
	for _, c := range []struct{ source, input, want string }{
		{`any(input, any(input, # == 2))`, big, errWork.Error()},
		{`any(input, # in [2, 3, input])`, big, errWork.Error()},
		{`all(input, input == input)`, big, errWork.Error()},
		{`join(map([1,2,3,4,5,6,7,8,9,10,11], input), '')`, text, errText.Error()},
		{`map(map([1,2,3,4,5,6,7,8,9,10,11], input), # + #)`, text, errText.Error()},
	} {
		x, problems := compileExpr(c.source, &env{input: anyType, used: map[string]bool{}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		_, err := x.value(&scope{input: []byte(c.input), call: &saga.Call{}})
		if err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.source, err, c.want)
		}
	}
}

func TestTextsWithExpressions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`plain`, `plain`}, {`a ${input.s} b ${input.b}`, `a text b 2.50`}, {`$${input.s}`, `${input.s}`},
		{`$5 and $ and }`, `$5 and $ and }`}, {`${'}'}${"}"}${` + "`}`" + `}`, `}}}`}, {`${'it\'s }'}`,
			`it's }`},
		{`${{a: 1}["a"]}`, `1`}, {`${input.t}`, `true`},
	} {
		c1 := &checker{reader: &reader{}, used: map[string]bool{}}
		tmpl := c1.text(&node{kind: stringNode, text: c.text, line: 1, col: 1}, "f", &env{input: anyType})
		if tmpl == nil {
			t.Errorf("%s: %v", c.text, c1.problems)
			continue
		}
		got, _, err := tmpl.render(&scope{input: []byte(world), call: &saga.Call{}})
		if err != nil || got != c.want {
			t.Errorf("%s is %q, %v; want %q", c.text, got, err, c.want)
		}
	}
}

// A value that holds another one over and over is small to make and endless to walk.
func TestValuesThatHoldThemselvesAreBounded(t *testing.T) {
	t.Parallel()
	bomb := `[1]` + strings.Repeat(` | map([#, #, #])`, 100)
	for source, want := range map[string]string{
		bomb:                       "error: makes more than",
		bomb + ` | any(# == [2])`:  "does too much",
		`[2] in (` + bomb + `)`:    "does too much",
		`(` + bomb + `) == [1, 2]`: "does too much",
	} {
		x, problems := compileExpr(source, &env{input: anyType, used: map[string]bool{}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		tmpl := &valueTemplate{x: x, typ: anyType}
		out, err := tmpl.append(nil, &scope{input: []byte("1"), call: &saga.Call{}})
		if err == nil || !strings.Contains("error"+err.Error(), want) {
			t.Errorf("%.60s…: %d bytes, %v; want %s", source, len(out), err, want)
		}
	}
	many := &node{kind: listNode}
	for range 600 {
		many.items = append(many.items, &node{kind: stringNode, text: "${input}"})
	}
	c := &checker{reader: &reader{}, used: map[string]bool{}}
	big := []byte(`"` + strings.Repeat("x", 200_000) + `"`)
	if _, err := c.value(many, "f", &env{input: anyType}).append(nil, &scope{input: big}); err == nil {
		t.Error("a body of 120 MB is made")
	}
}

// What costs by the length of a text is counted by it.
func TestWorkIsCountedByLength(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("7", maxDigits-10)
	input := []byte(`{"l": [` + strings.Repeat(digits+",", 999) + `1], "s": "` +
		strings.Repeat("x", 200_000) + `", "n": [` + strings.Repeat("12.50,", 9999) + `1]}`)
	for source, want := range map[string]string{
		"any(input.l, len(input.s) == 7)":                   "does too much",
		"any(input.l, input.s matches 'y')":                 "does too much",
		"input.s matches '(a|bc|def){30}'":                  "does too much",
		"any(input.l, input.s < 'a')":                       "does too much",
		"all(input.l, # + # * 0 + # * 0 + # * 0 > 1)":       "does too much",
		"input.s matches 'x+y?$' && len(input.s) == 200000": "",
		"sum(input.n) > 1 && sum(input.l) > 1":              "",
	} {
		x, problems := compileExpr(source, &env{input: anyType, used: map[string]bool{}})
		if len(problems) > 0 {
			t.Fatal(source, problems)
		}
		_, err := x.value(&scope{input: input, call: &saga.Call{}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
	_, problems := compileExpr("input matches '((a{10}){10}){9}b{200}'",
		&env{input: anyType, used: map[string]bool{}})
	if len(problems) != 1 || !strings.Contains(problems[0].message, "the limit is 1000") {
		t.Errorf("a pattern without end: %v", problems)
	}
}

// Documents that are made to keep the checker busy end soon all the same, with as many
// problems as anybody reads. What it allocates stands for its work: no other machine makes
// that more. It is counted for the whole process, so no other test runs meanwhile.
func TestTheCheckIsBounded(t *testing.T) {
	const mostAllocations, mostBytes = 350_000, 64 << 20
	fields := strings.Builder{}
	for i := range 9000 {
		fmt.Fprintf(&fields, "field%d: string, ", i)
	}
	for name, src := range map[string]string{
		"fields": "name: a\ninput: {" + fields.String() + "}\nsteps:\n- {name: b, call: {url: 'http://h/" +
			strings.Repeat("${input.fielx}", 1000) + "'}}\n",
		"text": "name: a\ninput: {" + fields.String() + "}\nsteps:\n- {name: b, call: {url: 'http://h', " +
			"body: '" + strings.Repeat("${input.fielx}", 1000) + "'}}\n",
		"keys": "name: a\n" + strings.ReplaceAll(fields.String(), ", ", "\n"),
		"deep": "name: a\nsteps: [{name: b, call: {url: 'http://h/${" + strings.Repeat("!",
			4000) + "true}'}}]\n",
		"paren": "name: a\nsteps: [{name: b, call: {url: 'http://h/${" + strings.Repeat("(",
			4000) + "}'}}]\n",
		"dots": "name: a\nsteps: [{name: b, call: {url: 'http://h/${input" + strings.Repeat(".a",
			2000) + "}'}}]\n",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, problems := Parse([]byte(src), Options{})
		runtime.ReadMemStats(&after)
		times, bytes := after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
		if times > mostAllocations || bytes > mostBytes || len(problems) > maxProblems {
			t.Errorf("%s allocates %d bytes in %d parts and has %d problems", name, bytes, times,
				len(problems))
		}
		if size := len(problems.Error()); size > 100_000 {
			t.Errorf("the problems of %s have %d bytes", name, size)
		}
	}
}
