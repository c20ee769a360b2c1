package config

import (
	"fmt"
	"strings"
	"testing"
)

// checkProblems are checks and what is wrong with them; "fine" is nothing.
const checkProblems = `
done: {status: 200, field: data.*.status, equals: paid}, absent: {status: 200, field: data, is: empty}, reply_field: data.*
=> fine

done: {status: 200, field: "*.status", equals: paid}, absent: {status: 200, is: empty}, reply_field: "*"
=> fine

done: {status: 200, field: charge}, absent: {status: 200, field: charge, is: missing}, reply_field: charge
=> fine

done: {status: 200, field: a}, refused: {status: 201}, absent: {status: [204, 4xx]}
=> fine

done: {status: 200, field: a..b}
=> check.done.field: "a..b" is not the path of a field; names and numbers with points between them, for example data.0.status

done: {status: 200, field: "a.*.b.*.c"}
=> check.done.field: "a.*.b.*.c" has more than one *; one * stands for every entry of one list, for example data.*.status

done: {status: 200, field: "*.*"}
=> check.done.field: "*.*" has more than one *; one * stands for every entry of one list, for example data.*.status

done: {status: 200, field: data, is: empty}
=> check.done.is: "empty" is for absent only; name a field that is there, and what it equals

refused: {status: 200, field: data, is: missing}
=> check.refused.is: "missing" is for absent only; name a field that is there, and what it equals

absent: {status: 200, field: data, is: emty}
=> check.absent.is: "emty" is not known; allowed: empty, missing; did you mean empty?

absent: {status: 200, field: data, is: empty, equals: a}
=> check.absent.is: "empty" cannot stand beside equals; remove one of the two

absent: {status: 200, is: missing}
=> check.absent.field: is missing; say which field is not there

absent: {status: 200, field: "data.*", is: missing}
=> check.absent.is: "missing" says nothing of the entries of a list; name the list itself, for example field: data, is: empty

done: {status: 404}, absent: {field: data, is: empty}
=> check.absent.status: is missing; for example status: 200

done: {status: 200, field: s, equals: paid}, absent: {status: 2xx}
=> check.absent: takes every answer with 200 that done does not: one that is pending too; name the field that tells it, for example field: data, is: empty

refused: {status: 200, field: s, equals: failed}, absent: {status: [200, 404]}
=> check.absent: takes every answer with 200 that refused does not: one that is pending too; name the field that tells it, for example field: data, is: empty

done: {status: 200, field: s, equals: paid}, refused: {status: 200}
=> check.refused: takes every answer with 200 that done does not: one that is pending too; name the field that tells it, for example field: data, is: empty

method: HEAD, done: {status: 200, field: s}
=> check.done.field: is in the body, and an answer to HEAD has none; use method: GET

method: HEAD, done: {status: 200}, absent: {status: 404, is: empty}
=> check.absent.field: is in the body, and an answer to HEAD has none; use method: GET

method: HEAD, done: {status: 200}, reply_field: a
=> check.reply_field: "a" is in the body, and an answer to HEAD has none; use method: GET

absent: {status: 404}, reply_field: a
=> check.reply_field: "a" is of no use: only what done and refused recognise is stored; remove it

done: {status: 200}, reply_field: a..b
=> check.reply_field: "a..b" is not the path of a field; names and numbers with points between them, for example data.0.status

done: {status: 200, field: data.0.s}, reply_field: "data.*"
=> check.reply_field: "data.*" has a * that done.field has not; a * stands for the entry that matched: write the same list in both, for example reply_field: data.* with field: data.*.status

done: {status: 200, field: data.*.s}, refused: {status: 200, field: error.s}, reply_field: "data.*"
=> check.reply_field: "data.*" has a * that refused.field has not; a * stands for the entry that matched: write the same list in both, for example reply_field: data.* with field: data.*.status

done: {status: 200, field: data.*.s}, reply_field: "list.*"
=> check.reply_field: "list.*" has a * that done.field has not; a * stands for the entry that matched: write the same list in both, for example reply_field: data.* with field: data.*.status
`

func TestHowAnswersAreRecognised(t *testing.T) {
	for _, e := range table(checkProblems) {
		_, err := load("routes:\n- path: /x\n  upstream: http://h\n  check: {path: \"/x/{key}\", " +
			strings.TrimSpace(e[0]) + "}\n")
		got := "fine"
		if err != nil {
			got = fmt.Sprint(err)
			if _, after, ok := strings.Cut(got, "routes[0]."); ok {
				got = after
			}
		}
		if got != e[1] {
			t.Errorf("%s got  %s\n want %s", e[0], got, e[1])
		}
	}
}

func TestGuardedBytesHoldTheLargestBody(t *testing.T) {
	const route = "routes:\n- {path: /x, upstream: http://h, max_body: MAX, key: KEY}\n"
	for _, c := range []struct{ bytes, max, key, want string }{
		{"1MiB", "960KiB", "required", ""},
		{"1MiB", "961KiB", "optional", "routes[0].max_body, which is 961KiB"},
		{"1MiB", "961KiB", "ignore", ""},
		{"1MiB", "0", "required", "http.max_body, which is 1MiB"},
		{"1088KiB", "0", "required", ""},
		{"128MiB", "12MiB", "required", ""},
	} {
		_, err := load("http: {max_guarded_bytes: " + c.bytes + "}\n" +
			strings.NewReplacer("MAX", c.max, "KEY", c.key).Replace(route))
		if (err == nil) != (c.want == "") || !strings.Contains(fmt.Sprint(err), c.want) && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
