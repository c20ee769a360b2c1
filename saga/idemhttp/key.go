package idemhttp

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"onced/kv/claim"
)

// keyOf reads the key of a request out of the header of this canonical name. ok is
// false when there is none. The problem names the header, the limit and the remedy.
func keyOf(h http.Header, header string) (key string, ok bool, p *Problem) {
	values := h[header]
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", false, badKey(header, fmt.Sprintf("is there %d times; send it once", len(values)))
	}
	key, err := ParseKey(values[0])
	if err != nil {
		return "", false, badKey(header, err.Error())
	}
	return key, true, nil
}

func badKey(header, detail string) *Problem {
	return &Problem{Code: CodeKeyInvalid, Detail: "the header " + header + " " + detail, Param: header}
}

// ParseKey reads the value of the header: a quoted string as in RFC 8941, or the
// bare key; both forms of a key are the same one. A key is 1 to 255 bytes of
// text without control characters, and not blank. Characters that cannot be seen
// are refused too (zero width, marks of direction): two keys that look the same to
// an operator have to be the same. A bare one holds neither quotes nor commas: a
// comma there is what a proxy makes of two headers. The error's text fits behind
// the name of the header.
func ParseKey(value string) (string, error) {
	const oneKey = "send one key of 1 to 255 bytes of printable text, bare or in double quotes"
	if len(value) > 2*claim.MaxKey+2 { // every byte of the longest key escaped
		return "", fmt.Errorf("is %d bytes long, the limit is %d; use a shorter key", len(value),
			claim.MaxKey)
	}
	key := strings.Trim(value, " \t")
	switch {
	case strings.HasPrefix(key, `"`):
		quoted, ok := unquote(key)
		if !ok {
			return "", errors.New(`is not one quoted string; ` + oneKey +
				`, in which only \" and \\ are escaped`)
		}
		key = quoted
	case strings.ContainsAny(key, `",`):
		return "", errors.New("holds a quote or a comma without being quoted; " + oneKey)
	}
	if i := strings.IndexFunc(key, invisible); i >= 0 {
		c, _ := utf8.DecodeRuneInString(key[i:])
		return "", fmt.Errorf("holds the invisible character %U; %s", c, oneKey)
	}
	err := claim.ID{Scope: "-", Key: key}.Validate()
	if invalid, ok := errors.AsType[*claim.InvalidError](err); ok {
		return "", fmt.Errorf("%s; %s", invalid.Problem, oneKey)
	}
	return key, err
}

// invisible reports characters that are there and show nothing. Bytes that are no
// text are refused elsewhere.
func invisible(c rune) bool {
	return c >= utf8.RuneSelf && unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp)
}

// unquote reads a string of RFC 8941, without parameters.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), i == len(s)-1
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
			b.WriteByte(s[i])
		case c < ' ' || c > '~':
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}
