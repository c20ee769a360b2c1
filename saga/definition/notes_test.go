package definition

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// careful is a document of which nothing is noted; cases change a piece of it.
const careful = `name: a
deadline: 2h
steps:
- name: points
  call: {url: "http://h/p", outcomes: {unknown: 404}}
  repeatable: 1h
  undo: {method: DELETE, url: "http://h/p/1", outcomes: {done: [2xx, 404, 410]}}
- name: charge
  call:
    url: http://h/c
    body: {tell: "${callback_url}"}
    outcomes: {unknown: [404]}
  await:
    for: 1h
    done: "${signal.body.ok}"
    output: {id: "${signal.body.id}"}
  check:
    url: http://h/c
    done: "${reply.status == 200}"
    absent: "${reply.status == 404}"
    output: {id: "${reply.body.id}"}
  undo: {url: "http://h/r", body: "${output.id}"}
  undo_key_valid_for: 24h
- name: approve
  await: {for: 1h}
- name: order
  call: {url: "http://h/o", outcomes: {unknown: [404]}}
  check: {url: "http://h/o", done: "${reply.status == 200}", absent: "${reply.status == 404}"}
  pivot: true
`

// noted are the remarks on the careful document with pieces of it replaced.
func noted(t *testing.T, pieces ...string) []string {
	t.Helper()
	src := careful
	for i := 0; i < len(pieces); i += 2 {
		if strings.Count(src, pieces[i]) != 1 {
			t.Fatalf("%q is not there once", pieces[i])
		}
		src = strings.Replace(src, pieces[i], pieces[i+1], 1)
	}
	var got []string
	for _, p := range parsed(t, src).Remarks() {
		got = append(got, p.String())
	}
	return got
}

// risk is a change of the careful document and what is noted of it.
type risk struct {
	want   string // the beginning of the only note; empty: none
	remedy string
	pieces []string
}

func risks() []risk {
	const del = `, outcomes: {done: [2xx, 404, 410]}}`
	const key = "  undo_key_valid_for: 24h\n"
	const look = `  check: {url: "http://h/o", done: "${reply.status == 200}", ` +
		"absent: \"${reply.status == 404}\"}\n"
	return []risk{
		{"", "", nil},

		{"22:3: steps[1].undo: is sent again, for a day", "0s", []string{key, ""}},
		{"", "", []string{key, "  undo_key_valid_for: 0s\n"}},
		{"", "", []string{key, "", `undo: {url: "http://h/r"`, `undo: {method: PUT, url: "http://h/r"`}},
		{"", "", []string{key, "  undo_when_absent: safe\n", "${output.id}", "${output.id ?? nil}"}},

		{"7:18: steps[0].undo.method: is DELETE", "done: [2xx, 404, 410]", []string{del, "}"}},
		{"7:18: steps[0].undo.method: is DELETE", "tried", []string{del, ", outcomes: {refused: [409]}}"}},
		{"", "", []string{del, ", outcomes: {unknown: 404}}"}},
		{"", "", []string{del, ", outcomes: {refused: [400-404]}}"}},
		{"", "", []string{del, "}\n  undo_key_valid_for: 0s"}},
		{"7:64: steps[0].undo.outcomes.done: has no success", "write [2xx, 404,410]",
			[]string{"[2xx, 404, 410]", "[404, 410]"}},

		{"13:3: steps[1].await: has no for, and so no end but the deadline", "shorter",
			[]string{"    for: 1h\n", ""}},
		{"13:3: steps[1].await: has no for, and so no end: a", "30m",
			[]string{"    for: 1h\n", "", "deadline: 2h", "title: A"}},
		{"25:3: steps[2].await: has no for, and so no end: a", "held",
			[]string{"await: {for: 1h}", "await: {}", "deadline: 2h", "title: A"}},
		{"", "", []string{"await: {for: 1h}", "await: {}"}}, // the deadline is its end
		{"30:3: steps[3].await: has no for, and so no end: a", "30m", // but not of the pivot
			[]string{"  pivot: true\n", "  pivot: true\n  await: {}\n",
				`{url: "http://h/o", outcomes`, `{url: "http://h/o?u=${callback_url}", outcomes`, look,
				"  repeatable: 1h\n"}},

		{"13:3: steps[1].await: waits for a signal that its callee cannot send", "/signals/charge",
			[]string{"${callback_url}", "x"}},
		{"", "", []string{"${callback_url}", "${run.id}"}},
		{"", "", []string{"${callback_url}", "${run.key}"}},
		{"13:3: steps[1].await: waits for a signal", "${run.id}",
			[]string{"${callback_url}", "${run.round}"}},

		{"28:3: steps[3].check: has no absent", "absent: \"${reply.status == 404}\"",
			[]string{`== 200}", absent: "${reply.status == 404}"}`, `== 200}"}`}},
		{"", "", []string{`== 200}", absent: "${reply.status == 404}"}`, "== 200}\"}\n  repeatable: 1h"}},
		{"", "", []string{"    absent: \"${reply.status == 404}\"\n", "", key, "  undo_when_absent: safe\n",
			"${output.id}", "${output.id ?? nil}"}},

		{"14:10: steps[1].await.for: is not shorter than the deadline", "longer", []string{"    for: 1h",
			"    for: 2h"}},
		{"", "", []string{"    for: 1h", "    for: 119m"}},
		{"", "", []string{"  pivot: true\n", "  pivot: true\n  await: {for: 3h}\n",
			`{url: "http://h/o", outcomes`, `{url: "http://h/o?u=${callback_url}", outcomes`, look,
			"  repeatable: 1h\n"}},

		{"5:15: steps[0].call.url: answers 404 when it is mistyped or misplaced, which refuses the step " +
			"(points, charge)", "{unknown: [404]}", []string{", outcomes: {unknown: 404}}", "}",
			"    outcomes: {unknown: [404]}\n", ""}},
		{"10:10: steps[1].call.url: answers 404", "try it", []string{"    outcomes: {unknown: [404]}\n",
			"    outcomes: {refused: 400-404}\n"}},
		{"", "", []string{"    outcomes: {unknown: [404]}\n", "    outcomes: {refused: [400, 404]}\n"}},
		{"", "", []string{"    outcomes: {unknown: [404]}\n", "    outcomes: {refused: \"400, 404\"}\n"}},
		{"", "", []string{"    outcomes: {unknown: [404]}\n", "    outcomes: {refused: [409]}\n"}},
	}
}

// What costs money or people's time without being wrong is noted once, with its place and
// what to write; and what the document speaks of is not.
func TestRisksOfStepsAreNoted(t *testing.T) {
	t.Parallel()
	for _, c := range risks() {
		got := noted(t, c.pieces...)
		if c.want == "" && len(got) == 0 {
			continue
		}
		if c.want == "" || len(got) != 1 || !strings.HasPrefix(got[0], c.want) ||
			!strings.Contains(got[0], c.remedy) {
			t.Errorf("%q: noted is\n%s\nwant %s … %s", c.pieces, strings.Join(got, "\n"), c.want, c.remedy)
		}
	}
}

// Of a document that is refused nothing is noted, whatever it looks like.
func TestNothingIsNotedOfWhatIsRefused(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"7", "{}", "{name: a, undo: 7}", "{name: a, undo: {method: DELETE}}",
		"{name: a, call: {outcomes: 7}}", "{name: a, call: {url: 'http://h', outcomes: {refused: 7x}}}",
		"{name: a, await: 7}", "{name: a, await: {for: 7}}", "{name: a, check: {}}"} {
		if d, problems := Parse([]byte("name: a\nsteps:\n- "+step+"\n"), Options{}); d != nil ||
			len(problems) == 0 {
			t.Errorf("%s is taken", step)
		}
	}
}

// The definitions that readers copy are as they should be; the first one of the README
// keeps what its text is about.
func TestWhatIsNotedOfTheExamples(t *testing.T) {
	t.Parallel()
	listing := func(file, form string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile("(?s)```yaml\n("+form+".*?)```").FindAllSubmatch(text, -1)
		if len(found) != 1 {
			t.Fatalf("%s has %d definitions", file, len(found))
		}
		return string(found[0][1])
	}
	for _, c := range []struct {
		name, src string
		want      []string
	}{
		{"the guide", listing("../../api/GUIDE.md", "name: "), nil},
		{"the README", listing("../../README.md", "name: "), []string{"steps[0].call.url: answers 404",
			"steps[0]: has neither check", "steps[2]: has neither check"}},
		{"the sample", sample(t), nil},
	} {
		got := parsed(t, c.src).Remarks()
		ok := len(got) == len(c.want)
		for i := range got {
			ok = ok && strings.Contains(got[i].String(), c.want[i])
		}
		if !ok {
			t.Errorf("noted of %s is\n%v\nwant %q", c.name, got, c.want)
		}
	}
}
