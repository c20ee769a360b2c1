package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// unreadable stands for the body of a reply that an expression must not read.
type unreadable struct{ why string }

// replyValue is a reply as expressions see it. Secrets that it gives back are taken out.
func replyValue(r *httpstep.Reply, m *redact.Mask) map[string]any {
	headers := map[string]any{}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = m.Text(strings.Join(values, ", "), false, redacted)
	}
	v := map[string]any{"status": json.Number(fmt.Sprint(r.Status)), "headers": headers}
	body, err := decodeJSON(r.Body)
	switch {
	case r.Truncated:
		v["body"], v["text"] = unreadable{"is longer than what is read of a reply"}, unreadable{"is too long"}
		return v
	case err != nil:
		v["body"] = unreadable{err.Error()}
	default:
		v["text"] = m.Text(string(r.Body), false, redacted)
		v["body"] = cleaned(body, m)
		return v
	}
	v["text"] = m.Text(strings.ToValidUTF8(string(r.Body), "\uFFFD"), false, redacted)
	return v
}

// readable turns a part that must not be read into an error.
func readable(v any) (any, error) {
	if u, ok := v.(unreadable); ok {
		return nil, errors.New("reads a body that " + u.why)
	}
	return v, nil
}

// cleaned takes secrets out of a value, which is changed.
func cleaned(v any, m *redact.Mask) any {
	if m.Empty() {
		return v
	}
	switch v := v.(type) {
	case string:
		return m.Text(v, false, redacted)
	case json.Number:
		if c := m.Text(string(v), false, redacted); c != string(v) {
			return c
		}
	case []any:
		for i := range v {
			v[i] = cleaned(v[i], m)
		}
	case map[string]any:
		for _, k := range sortedKeys(v) {
			item := cleaned(v[k], m)
			if c := m.Text(k, false, redacted); c != k {
				delete(v, k)
				k = c
			}
			v[k] = item
		}
	}
	return v
}

// wholeBody is the output of a step that does not say what it is: the JSON of the body
// when it is small, else nothing.
func wholeBody(r *httpstep.Reply, s *scope) []byte {
	body := bytes.TrimSpace(r.Body)
	if r.Truncated || len(body) == 0 || len(body) > maxKept {
		return nil
	}
	v, err := decodeJSON(body)
	if err != nil {
		return nil
	}
	written := appendJSON(nil, v)
	if without := appendJSON(nil, cleaned(v, maskOf(s.secrets))); !bytes.Equal(without, written) {
		return without
	}
	return body
}
