package definition

import (
	"strings"
	"testing"
)

// Steps of which a lost answer needs a person each time are remarked on, and no others.
func TestStepsThatNobodyCanAskAboutAreRemarkedOn(t *testing.T) {
	t.Parallel()
	d := parsed(t, `name: a
steps:
- {name: bare, call: {url: 'http://h/a'}, undo: {url: 'http://h/b'}}
- {name: looks, call: {url: 'http://h/a'}, undo: {url: 'http://h/b'}, check: {url: 'http://h/c',
    done: '${reply.status == 200}'}}
- {name: repeats, call: {url: 'http://h/a'}, undo: {url: 'http://h/b'}, repeatable: true}
- {name: undone, call: {url: 'http://h/a'}, undo: {url: 'http://h/b'}, undo_when_absent: safe}
- {name: waits, await: {for: 1h}}
- name: last
  call:
    url: http://h/a
`)
	var got []string
	for _, p := range d.Remarks() {
		if strings.Contains(p.Message, "neither check nor") {
			got = append(got, p.String())
		}
	}
	if len(got) != 2 || !strings.Contains(got[0], "3:28") || !strings.Contains(got[0], "steps[0]") ||
		!strings.Contains(got[1], "11:10") || !strings.Contains(got[1], "steps[5]") ||
		!strings.Contains(got[1], "repeatable") {
		t.Errorf("the remarks are %s", strings.Join(got, "\n"))
	}
}

// The fields of what a step gives are known when it is written as a map, whichever way
// the step ended: a field that is misspelled is a problem with its place, not an undo that
// cannot be made.
func TestFieldsOfOutputsAreKnown(t *testing.T) {
	t.Parallel()
	const src = `name: trip
steps:
- name: flight
  call: {url: "http://h/f", body: {to: "${callback_url}"}}
  await: {for: 1h, done: "${signal.body.ok}", output: {ticket: "${signal.body.id}",
    seat: {row: "${signal.body.row}"}}}
  undo: {url: "http://h/f/back", body: {ticket: "${OWN}"}}
- name: hotel
  call: {url: "http://h/h"}
  output: {room: {number: "${reply.body.room}"}}
  check: {url: "http://h/h", done: "${reply.status == 200}", output: {room: {number: "${reply.body.no}"}}}
  nothing_to_undo: true
- name: car
  call: {url: "http://h/c", body: {a: "${LATER}"}}
  check: {url: "http://h/c", done: "${reply.status == 200}", output: {plate: "${reply.body.plate}"}}
  nothing_to_undo: true
- name: end
  call: {url: "http://h/e", body: {a: "${LAST ?? nil}"}}
`
	for _, c := range []struct{ own, later, last, want string }{
		{"output.ticket", "steps.flight.output.ticket", "1", ""},
		{"output.tickt", "1", "1", "tickt is not known; did you mean ticket?"},
		{"1", "steps.flight.output.tickt", "1", "tickt is not known; did you mean ticket?"},
		{"1", "steps.flight.signal.tickt ?? 1", "1", "tickt is not known; did you mean ticket?"},
		{"1", "steps.flight.output.seat.roww", "1", "roww is not known; did you mean row?"},
		{"1", "steps.hotel.output.rom", "1", "rom is not known; did you mean room?"},
		{"1", "steps.hotel.output.room.numbr", "1", "numbr is not known; did you mean number?"},
		{"1", "1", "steps.hotel.output.room.number", ""},
	} {
		text := strings.NewReplacer("OWN", c.own, "LATER", c.later, "LAST", c.last).Replace(src)
		_, problems := Parse([]byte(text), Options{})
		if c.want == "" && len(problems) == 0 {
			continue
		}
		if len(problems) != 1 || c.want == "" || !strings.Contains(problems[0].Message, c.want) ||
			problems[0].Line == 0 {
			t.Errorf("%+v: %v", c, problems)
		}
	}
}
