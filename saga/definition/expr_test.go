package definition

import (
	"strings"
	"testing"

	"onced/saga"
)

// world is what the expressions of the tests see.
const world = `{"a": 1, "b": 2.50, "s": "text", "t": true, "n": null, "list": [1, 2.0, 3], "big": 123456789012345678901234567890.10,
 "items": [{"sku": "x", "count": 2}, {"sku": "y", "count": 5}], "o": {"k": {"deep": "d"}}, "amount": "12.50", "e": 1e3, "huge": 1e999}`

// evaluated is the JSON of an expression over the world as input, or its error.
func evaluated(t testing.TB, source string, in *typ) string {
	t.Helper()
	e := &env{input: in, key: true, run: true, steps: []stepType{}, used: map[string]bool{}}
	x, problems := compileExpr(source, e)
	if len(problems) > 0 {
		return "problem: " + problems[0].message
	}
	s := &scope{input: []byte(world), call: &saga.Call{Key: "o-1", Run: "run_1", Round: 3, DownstreamKey: "key-1",
		ActionKey: "key-0"}}
	v, err := x.value(s)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(appendJSON(nil, v))
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, want string }{
		// values keep their text
		{`input.b`, `2.50`},
		{`input.big`, `123456789012345678901234567890.10`},
		{`input.huge`, `1e999`},
		{`input.o`, `{"k":{"deep":"d"}}`},
		{`input.o.k["deep"]`, `"d"`},
		{`input["s"]`, `"text"`},
		{`input.list[1]`, `2.0`},
		{`input.list[9] ?? 'none'`, `"none"`},
		{`run.round`, `3`}, {`run.id + run.key`, `"run_1o-1"`}, {`key + action_key`, `"key-1key-0"`},
		// numbers are exact
		{`0.1 + 0.2`, `0.3`}, {`input.b + input.b`, `5.00`}, {`input.a - 2.5`, `-1.5`}, {`input.b * 3`, `7.50`},
		{`input.big + 0.05`, `123456789012345678901234567890.15`}, {`1.0 == 1`, `true`}, {`input.e == 1000`, `true`},
		{`-input.b`, `-2.50`}, {`2 * 3 + 4`, `10`}, {`1_000 + 1`, `1001`}, {`0x10`, `16`},
		{`decimal(input.amount) * 2`, `"25.00"`}, {`decimal('1.10') + 1`, `"2.10"`},
		{`number('1.10') + 1`, `2.10`}, {`decimal(input.amount) == 12.5`, `true`},
		{`decimal(input.amount) > 12.49 && decimal(input.amount) <= 12.5`, `true`}, {`string(input.b) + '!'`, `"2.50!"`},
		{`9 < 10`, `true`}, {`'9' < '10'`, `false`}, {`sum(input.list)`, `6.0`}, {`min(3, 2.5)`, `2.5`}, {`max(3, 2.5)`, `3`},
		{`input.huge + 1`, `error: ${input.huge + 1} has a number that has an exponent beyond 200`},
		{`1.5e3 + 0`, `1500`}, {`.5`, `problem: has a number that JSON does not write so; write 0.5 or 1e3`},
		// missing fields
		{`input.nope`, `error: ${input.nope} is missing`}, {`input.nope.deeper`, `error: ${input.nope.deeper} is missing`},
		{`input.n`, `error: ${input.n} is missing`}, {`input.n ?? nil`, `null`}, {`input.nope ?? 7`, `7`},
		{`input.nope == nil`, `true`}, {`input.nope == 'x'`, `false`}, {`input.t ? nil : 1`, `null`},
		{`input.nope + 1`, `error: ${input.nope + 1} computes with what is missing`},
		{`input.nope < 1`, `error: ${input.nope < 1} compares what is missing`},
		{`input.nope && true`, `error: ${input.nope && true} has a condition that is missing`},
		{`input.s.x`, `error: ${input.s.x} reads the field x of text`},
		{`input.s + 1`, `error: ${input.s + 1} computes with what is text`},
		// lists and texts
		{`len(input.items)`, `2`}, {`len('é')`, `1`}, {`len(input.o)`, `1`}, {`len(input.a)`, `error: ${len(input.a)} has len of what is a number`},
		{`filter(input.items, .count > 2)`, `[{"count":5,"sku":"y"}]`}, {`map(input.items, .sku)`, `["x","y"]`},
		{`map(input.list, # * 2)`, `[2,4.0,6]`}, {`map(input.list, #index)`, `[0,1,2]`},
		{`all(input.items, .count > 1)`, `true`}, {`any(input.items, .count > 5)`, `false`}, {`none(input.items, .count > 5)`, `true`},
		{`one(input.items, .count > 2)`, `true`}, {`count(input.list, # > 1)`, `2`}, {`find(input.items, .sku == 'y').count`, `5`},
		{`find(input.items, .sku == 'z') ?? 'none'`, `"none"`},
		{`filter(input.items, any(input.list, # == 2))`, `[{"count":2,"sku":"x"},{"count":5,"sku":"y"}]`},
		{`map(input.items, {{s: .sku, n: .count + 1}})`, `[{"n":3,"s":"x"},{"n":6,"s":"y"}]`},
		{`2 in input.list`, `true`}, {`'k' in input.o`, `true`}, {`'x' not in input.o`, `true`}, {`input.s in ['text', 'b']`, `true`},
		{`input.s contains 'ex' && input.s startsWith 't' && input.s endsWith 't'`, `true`},
		{`input.s matches '^t.x'`, `true`}, {`upper(input.s) + lower('A') + trim(' b ')`, `"TEXTab"`},
		{`join(split('a,b', ','), '-')`, `"a-b"`}, {`base64('user:')`, `"dXNlcjo="`}, {`[1, 'a', {b: nil}]`, `[1,"a",{"b":null}]`},
		{`input.t and not false or false`, `true`}, {`input.t ? 'y' : 'n'`, `"y"`}, {`if input.t { 1 } else { 2 }`, `1`},
		{`"\u0001\"é"`, "\"\\u0001\\\"é\""},
		{`input.list | count(# > 1)`, `2`}, {`input?.o?.k.deep`, `"d"`}, {`1 < 2 < 3`, `true`},
		// what is not there
		{`now()`, `problem: there is no function now`}, {`date('2020-01-01')`, `problem: there is no function date`},
		{`toJSON(input)`, `problem: there is no function toJSON`}, {`keys(input.o)`, `problem: there is no function keys`},
		{`5 / 2`, `problem: the operator / is not supported`}, {`2 ** 3`, `problem: the operator ** is not supported`},
		{`input.list[1:2]`, `problem: uses a form that is not supported`}, {`'a' matches input.s`, `problem: matches takes a pattern`},
		{`99999999999999999999`, `problem: is no expression`}, {`{(input.s): 1}`, `problem: a name in an object`},
	} {
		if got := evaluated(t, c.source, anyType); got != c.want && !(strings.HasPrefix(c.want, "problem: ") &&
			strings.HasPrefix(got, c.want)) {
			t.Errorf("%s is\n %s, want\n %s", c.source, got, c.want)
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
		{`$5 and $ and }`, `$5 and $ and }`}, {`${'}'}${"}"}${` + "`}`" + `}`, `}}}`}, {`${'it\'s }'}`, `it's }`},
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
