package definition

import (
	"strings"
	"testing"
)

// quiet is a document of which nothing is said; cases change a piece of it.
const quiet = `name: a
steps:
- name: charge
  call:
    url: https://pay.example.com/c
    headers: {Authorization: "Bearer ${secrets.pay}"}
    outcomes: {retry: [429], refused: [400, 404]}
  repeatable: 1h
  undo: {url: "https://pay.example.com/r", body: "${secrets.pay}"}
  undo_key_valid_for: 1h
- name: pack
  call: {url: "http://packer/p", body: {tell: "${callback_url}", key: "${secrets.pack}"},
    outcomes: {unknown: [404]}}
  repeatable: 1h
  await: {for: 1h, done: "${signal.body.ok}", output: {id: "${signal.body.id}"}}
  check: {url: "http://packer/p", done: "${reply.status == 200}", output: {id: "${reply.body.id}"}}
  nothing_to_undo: true
- name: order
  call: {url: "http://orders.example.com/o", outcomes: {unknown: [404]}}
  repeatable: 1h
`

func TestWhatIsSeldomMeantIsRemarkedOn(t *testing.T) {
	t.Parallel()
	if got := parsed(t, quiet).Remarks(); len(got) != 0 {
		t.Fatalf("of a document that is as it should be it is said: %v", got)
	}
	for _, c := range []struct{ before, after, want string }{
		{"retry: [429]", "retry: [5xx, 408]",
			"7:23 steps[0].call.outcomes.retry: has 408,5xx, which seldom means"},
		{"retry: [429]", "retry: 503", "7:23 steps[0].call.outcomes.retry: has 503,"},
		{"refused: [400, 404]", "refused: [404, 500-503]",
			"7:39 steps[0].call.outcomes.refused: has 500-503,"},
		{`"https://pay.example.com/r", body`, `"https://pay.example.com/r", outcomes: {retry: 502}, body`,
			"9:62 steps[0].undo.outcomes.retry: has 502,"},
		{"https://pay.example.com/c", "http://pay.example.com/c",
			"5:10 steps[0].call.url: is http, and the call carries secrets (pay), which anybody on the way " +
				"to pay.example.com can read; write https"},
		{"https://pay.example.com/r", "HTTP://8.8.8.8:80/r", "9:15 steps[0].undo.url: is http, and"},
		{"http://orders.example.com/o\"",
			"http://orders.example.com/o\", query: {k: \"${base64(secrets.pay)}\"}",
			"19:15 steps[2].call.url: is http, and the call carries secrets (pay)"},
		{"  repeatable: 1h\n  await: {", "  repeatable: 1h\n  output: {nr: 1}\n  await: {",
			"15:3 steps[1].output: is read by nobody"},
		{`, output: {id: "${signal.body.id}"}`, "",
			"15:3 steps[1].await: has no output, so that steps.pack.output is the whole body"},
	} {
		src := strings.Replace(quiet, c.before, c.after, 1)
		got := parsed(t, src).Remarks()
		if src == quiet || len(got) != 1 ||
			!strings.HasPrefix(strings.Replace(got[0].String(), ": ", " ", 1), c.want) {
			t.Errorf("%s for %s: %v, want %s", c.after, c.before, got, c.want)
		}
	}
}

func TestHostsOfOthers(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{"localhost": false, "127.0.0.1": false, "::1": false,
		"10.1.2.3": false, "a.packer.internal": false,
		"192.168.1.1": false, "fd00::1": false, "169.254.1.1": false, "packer": false,
		"shop.test": false, "x.svc": false, "8.8.8.8": true, "2a00::1": true, "pay.example.com": true,
		"Pay.Example.com.": true, "::ffff:8.8.8.8": true, "::ffff:10.0.0.1": false,
		"internal.example.com": true} {
		if got := foreign(host); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
}
