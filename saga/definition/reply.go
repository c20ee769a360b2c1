package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"

	"onced/saga/httpstep"
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
func replyValue(r *httpstep.Reply, secrets []string) map[string]any {
	headers := map[string]any{}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = clean(strings.Join(values, ", "), secrets)
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
		v["text"] = textOfJSON(r.Body, body, secrets)
		v["body"] = cleaned(body, secrets)
		return v
	}
	v["text"] = clean(strings.ToValidUTF8(string(r.Body), "\uFFFD"), secrets)
	return v
}

// textOfJSON is the text of a body that is JSON. JSON has many ways to write a secret, so
// one that holds any is written anew, without it.
func textOfJSON(raw []byte, body any, secrets []string) string {
	if len(secrets) > 0 {
		written := string(appendJSON(nil, body))
		again, _ := decodeJSON(raw) // it was read before
		if without := string(appendJSON(nil, cleaned(again, secrets))); without != written {
			return without
		}
	}
	return clean(string(raw), secrets)
}

// readable turns a part that must not be read into an error.
func readable(v any) (any, error) {
	if u, ok := v.(unreadable); ok {
		return nil, errors.New("reads a body that " + u.why)
	}
	return v, nil
}

// clean takes secrets out of a text.
func clean(text string, secrets []string) string {
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, redacted)
		}
	}
	return text
}

// cleaned takes secrets out of a value, which is changed.
func cleaned(v any, secrets []string) any {
	if len(secrets) == 0 {
		return v
	}
	switch v := v.(type) {
	case string:
		return clean(v, secrets)
	case json.Number:
		if c := clean(string(v), secrets); c != string(v) {
			return c
		}
	case []any:
		for i := range v {
			v[i] = cleaned(v[i], secrets)
		}
	case map[string]any:
		for _, k := range sortedKeys(v) {
			item := cleaned(v[k], secrets)
			if c := clean(k, secrets); c != k {
				delete(v, k)
				k = c
			}
			v[k] = item
		}
	}
	return v
}

// known is what must not be kept, in the forms in which a callee may repeat it; the
// longest first, so that none hides a part of another.
func known(secrets []string) []string {
	if len(secrets) == 0 {
		return nil
	}
	out := slices.Clone(secrets)
	for _, s := range secrets {
		text := string(appendText(nil, s))
		out = append(out, url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s), text[1:len(text)-1])
	}
	slices.SortFunc(out, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(out)
}

// wholeBody is the output of a step that does not say what it is: the JSON of the body
// when it is small, else nothing.
func wholeBody(r *httpstep.Reply, s *scope) []byte {
	body := bytes.TrimSpace(r.Body)
	if r.Truncated || len(body) == 0 || len(body) > maxKept {
		return nil
	}
	if len(s.secrets) == 0 {
		if !json.Valid(body) {
			return nil
		}
		return body
	}
	v, err := decodeJSON(body)
	if err != nil {
		return nil
	}
	return appendJSON(nil, cleaned(v, known(s.secrets)))
}
