package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonParser reads JSON in one pass, as package encoding/json does: of members of the same
// name the last one counts, and half of a pair of \u escapes is U+FFFD. But it keeps the
// text of numbers, takes UTF-8 only, and nothing that is nested deeper than maxNested.
type jsonParser struct {
	raw []byte
	// text is raw once more. The values are made of it, without a copy of each; when it is
	// empty none is made, and the parser only says whether raw is JSON.
	text string
	at   int
	deep int
	read bool // a whole value was read, whatever comes behind it
	// spaced says that appendJSON would write the value in other bytes.
	spaced bool
}

// decodeJSON reads JSON that is UTF-8 and not deeper than maxNested; nothing at all is
// nil.
func decodeJSON(raw []byte) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	p := jsonParser{raw: raw, text: string(raw)}
	v, ok := p.whole()
	if !ok {
		return nil, p.problem()
	}
	return v, nil
}

// checkJSON is decodeJSON without the value. written says that it is there, and that
// appendJSON would write it in just these bytes.
func checkJSON(raw []byte) (written bool, err error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return false, nil
	}
	p := jsonParser{raw: raw}
	if _, ok := p.whole(); !ok {
		return false, p.problem()
	}
	return !p.spaced, nil
}

// problem says why it could not be read.
func (p *jsonParser) problem() error {
	switch {
	case !utf8.Valid(p.raw):
		return errors.New("is not UTF-8")
	case deeper(p.raw, maxNested):
		return fmt.Errorf("is nested deeper than %d", maxNested)
	case p.read:
		return errors.New("is more than one JSON value")
	}
	return errors.New("is not JSON")
}

// whole reads a value with nothing behind it.
func (p *jsonParser) whole() (any, bool) {
	p.space()
	v, ok := p.value()
	p.read = ok
	p.space()
	return v, ok && p.at == len(p.raw)
}

// space moves over blanks.
func (p *jsonParser) space() {
	for p.at < len(p.raw) {
		switch p.raw[p.at] {
		case ' ', '\n', '\r', '\t':
			p.at++
			p.spaced = true
		default:
			return
		}
	}
}

// next moves over c if it comes next.
func (p *jsonParser) next(c byte) bool {
	if p.at == len(p.raw) || p.raw[p.at] != c {
		return false
	}
	p.at++
	return true
}

// value reads a value that begins here.
func (p *jsonParser) value() (any, bool) {
	if p.at == len(p.raw) {
		return nil, false
	}
	from := p.at
	switch p.raw[from] {
	case '{':
		return p.object()
	case '[':
		return p.list()
	case '"':
		s, ok := p.str()
		if !ok || p.text == "" {
			return nil, ok
		}
		return s, true
	case 't':
		return true, p.word("true")
	case 'f':
		return false, p.word("false")
	case 'n':
		return nil, p.word("null")
	}
	if ok := p.number(); !ok || p.text == "" {
		return nil, ok
	}
	return json.Number(p.text[from:p.at]), true
}

// word reads true, false or null.
func (p *jsonParser) word(w string) bool {
	if !bytes.HasPrefix(p.raw[p.at:], []byte(w)) {
		return false
	}
	p.at += len(w)
	return true
}

func (p *jsonParser) object() (any, bool) {
	if p.deep++; p.deep > maxNested {
		return nil, false
	}
	var m map[string]any
	if p.text != "" {
		m = map[string]any{}
	}
	p.at++
	p.space()
	for last := []byte(nil); ; {
		if last == nil && p.next('}') {
			break
		}
		from := p.at
		key, ok := p.str()
		if !ok {
			return nil, false
		}
		name := p.raw[from+1 : p.at-1]
		if last != nil && bytes.Compare(last, name) >= 0 {
			p.spaced = true // they are written in order, and each once
		}
		last = name
		if p.space(); !p.next(':') {
			return nil, false
		}
		p.space()
		v, ok := p.value()
		if !ok {
			return nil, false
		}
		if m != nil {
			m[key] = v
		}
		if p.space(); p.next('}') {
			break
		}
		if !p.next(',') {
			return nil, false
		}
		p.space()
	}
	p.deep--
	return m, true
}

func (p *jsonParser) list() (any, bool) {
	if p.deep++; p.deep > maxNested {
		return nil, false
	}
	items := []any{}
	p.at++
	p.space()
	for first := true; !first || !p.next(']'); first = false {
		v, ok := p.value()
		if !ok {
			return nil, false
		}
		if p.text != "" {
			items = append(items, v)
		}
		if p.space(); p.next(']') {
			break
		}
		if !p.next(',') {
			return nil, false
		}
		p.space()
	}
	p.deep--
	if p.text == "" {
		return nil, true
	}
	return items, true
}

// str reads a text in quotes; it returns nothing where no values are made.
func (p *jsonParser) str() (string, bool) {
	if !p.next('"') {
		return "", false
	}
	from, escapes, ascii := p.at, false, true
	for ; p.at < len(p.raw); p.at++ {
		switch c := p.raw[p.at]; {
		case c == '"':
			s := p.raw[from:p.at]
			p.at++
			switch {
			case !ascii && !utf8.Valid(s):
				return "", false
			case p.text == "":
				return "", true
			case escapes:
				return unescaped(s), true
			}
			return p.text[from : p.at-1], true
		case c == '\\':
			n := escape(p.raw[p.at:])
			if n == 0 {
				return "", false
			}
			p.at += n - 1
			escapes, p.spaced = true, true
		case c < ' ':
			return "", false
		case c == 0x7f:
			p.spaced = true // it is written as an escape
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", false
}

// escape is the length of the escape that s begins with, 0 when it is none.
func escape(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(s); ok {
			return 6
		}
	}
	return 0
}

// hex4 reads an escape of four digits that s begins with.
func hex4(s []byte) (r rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range s[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unescaped is a text whose escapes are good.
func unescaped(s []byte) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			out = append(out, s[i])
			i++
			continue
		}
		r, ok := hex4(s[i:])
		if !ok {
			out = append(out, plainEscapes[s[i+1]])
			i += 2
			continue
		}
		i += 6
		if utf16.IsSurrogate(r) {
			low, _ := hex4(s[i:])
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				i += 6
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

var plainEscapes = [...]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r',
	't': '\t'}

// number moves over a number, as far as it is one.
func (p *jsonParser) number() bool {
	i := p.at
	if i < len(p.raw) && p.raw[i] == '-' {
		i++
	}
	switch n := p.digits(i); {
	case n == 0:
		return false
	case p.raw[i] == '0': // with a digit behind it it is two values
		i++
	default:
		i += n
	}
	if i < len(p.raw) && p.raw[i] == '.' {
		n := p.digits(i + 1)
		if n == 0 {
			return false
		}
		i += 1 + n
	}
	if i < len(p.raw) && (p.raw[i] == 'e' || p.raw[i] == 'E') {
		i++
		if i < len(p.raw) && (p.raw[i] == '+' || p.raw[i] == '-') {
			i++
		}
		n := p.digits(i)
		if n == 0 {
			return false
		}
		i += n
	}
	p.at = i
	return true
}

// digits counts the digits that begin at i.
func (p *jsonParser) digits(i int) (n int) {
	for i+n < len(p.raw) && p.raw[i+n] >= '0' && p.raw[i+n] <= '9' {
		n++
	}
	return n
}
