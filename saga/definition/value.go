package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"onced/saga/httpstep"
)

// The values of expressions are those of JSON: nil, bool, string, json.Number with its
// exact text, []any, map[string]any; and quoted.

// maxNested is how deep the JSON may be nested that is read or kept. More is of no use,
// and there are readers that give up on it, or recurse until they end.
const maxNested = 100

// deeper reports that JSON is nested deeper than that. It need not be whole.
func deeper(raw []byte, most int) bool {
	depth, text := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			if depth++; depth > most {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// maxRendered is the largest JSON that is made, in bytes.
const maxRendered = httpstep.MaxBody

// appendJSON writes a value; keys of objects in their order. What is longer than
// maxRendered is cut, which the caller finds by its length.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case json.Number:
		return append(b, v...)
	case quoted:
		return appendText(b, string(v))
	case string:
		return appendText(b, v)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b = appendJSON(b, item); len(b) > maxRendered {
				break
			}
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		var room [8]string
		for i, k := range appendSorted(room[:0], v) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, k), ':')
			if b = appendJSON(b, v[k]); len(b) > maxRendered {
				break
			}
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

func sortedKeys[T any](m map[string]T) []string {
	return appendSorted(make([]string, 0, len(m)), m)
}

// appendSorted appends the keys to none.
func appendSorted[T any](keys []string, m map[string]T) []string {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

const hexDigits = "0123456789abcdef"

// appendText writes a text in quotes; what is not UTF-8 is U+FFFD in it.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0 // what is before it is written
	for i := 0; i < len(s); {
		c, size := s[i], 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		} else if c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch {
		case c >= utf8.RuneSelf:
			b = utf8.AppendRune(b, utf8.RuneError)
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i += size
		from = i
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// equal compares values: numbers by what they are, not how they are written.
func equal(a, b any) bool {
	switch x := a.(type) {
	case nil, bool, string:
		if q, ok := b.(quoted); ok { // an amount and its text
			return a == string(q)
		}
		switch b.(type) {
		case nil, bool, string:
			return a == b
		}
		return false
	case json.Number, quoted:
		if a == b {
			return true
		}
		if s, ok := b.(string); ok {
			q, isQuoted := a.(quoted)
			return isQuoted && string(q) == s
		}
		m, err := decimalOf(a)
		n, err2 := decimalOf(b)
		return err == nil && err2 == nil && m.cmp(n) == 0
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			w, there := y[k]
			if !there || !equal(v, w) {
				return false
			}
		}
		return true
	}
	return false
}

// kindOf names what a value is, for people.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "missing"
	case bool:
		return "true or false"
	case json.Number, quoted:
		return "a number"
	case string:
		return "text"
	case []any:
		return "a list"
	default:
		return "an object"
	}
}

// textOf is a value within a text; only single values have one.
func textOf(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return string(v), nil
	case quoted:
		return string(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case nil:
		return "", errMissing
	}
	return "", fmt.Errorf("is %s, which has no place within a text", kindOf(v))
}

var errMissing = errors.New("is missing")
