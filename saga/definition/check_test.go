package definition

import (
	"fmt"
	"strings"
	"testing"
)

// two is a good document of two steps; cases change a line of it.
const two = `name: pay
input: {order: string, amount: decimal, count: int, note: string?, paid: bool, tags: list, address: object}
steps:
- name: charge
  call:
    url: http://10.0.0.1:9000/charges/${input.order}
    headers: {Authorization: "Bearer ${secrets.gateway}"}
    body: {amount: "${input.amount}"}
  output: {id: "${reply.body.id}"}
  undo: {url: http://10.0.0.1:9000/refunds, body: {charge: "${output.id}"}}
  check: {url: http://10.0.0.1:9000/look, done: "${reply.status == 200}", output: {id: "${reply.body.id}"}}
- name: order
  call: {url: http://10.0.0.1:9001/orders, body: {charge: "${steps.charge.output.id}"}}
`

// found are the problems of a document in short: line:column field: message.
func found(src string, secrets ...string) string {
	_, problems := Parse([]byte(src), Options{Secrets: secrets})
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = fmt.Sprintf("%d:%d %s: %s", p.Line, p.Column, p.Field, p.Message)
	}
	return strings.Join(lines, "\n")
}

func TestTheDocumentThatCasesChangeIsGood(t *testing.T) {
	t.Parallel()
	if got := found(two, "gateway"); got != "" {
		t.Fatal(got)
	}
}

// Each case changes one thing, and wants exactly one problem, there and with that word.
func TestProblemsOfADocument(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, new, at, says string }{
		// names and keys
		{"name: pay", "nam: pay", "1:1 nam", "did you mean name?"},
		{"name: pay", "name: 2pay", "1:7 name", "begins with a letter"},
		{"name: pay", "name: pay\nname: pay", "2:1 name", "is there twice"},
		{"name: pay", "name: pay\nversion: a b", "2:10 version", "letters, digits"},
		{"name: pay", "name: " + strings.Repeat("p", 65), "1:7 name", "more than 64"},
		{"name: pay", "name: pay\ndeadline: 15", "2:11 deadline", "did you mean 15s"},
		{"name: pay", "name: pay\ndeadline: soon", "2:11 deadline", "is not a time"},
		{"name: pay", "name: pay\ndeadline: -5m", "2:11 deadline", "must be from"},
		{"name: pay", "name: pay\ntitle:", "2:7 title", "is empty"},
		{"name: pay", "name: pay\ntitle: [a]", "2:8 title", "is a list; it must be text"},
		{"name: pay", "name: pay\ntitle: &a x", "2:8 title", "anchor"},
		{"name: pay", "name: pay\n<<: {a: b}", "2:1 ", "merge key"},
		{"name: pay", "name: pay\ntitle: !x y", "2:8 title", "tags are not supported"},
		{"- name: order", "- name: charge2\n  name: x", "13:3 steps[1].name", "is there twice"},
		{"- name: order", "- nme: order", "12:3 steps[1].nme", "did you mean name?"},
		{"    body: {amount", "    bdy: {amount", "8:5 steps[0].call.bdy", "did you mean body?"},
		{"input: {order: string", "input: {order: str", "2:16 input.order", "did you mean string?"},
		{"name: pay", "name: pay\nlabels: {a: \"${input.tags}\"}", "2:13 labels.a", "a list within a text"},
		{"name: pay", "name: pay\nlabels: {a: \"${secrets.gateway}\"}", "2:16 labels.a", "no place in a label"},
		// references
		{"${input.amount}", "${input.amonut}", "8:29 steps[0].call.body.amount", "did you mean amount?"},
		{"${input.amount}", "${inptu.amount}", "8:23 steps[0].call.body.amount", "did you mean input?"},
		{"${input.amount}", "${steps.order.output}", "8:29 steps[0].call.body.amount", "comes later than charge"},
		{"${input.amount}", "${steps.charge.output}", "8:29 steps[0].call.body.amount", "the step itself"},
		{"${input.amount}", "${output.id}", "8:23 steps[0].call.body.amount", "only undo knows"},
		{"${input.amount}", "${reply.status}", "8:23 steps[0].call.body.amount", "no reply yet"},
		{"${input.amount}", "${callback_url}", "8:23 steps[0].call.body.amount", "await has a callback"},
		{"${input.amount}", "${signal.body}", "8:23 steps[0].call.body.amount", "steps.<name>.signal"},
		{"steps.charge.output.id", "steps.chrage.output.id", "13:68 steps[1].call.body.charge",
			"did you mean charge?"},
		{"steps.charge.output.id", "steps.charge.output.idd", "13:82 steps[1].call.body.charge",
			"did you mean id?"},
		{"steps.charge.output.id", "steps.charge.outptu.id", "13:75 steps[1].call.body.charge",
			"did you mean output?"},
		{"steps.charge.output.id", "steps.charge.signal.id", "13:75 steps[1].call.body.charge", "has no await"},
		{"steps.charge.output.id", "steps.charge", "13:68 steps[1].call.body.charge", "write steps.charge.output"},
		{"steps.charge.output.id", "steps", "13:62 steps[1].call.body.charge", "write steps.<name>.output"},
		{"steps.charge.output.id", "steps[input.order].output", "13:67 steps[1].call.body.charge", "named as it is"},
		{"${output.id}", "${output.nr}", "10:70 steps[0].undo.body.charge", "nr is not known"},
		{"${secrets.gateway}", "${secrets.gatway}", "7:48 steps[0].call.headers.Authorization",
			"did you mean gateway?"},
		{"${input.amount}", "${run.idd}", "8:27 steps[0].call.body.amount", "did you mean id?"},
		{"reply.status == 200", "reply.statu == 200", "11:58 steps[0].check.done", "did you mean status?"},
		// secrets
		{"${input.order}\n", "${secrets.gateway}\n", "6:41 steps[0].call.url", "in the path of a URL"},
		{"\"${reply.body.id}\"}\n  undo", "\"${secrets.gateway}\"}\n  undo", "9:19 steps[0].output.id",
			"where a reply is read"},
		// URLs
		{"http://10.0.0.1:9000/charges/", "http://${input.order}/", "6:10 steps[0].call.url", "scheme, host or port"},
		{"http://10.0.0.1:9000/charges/", "http://h:${input.count}/", "6:10 steps[0].call.url", "scheme, host or port"},
		{"http://10.0.0.1:9000/charges/", "http://10.0.0.1", "6:10 steps[0].call.url", "scheme, host or port"},
		{"http://10.0.0.1:9000/charges/", "", "6:10 steps[0].call.url", "scheme, host or port"},
		{"http://10.0.0.1:9000/charges/", "ftp://h/", "6:10 steps[0].call.url", "http"},
		{"http://10.0.0.1:9000/charges/", "http://u:p@h/", "6:10 steps[0].call.url", "password"},
		{"http://10.0.0.1:9000/charges/", "http://h/#", "6:10 steps[0].call.url", "fragment"},
		{"http://10.0.0.1:9000/charges/", "http://h/a/../", "6:10 steps[0].call.url", "segment .."},
		{"http://10.0.0.1:9000/charges/", "http://h/a b/", "6:10 steps[0].call.url", "a space"},
		{"http://10.0.0.1:9000/charges/", "http://h/?", "6:10 steps[0].call.url", "a name in its query"},
		{"/charges/${input.order}", "/charges/${input.tags}", "6:10 steps[0].call.url", "a list within a text"},
		{"/charges/${input.order}", "/charges/${input.note}", "6:10 steps[0].call.url", "may be missing"},
		{"/charges/${input.order}", "/charges/${input.order", "6:39 steps[0].call.url", "without its }"},
		{"    url: http://10.0.0.1:9000/charges/${input.order}\n", "", "6:5 steps[0].call.url", "is missing"},
		// headers, methods, bodies
		{"{Authorization: ", "{\"Auth orization\": ", "7:15 steps[0].call.headers.Auth orization",
			"not the name of a header"},
		{"{Authorization: ", "{Content-Length: 3, Authorization: ", "7:15 steps[0].call.headers.Content-Length",
			"belongs to the connection"},
		{"{Authorization: ", "{idempotency-key: x, Authorization: ", "7:15 steps[0].call.headers.idempotency-key",
			"use key_header"},
		{"{Authorization: ", "{Traceparent: x, Authorization: ", "7:15 steps[0].call.headers.Traceparent",
			"is set by onced"},
		{"{Authorization: ", "{X-a: x, x-A: y, Authorization: ", "7:23 steps[0].call.headers.x-A", "in other letters"},
		{"{Authorization: ", "{X: \"a\\nb\", Authorization: ", "7:18 steps[0].call.headers.X", "a line break"},
		{"    headers: {", "    method: post\n    headers: {", "7:13 steps[0].call.method", "did you mean POST?"},
		{"    headers: {", "    method: GET\n    headers: {", "9:5 steps[0].call", "GET does not take"},
		{"    headers: {", "    form: {a: b}\n    headers: {", "7:5 steps[0].call.form", "beside body"},
		{"    headers: {", "    timeout: 1h\n    headers: {", "7:14 steps[0].call.timeout", "must be from 100ms to 10m"},
		{"    headers: {", "    timeout: 0s\n    headers: {", "7:14 steps[0].call.timeout", "must be from 100ms to 10m"},
		{"    headers: {", "    outcomes: {done: 2x}\n    headers: {", "7:22 steps[0].call.outcomes.done", "2xx"},
		{"    headers: {", "    outcomes: {done: 2xx, retry: [200]}\n    headers: {", "7:15 steps[0].call.outcomes",
			"a status means one thing"},
		{"    headers: {", "    refused_if: \"${reply.body.x}x\"\n    headers: {", "7:17 steps[0].call.refused_if",
			"not wholly one ${…}"},
		{"    headers: {", "    refused_if: \"${reply.status}\"\n    headers: {", "7:17 steps[0].call.refused_if",
			"a condition is true or false"},
		{"{amount: \"${input.amount}\"}", "{amount: \"${input.note}\"}", "8:20 steps[0].call.body.amount",
			"may be missing"},
		{"{amount: \"${input.amount}\"}", "{amount: 007}", "8:20 steps[0].call.body.amount", "as JSON writes it"},
		{"{amount: \"${input.amount}\"}", "{amount: .5}", "8:20 steps[0].call.body.amount", "as JSON writes it"},
		// settings
		{"  output: {id", "  retry: {attempts: 0}\n  output: {id", "9:21 steps[0].retry.attempts", "from 1 to 1000"},
		{"  output: {id", "  retry: {attempts: many}\n  output: {id", "9:21 steps[0].retry.attempts", "from 1 to 1000"},
		{"  output: {id", "  retry: {first: 1h, most: 1s}\n  output: {id", "9:10 steps[0].retry", "below its first"},
		{"  output: {id", "  retry: {frist: 1s}\n  output: {id", "9:11 steps[0].retry.frist", "did you mean first?"},
		{"  output: {id", "  repeatable: often\n  output: {id", "9:15 steps[0].repeatable", "is not a time"},
		{"  output: {id", "  undo_when_absent: yes\n  output: {id", "9:21 steps[0].undo_when_absent", "must be safe"},
		{"  output: {id", "  pivot: true\n  output: {id", "11:3 steps[0].undo", "stands beside pivot"},
		{"  undo: {url: http://10.0.0.1:9000/refunds, body: {charge: \"${output.id}\"}}\n", "", "4:3 steps[0].undo",
			"give the step an undo"},
		{"  undo: {url: http://10.0.0.1:9000/refunds, body: {charge: \"${output.id}\"}}\n",
			"  undo_when_absent: safe\n  pivot: true\n", "10:3 steps[0].undo_when_absent", "without an undo"},
		{"  undo: {url", "  undo_when_absent: safe\n  undo: {url", "11:60 steps[0].undo.body.charge",
			"may be missing"},
		{", output: {id: \"${reply.body.id}\"}}\n-", "}\n-", "11:10 steps[0].check.output", "is missing"},
		{"output: {id: \"${reply.body.id}\"}}\n-", "output: {di: \"${reply.body.id}\"}}\n-",
			"11:83 steps[0].check.output", "has no id"},
		{"done: \"${reply.status == 200}\", ", "", "11:10 steps[0].check.done", "is missing"},
		{"- name: order\n", "- name: order\n  pivot: true\n  irreversible: true\n", "14:3 steps[1].irreversible",
			"stands beside pivot"},
		{"  call: {url: http://10.0.0.1:9001/orders, body: {charge: \"${steps.charge.output.id}\"}}", "  pivot: true",
			"12:3 steps[1].call", "is missing"},
		{"  call: {url: http://10.0.0.1:9001/orders, body: {charge: \"${steps.charge.output.id}\"}}",
			"  await: {for: 1h}\n  repeatable: true", "14:3 steps[1].repeatable", "without a call"},
		{"  call: {url: http://10.0.0.1:9001/orders, body: {charge: \"${steps.charge.output.id}\"}}",
			"  await: {refused: \"${signal.body.no}\"}", "13:10 steps[1].await.done", "is missing"},
		{"  call: {url: http://10.0.0.1:9001/orders, body: {charge: \"${steps.charge.output.id}\"}}",
			"  await: {done: \"${signal.body.ok && input.paid}\"}", "13:38 steps[1].await.done", "input has no meaning"},
		// types
		{"${input.amount}", "${input.amount + input.order}", "8:36 steps[0].call.body.amount", "two numbers or two texts"},
		{"${input.amount}", "${input.order * 2}", "8:35 steps[0].call.body.amount", "decimal(x)"},
		{"${input.amount}", "${input.order == 2}", "8:35 steps[0].call.body.amount", "never equal"},
		{"${input.amount}", "${input.note + 'x'}", "8:34 steps[0].call.body.amount", "put ?? and a value"},
		{"${input.amount}", "${!input.count}", "8:23 steps[0].call.body.amount", "takes true or false"},
		{"${input.amount}", "${input.paid ? 1 : 1 / 2}", "8:42 steps[0].call.body.amount", "may not be exact"},
		{"${input.amount}", "${input.count ? 1 : 2}", "8:29 steps[0].call.body.amount", "before the ?"},
		{"${input.amount}", "${input.order.x}", "8:35 steps[0].call.body.amount", "x is a field of text"},
		{"${input.amount}", "${upper(input.amount)}", "8:35 steps[0].call.body.amount", "it takes text"},
		{"${input.amount}", "${uper(input.order)}", "8:23 steps[0].call.body.amount", "did you mean upper?"},
		{"${input.amount}", "${now()}", "8:23 steps[0].call.body.amount", "no function now"},
		{"${input.amount}", "${input.order matches '['}", "8:43 steps[0].call.body.amount", "is no pattern"},
		{"${input.amount}", "${filter(input.tags, 1)}", "8:42 steps[0].call.body.amount", "is true or false"},
		{"${input.amount}", "${1 +}", "8:25 steps[0].call.body.amount", "is no expression"},
		{"${input.amount}", "${}", "8:23 steps[0].call.body.amount", "is empty"},
		{"${input.amount}", "${input.order.upper()}", "8:35 steps[0].call.body.amount", "no methods"},
		{"${input.amount}", "${let x = 1; x}", "8:27 steps[0].call.body.amount", "is not supported"},
		{"${input.amount}", "${1..3}", "8:24 steps[0].call.body.amount", "is not supported"},
	} {
		src := strings.Replace(two, c.old, c.new, 1)
		if src == two {
			t.Errorf("%q is not in the document", c.old)
			continue
		}
		got := found(src, "gateway")
		at, says, _ := strings.Cut(got, ": ")
		if at != c.at || !strings.Contains(says, c.says) || strings.Contains(got, "\n") {
			t.Errorf("%q for %q:\n got %s\nwant %s: … %s", c.new, c.old, got, c.at, c.says)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	got := found("nme: pay\nsteps:\n- name: a\n  call: {url: ftp://h, bdy: 1}\n- name: a\n  call: {url: 'http://h/${x}${y}'}\n")
	for _, want := range []string{"1:1 nme: ", "3:3 steps[0].undo: ", "4:15 steps[0].call.url: ",
		"4:24 steps[0].call.bdy: ", "5:9 steps[1].name: is there twice", "6:27 steps[1].call.url: x is not known",
		"6:31 steps[1].call.url: y is not known"} {
		if !strings.Contains("\n"+got, "\n"+want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 7 {
		t.Errorf("%d problems:\n%s", n, got)
	}
}

func TestTextsThatAreNoDocument(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ src, want string }{
		{"", "1:1 : is empty"},
		{"# nothing\n", "1:1 : is empty"},
		{"just text", "1:1 : is text; it must be a section"},
		{"- a\n- b\n", "1:1 : is a list"},
		{"name: [\n", ":1 : is not YAML"},
		{"name: a\n---\nname: b\n", ": a second document begins"},
		{"name: \xff", "1:7 : is not UTF-8"},
		{"name: a\nsteps: []\n", "2:8 steps: must be 1 to 100"},
		{"name: a\n", "1:1 steps: is missing"},
		{"name: a\nsteps: 3\n", "2:8 steps: is a number; it must be a list"},
		{"name: a\nsteps: [3]\n", "2:9 steps[0]: is a number"},
		{`{"name": "a", "steps": [{"name": "b", "cal": {}}]}`, "1:44 steps[0].cal: is not known"},
		{"{\n \"name\": \"é\", \"name\": 1}", "2:21 name: is there twice"},
		{strings.Repeat("x", MaxSource+1), "0:0 : is 262145 bytes long"},
		{"name: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), "1:39 name[0]"},
		{"name: a\nsteps: [" + strings.Repeat("{},", maxNodes) + "]", "is too much"},
		{"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", "1:4 a: is an anchor"},
		{"a: &a\n  b: *a\n", "1:4 a: is an anchor"},
	} {
		if got := found(c.src); !strings.Contains(got, c.want) {
			t.Errorf("%.40q gives\n%.200s\nwant %s", c.src, got, c.want)
		}
	}
}

func TestJSONIsReadLikeYAML(t *testing.T) {
	t.Parallel()
	const src = "{\"name\": \"pay\\ud83d\\ude00\",\n\t\"steps\": []}"
	if got := found(src); !strings.Contains(got, "1:10 name: is \"pay😀\"") {
		t.Error(got)
	}
	_, problems := Parse([]byte("{\"name\": \"a\",}"), Options{File: "a.json"})
	if len(problems) != 1 || problems[0].Column != 14 || !strings.Contains(problems.Error(), "a.json:1:14: is not JSON") {
		t.Error(problems.Error())
	}
	a := parsed(t, "name: a\nsteps:\n- name: b # the only one\n  call: {url: 'http://h/x', body: {n: 1.50}}\n")
	b := parsed(t, `{"steps": [{"call": {"body": {"n": 1.50}, "url": "http:\/\/h\/x"}, "name": "b"}], "name": "a"}`)
	c := parsed(t, `{"steps": [{"call": {"body": {"n": 1.5}, "url": "http://h/x"}, "name": "b"}], "name": "a"}`)
	if a.Digest() != b.Digest() || a.Digest() == c.Digest() {
		t.Errorf("the contents are %s, %s, %s", a.Digest(), b.Digest(), c.Digest())
	}
}
