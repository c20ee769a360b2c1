package definition

import (
	"errors"
	"strings"
	"testing"

	"onced/saga"
)

// What a person says has happened must have what others read of it.
func TestResultsHaveWhatOthersRead(t *testing.T) {
	d, problems := Parse([]byte(`name: pay
steps:
  - name: charge
    call: {url: "http://127.0.0.1:1/c", body: {to: "${callback_url}"}}
    await:
      done: "${signal.body.ok}"
      output: {id: "${signal.body.id}", note: "${signal.body.note ?? nil}", sum: {cents: "${signal.body.c}"}}
    undo: {url: "http://127.0.0.1:1/r"}
  - name: book
    call: {url: "http://127.0.0.1:1/b"}
    output: {place: "${reply.body.place}"}
    nothing_to_undo: true
  - name: whole
    await: {done: "${signal.body.ok}", output: "${signal.body}"}
  - name: fixed
    await: {done: "${signal.body.ok}", output: {kind: "card"}}
  - name: mail
    call: {url: "http://127.0.0.1:1/m"}
`), Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, c := range []struct{ step, data, field string }{
		{"charge", ``, "data"}, {"charge", `null`, "data"}, {"charge", `"ch_1"`, "data"},
		{"charge", `{}`, "data.id"},
		{"charge", `{"id":null,"sum":{"cents":1}}`, "data.id"},
		{"charge", `{"id":"a","sum":{}}`, "data.sum.cents"},
		{"charge", `{"id":"a","sum":7}`, "data.sum"}, {"charge", `{`, "data"},
		{"charge", `{"id":"a","sum":{"cents":1}}`, ""},
		{"charge", `{"id":"a","sum":{"cents":1},"more":1}`, ""},
		{"book", ``, "data"}, {"book", `{"place":"a"}`, ""}, {"whole", ``, "data"},
		{"whole", `{"x":1}`, ""}, {"fixed", ``, ""}, {"mail", ``, ""}, {"mail", `7`, ""},
		{"none", ``, ""},
	} {
		err := d.CheckResult(c.step, []byte(c.data))
		var in *saga.InputError
		switch {
		case c.field == "" && err != nil, c.field != "" && (!errors.As(err, &in) || in.Field != c.field):
			t.Errorf("%s %s: %v, want field %q", c.step, c.data, err, c.field)
		case c.field != "" && strings.HasSuffix(c.field, "id") &&
			!strings.Contains(err.Error(), "await.output"):
			t.Errorf("%v does not say where the field is named", err)
		}
	}
}
