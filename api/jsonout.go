package api

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// jsonOut writes JSON as encoding/json does without escaping for HTML, and without
// asking types for their members. Names of members are plain words.
type jsonOut struct {
	b   []byte
	err error // of a raw value that is none

	at   time.Time // the instant that was written last
	from int       // and where
}

// open begins an object or an array.
func (o *jsonOut) open(c byte) { o.b = append(o.b, c) }

// end ends what was opened last.
func (o *jsonOut) end(c byte) {
	if last := len(o.b) - 1; o.b[last] == ',' { // behind the last member
		o.b[last] = c
	} else {
		o.b = append(o.b, c)
	}
	o.b = append(o.b, ',')
}

// bytes is the one value that was written, on a line.
func (o *jsonOut) bytes() []byte {
	o.b[len(o.b)-1] = '\n'
	return o.b
}

func (o *jsonOut) name(name string) {
	o.b = append(append(append(o.b, '"'), name...), `":`...)
}

func (o *jsonOut) text(name, value string) {
	o.name(name)
	o.b = append(appendText(o.b, value), ',')
}

// given is text, unless it is empty.
func (o *jsonOut) given(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

func (o *jsonOut) uint(name string, value uint64) {
	o.name(name)
	o.b = append(strconv.AppendUint(o.b, value, 10), ',')
}

func (o *jsonOut) int(name string, value int) {
	o.name(name)
	o.b = append(strconv.AppendInt(o.b, int64(value), 10), ',')
}

// count is int, unless it is 0.
func (o *jsonOut) count(name string, value int) {
	if value != 0 {
		o.int(name, value)
	}
}

// flag is there when it is set.
func (o *jsonOut) flag(name string, set bool) {
	if set {
		o.name(name)
		o.b = append(o.b, "true,"...)
	}
}

// raw is a value that is JSON already, unless it is empty.
func (o *jsonOut) raw(name string, value []byte) {
	if len(value) == 0 {
		return
	}
	o.name(name)
	b := bytes.NewBuffer(o.b)
	if err := json.Compact(b, value); err != nil {
		o.err = err
	}
	o.b = append(b.Bytes(), ',')
}

// instant is the instant as texts show it, empty when there is none.
func (o *jsonOut) instant(name string, at time.Time) {
	o.name(name)
	switch {
	case at.IsZero():
		o.b = append(o.b, `"",`...)
	case at.Equal(o.at): // much of a run happens in one commit
		o.b = append(append(o.b, o.b[o.from:o.from+instantSize]...), ',')
	default:
		from := len(o.b)
		o.b = append(appendInstant(append(o.b, '"'), at), '"')
		if len(o.b)-from == instantSize {
			o.at, o.from = at, from
		}
		o.b = append(o.b, ',')
	}
}

// when is instant, unless there is none.
func (o *jsonOut) when(name string, at time.Time) {
	if !at.IsZero() {
		o.instant(name, at)
	}
}

const (
	// instantLayout is how instants are shown.
	instantLayout = "2006-01-02T15:04:05.000Z"
	// instantSize is how many bytes one takes with its quotes.
	instantSize = len(instantLayout) + len(`""`)
)

// appendInstant shows an instant of the years that have four digits, as all of the
// store do.
func appendInstant(b []byte, at time.Time) []byte {
	at = at.UTC()
	year, month, day := at.Date()
	if year < 0 || year > 9999 {
		return at.AppendFormat(b, instantLayout)
	}
	hour, minute, second := at.Clock()
	b = append(appendDigits(b, year, 4), '-')
	b = append(appendDigits(b, int(month), 2), '-')
	b = append(appendDigits(b, day, 2), 'T')
	b = append(appendDigits(b, hour, 2), ':')
	b = append(appendDigits(b, minute, 2), ':')
	b = append(appendDigits(b, second, 2), '.')
	return append(appendDigits(b, at.Nanosecond()/int(time.Millisecond), 3), 'Z')
}

func appendDigits(b []byte, n, width int) []byte {
	from := len(b)
	b = append(b, "0000"[:width]...)
	for i := from + width - 1; n > 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}

// appendText writes a text.
func appendText(b []byte, s string) []byte {
	if isPlainText(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) //nolint:errchkjson // a text has a form, and a buffer has room
	return append(b, bytes.TrimRight(out.Bytes(), "\n")...)
}

// isPlainText reports a text that is the same inside of a JSON text.
func isPlainText(s string) bool {
	ascii := true
	for _, c := range []byte(s) {
		if c < ' ' || c == '"' || c == '\\' {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.ValidString(s) && !strings.ContainsAny(s, "\u2028\u2029")
}
