package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"onced/saga/httpstep"
	"onced/saga/httpstep/redact"
)

// maxKept is the largest body of a reply that is kept as the output of a step that does
// not say what its output is, in bytes.
const maxKept = 32 << 10

// redacted stands where a secret was.
const redacted = "[redacted]"

// minSecret is the shortest text that is taken out of a reply: shorter ones are in any
// text by chance, and protect nothing.
const minSecret = 4

// replied is a reply as expressions see it: a part of it is made when it is asked for first,
// for expressions can ask often. Secrets that it gives back are taken out.
type replied struct {
	*httpstep.Reply

	mask    *redact.Mask
	headers map[string]any
	text    any
	read    bool // body and why are there
	body    any
	why     string // the body cannot be read
}

// part returns status, headers, body or text. A body that cannot be read is an error and
// not nil: a condition on it must not pass for what it does not say.
func (r *replied) part(name string) (any, error) {
	switch name {
	case "status":
		return json.Number(strconv.Itoa(r.Status)), nil
	case "headers":
		if r.headers == nil {
			r.headers = make(map[string]any, len(r.Header))
			for name, values := range r.Header {
				r.headers[strings.ToLower(name)] = r.mask.Text(strings.Join(values, ", "), false, redacted)
			}
		}
		return r.headers, nil
	case "text":
		if r.Truncated {
			return nil, unreadable("is too long")
		}
		if r.text == nil {
			r.text = r.mask.Text(strings.ToValidUTF8(string(r.Body), "\uFFFD"), false, redacted)
		}
		return r.text, nil
	}
	if !r.read {
		r.read = true
		r.body, r.why = r.decoded()
	}
	if r.why != "" {
		return nil, unreadable(r.why)
	}
	return r.body, nil
}

func (r *replied) decoded() (body any, why string) {
	if r.Truncated {
		return nil, "is longer than what is read of a reply"
	}
	v, err := decodeJSON(r.Body)
	if err != nil {
		return nil, err.Error()
	}
	return cleaned(v, r.mask), ""
}

// unreadable is the error of a part that must not be read.
func unreadable(why string) error { return errors.New("reads a body that " + why) }

// cleaned takes secrets out of a value, which is changed.
func cleaned(v any, m *redact.Mask) any {
	v, _ = clean(v, m)
	return v
}

// clean is cleaned, and says whether there was one.
func clean(v any, m *redact.Mask) (without any, found bool) {
	if m.Empty() {
		return v, false
	}
	switch x := v.(type) {
	case string:
		if c := m.Text(x, false, redacted); c != x {
			return c, true
		}
	case json.Number:
		if c := m.Text(string(x), false, redacted); c != string(x) {
			return c, true
		}
	case []any:
		for i := range x {
			item, is := clean(x[i], m)
			x[i], found = item, found || is
		}
	case map[string]any:
		for _, k := range sortedKeys(x) {
			item, is := clean(x[k], m)
			if c := m.Text(k, false, redacted); c != k {
				delete(x, k)
				k, is = c, true
			}
			x[k], found = item, found || is
		}
	}
	return v, found
}

// wholeBody is the output of a step that does not say what it is: the JSON of the body
// when it is small, else nothing.
func wholeBody(r *httpstep.Reply, s *scope) []byte {
	body := bytes.TrimSpace(r.Body)
	if r.Truncated || len(body) == 0 || len(body) > maxKept {
		return nil
	}
	m := s.mask()
	if m.Empty() {
		if _, err := checkJSON(body); err != nil {
			return nil
		}
		return body
	}
	v, err := decodeJSON(body)
	if err != nil {
		return nil
	}
	if without, found := clean(v, m); found {
		return appendJSON(nil, without)
	}
	return body
}
