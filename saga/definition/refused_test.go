package definition

import (
	"encoding/json"
	"strings"
	"testing"

	"onced/saga/httpstep"
	"onced/saga/machine"
)

// What the run's own data makes of a request nobody can correct: the step is refused at
// once. What is wrong with a secret somebody can, and the run is held.
func TestWhoIsToBlameForACallThatCannotBeMade(t *testing.T) {
	t.Parallel()
	const src = `name: NAME
input: {id: string}
steps:
- name: a
  call: {url: http://HOST/a}
  undo: {url: http://HOST/undo}
- name: b
  call: {url: "http://HOST/b/PATH", headers: {X-Note: "NOTE"}}
  retry: {attempts: 3, first: 1ms, most: 1ms}
`
	r := newRig(t)
	r.setSecret("broken", "two\r\nlines")
	input := func(id string) string {
		text, err := json.Marshal(map[string]string{"id": id})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	done := 0
	for name, c := range map[string]struct {
		path, note, id string
		held           bool
	}{
		"dots":       {path: "${input.id}", note: "x", id: ".."},
		"line":       {path: "p", note: "${input.id}", id: "a\r\nX-Admin: yes"},
		"mixed":      {path: "p", note: "${secrets.gateway} ${input.id}", id: "a\nb"},
		"both":       {path: "p", note: "${secrets.broken} ${input.id}", id: "a\nb"},
		"url":        {path: "p?q=${input.id}", note: "x", id: strings.Repeat("u", httpstep.MaxURL)},
		"header":     {path: "p", note: "${input.id}", id: strings.Repeat("h", httpstep.MaxHeader)},
		"secret":     {path: "p", note: "${secrets.broken} ${input.id}", id: "a", held: true},
		"not-there":  {path: "p", note: "${secrets.elsewhere}", id: "a", held: true},
		"no-decimal": {path: "p", note: "${decimal(secrets.gateway)}", id: "a", held: true},
	} {
		text := strings.NewReplacer("NAME", name, "PATH", c.path, "NOTE", c.note).Replace(src)
		v := r.runs(text, input(c.id))
		b := v.State.Steps[1]
		switch {
		case c.held && (v.State.Status != machine.Held || v.State.Hold != machine.HoldBroken):
			t.Errorf("%s: the run is %s: %s", name, v.State.Status, v.State.Reason)
		case !c.held && (v.State.Status != machine.Compensated || b.Status != machine.Refused ||
			b.Sends != 1):
			t.Errorf("%s: the run is %s, tried %d times: %s", name, v.State.Status, b.Sends, v.State.Reason)
		case !strings.Contains(v.State.Reason, "sent") && !strings.Contains(v.State.Reason, "made"):
			t.Errorf("%s: %s", name, v.State.Reason)
		}
		if !c.held {
			done++
		}
	}
	if n := len(r.sent("POST /undo")); n != done {
		t.Errorf("%d runs are undone, want %d", n, done)
	}
}
