package definition

import (
	"fmt"
	"os"
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

// problemsFile has cases of three lines: - is what is changed in the document, + what it
// is changed to, = the one problem that must be found: line:column field: a part of the
// message. ⏎ is the end of a line.
const problemsFile = "testdata/problems.txt"

func TestProblemsOfADocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(problemsFile)
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(strings.TrimSpace(string(text)), "\n\n")
	if len(cases) < 105 {
		t.Fatalf("there are only %d cases", len(cases))
	}
	for _, c := range cases {
		lines := strings.Split(strings.ReplaceAll(c, "⏎", "\n"), "\n- ")
		change, want, ok := strings.Cut(strings.Join(lines, "\n- "), "\n= ")
		before, after, ok2 := strings.Cut(change, "\n+ ")
		if !ok || !ok2 {
			t.Fatalf("no case: %s", c)
		}
		oneProblem(t, strings.TrimPrefix(before, "- "), after, want)
	}
}

// oneProblem changes the document and wants that problem, and no other.
func oneProblem(t *testing.T, before, after, want string) {
	t.Helper()
	src := strings.Replace(two, before, after, 1)
	if src == two {
		t.Errorf("%q is not in the document", before)
		return
	}
	got := found(src, "gateway")
	wantAt, says, _ := strings.Cut(want, ": ")
	at, message, _ := strings.Cut(got, ": ")
	if at != wantAt || !strings.Contains(message, says) || strings.Contains(got, "\n") {
		t.Errorf("%q for %q:\n got %s\nwant %s", after, before, got, want)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	got := found("nme: pay\nsteps:\n- name: a\n  call: {url: ftp://h, bdy: 1}\n- name: a\n  call: {url: " +
		"'http://h/${x}${y}'}\n")
	for _, want := range []string{"1:1 nme: ", "3:3 steps[0].undo: ", "4:15 steps[0].call.url: ",
		"4:24 steps[0].call.bdy: ", "5:9 steps[1].name: is there twice", "6:27 steps[1].call.url: x is " +
			"not known",
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
	if len(problems) != 1 || problems[0].Column != 14 || !strings.Contains(problems.Error(),
		"a.json:1:14: is not JSON") {
		t.Error(problems.Error())
	}
	a := parsed(t, "name: a\nsteps:\n- name: b # the only one\n  call: {url: 'http://h/x', body: {n: "+
		"1.50}}\n")
	b := parsed(t,
		`{"steps": [{"call": {"body": {"n": 1.50}, "url": "http:\/\/h\/x"}, "name": "b"}], "name": "a"}`)
	c := parsed(t,
		`{"steps": [{"call": {"body": {"n": 1.5}, "url": "http://h/x"}, "name": "b"}], "name": "a"}`)
	if a.Digest() != b.Digest() || a.Digest() == c.Digest() {
		t.Errorf("the contents are %s, %s, %s", a.Digest(), b.Digest(), c.Digest())
	}
}
