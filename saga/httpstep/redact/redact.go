// Package redact takes secrets out of what others send, in whichever of the usual ways
// they write them.
//
//	m := redact.New(secrets)
//	text = m.Text(text, false, "***")
//
// # What is guaranteed
//
// A secret that stands whole in the text is taken out, whether its characters are
// written as they are or as one of these, in any mixture and any case of hexadecimal
// digits: JSON's and JavaScript's \u002B, \x2b, \/ and \", also with several
// backslashes; HTML's &#x27;, &#39;, &apos; and all others by name; a URL's %2B, and +
// for a space. Escapes within escapes are found three deep.
//
// # What is not
//
// A part of a secret, and one in base64, in other letters or otherwise encoded, are not
// found. A text in which the secret stands by chance loses it too.
//
// # What survives a crash
//
// Nothing is kept.
//
// # What the caller must do
//
// Leave out secrets that are so short that they stand in any text.
package redact

import (
	"html"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// deep is how often escapes are undone before the text is looked at again.
const deep = 2

// Mask knows secrets. It is immutable and safe for concurrent use; nil knows none.
type Mask struct {
	secrets []string
	begins  [256]bool // with which bytes one can begin
}

// New makes a mask; nil where there is no secret. Those that are blank do not count.
func New(secrets []string) *Mask {
	var m *Mask
	for _, s := range secrets {
		if strings.TrimSpace(s) == "" {
			continue
		}
		if m == nil {
			m = &Mask{secrets: make([]string, 0, len(secrets))}
		}
		m.secrets = append(m.secrets, s)
		m.begins[s[0]] = true
	}
	if m == nil {
		return nil
	}
	for _, c := range []byte(`\&%+`) {
		m.begins[c] = true
	}
	return m
}

// Empty reports that there is no secret.
func (m *Mask) Empty() bool { return m == nil || len(m.secrets) == 0 }

// Text returns text with the word in place of each secret, or of several that overlap.
// cut says that text may end in the middle of one.
func (m *Mask) Text(text string, cut bool, word string) string {
	if m.Empty() {
		return text
	}
	ends := m.find(text, cut)
	if ends == nil {
		return text
	}
	var b strings.Builder
	for i, end := 0, 0; i < len(text); i++ {
		begun := end > i
		end = max(end, ends[i])
		switch {
		case end <= i:
			b.WriteByte(text[i])
		case !begun:
			b.WriteString(word)
		}
	}
	return b.String()
}

// find returns where the secrets end that begin at a byte; nil when there is none.
func (m *Mask) find(text string, cut bool) (ends map[int]int) {
	p := plain(text)
	for level := 0; ; level++ {
		for i := range len(p.text) {
			if !m.begins[p.text[i]] {
				continue
			}
			for _, secret := range m.secrets {
				end := match(p.text, i, secret, cut)
				if end <= i {
					continue
				}
				if ends == nil {
					ends = map[int]int{}
				}
				from, to := p.source(i, end)
				ends[from] = max(ends[from], to)
			}
		}
		next, changed := p.decoded()
		if !changed || level == deep {
			return ends
		}
		p = next
	}
}

// decoding is a text whose escapes have been undone, with what its bytes were made of.
type decoding struct {
	text     string
	from, to []int32 // nil: the bytes themselves
}

func plain(text string) decoding { return decoding{text: text} }

// source is what the bytes from i to end were made of.
func (d decoding) source(i, end int) (from, to int) {
	if d.from == nil {
		return i, end
	}
	return int(d.from[i]), int(d.to[end-1])
}

// decoded undoes the escapes once.
func (d decoding) decoded() (out decoding, changed bool) {
	if !strings.ContainsAny(d.text, `\&%`) {
		return out, false
	}
	var b strings.Builder
	for i := 0; i < len(d.text); {
		text, n := d.text[i:i+1], 1
		if made, size := unescape(d.text[i:], 1); size > 0 {
			text, n, changed = made, size, true
		}
		from, to := d.source(i, i+n)
		b.WriteString(text)
		for range len(text) {
			out.from, out.to = append(out.from, int32(from)), append(out.to, int32(to))
		}
		i += n
	}
	out.text = b.String()
	return out, changed
}

// place is a way to read the text: up to byte at it is the first bytes of the secret.
type place struct{ at, known int }

// match returns where the secret ends that begins at byte i, or 0; with cut, the end of
// a text that ends within it.
func match(text string, i int, secret string, cut bool) int {
	var room [4]place
	ways, end := append(room[:0], place{at: i}), 0
	var seen map[place]bool // where a secret can be read in several ways
	for steps := 0; len(ways) > 0; steps++ {
		if steps > 4*len(secret)+64 { // nobody can read it; what is in doubt is taken out
			return max(end, i+1)
		}
		w := ways[len(ways)-1]
		ways = ways[:len(ways)-1]
		if w.known == len(secret) {
			end = max(end, w.at)
			continue
		}
		rest := text[w.at:]
		if cut && (rest == "" || unfinished(rest)) {
			return len(text)
		}
		if rest == "" || seen[w] {
			continue
		}
		before := len(ways)
		take := func(made string, n int) {
			if n > 0 && made != "" && strings.HasPrefix(secret[w.known:], made) {
				ways = append(ways, place{w.at + n, w.known + len(made)})
			}
		}
		take(rest[:1], 1)
		switch rest[0] {
		case '+':
			take(" ", 1)
		case '\\', '&', '%':
			take(unescape(rest, 1))
			if run := backslashes(rest); run > 1 { // in a text of JSON within JSON
				take(unescape(rest, run))
			}
		}
		if len(ways)-before > 1 {
			if seen == nil {
				seen = map[place]bool{}
			}
			seen[w] = true
		}
	}
	return end
}

// longest is the most bytes of one escape.
const longest = 40

// unfinished reports that a text which is cut ends within an escape.
func unfinished(rest string) bool {
	switch rest[0] {
	case '\\':
		run := backslashes(rest)
		if run == len(rest) || rest[run] == 'u' && len(rest) < run+5 ||
			rest[run] == 'x' && len(rest) < run+3 {
			return true
		}
		high, ok := hex(rest[run+1:], 4)
		next := rest[min(run+5, len(rest)):]
		return rest[run] == 'u' && ok && utf16.IsSurrogate(high) && (next == "" || unfinished(next))
	case '%':
		return len(rest) < 3
	case '&':
		return len(rest) < longest && !strings.Contains(rest, ";")
	}
	return false
}

// backslashes counts those that s begins with, up to the most that have a meaning.
func backslashes(s string) int {
	s = s[:min(len(s), 1<<deep<<deep)]
	return len(s) - len(strings.TrimLeft(s, `\`))
}

// unescape reads the escape that s begins with: what it stands for, and its bytes; 0
// when there is none. One of backslashes is taken to begin with that many of them.
func unescape(s string, run int) (made string, n int) {
	switch s[0] {
	case '%':
		if c, ok := hex(s[1:], 2); ok {
			return string([]byte{byte(c)}), 3
		}
	case '&':
		if end := strings.IndexByte(s[:min(len(s), longest)], ';'); end > 0 {
			if made = html.UnescapeString(s[:end+1]); made != s[:end+1] {
				return made, end + 1
			}
		}
	case '\\':
		return backslashed(s, run)
	}
	return "", 0
}

// short are the escapes of one letter.
var short = map[byte]string{'n': "\n", 'r': "\r", 't': "\t", 'b': "\b", 'f': "\f", '/': "/", '"': `"`,
	'\'': "'"}

// backslashed reads an escape of JSON that begins with that many backslashes.
func backslashed(s string, run int) (made string, n int) {
	rest := s[run:]
	if rest == "" {
		return "", 0
	}
	if run == 1 && rest[0] == '\\' {
		return `\`, 2
	}
	if made = short[rest[0]]; made != "" {
		return made, run + 1
	}
	switch rest[0] {
	case 'x':
		if c, ok := hex(rest[1:], 2); ok {
			return string(c), run + 3
		}
	case 'u':
		c, ok := hex(rest[1:], 4)
		if !ok {
			return "", 0
		}
		n = run + 5
		if low, size := lowSurrogate(s[n:]); utf16.IsSurrogate(c) && size > 0 {
			return string(utf16.DecodeRune(c, low)), n + size
		}
		return string(c), n
	}
	return "", 0
}

// lowSurrogate reads the second half of a character.
func lowSurrogate(s string) (c rune, n int) {
	run := backslashes(s)
	if run == 0 || run == len(s) || s[run] != 'u' {
		return utf8.RuneError, 0
	}
	c, ok := hex(s[run+1:], 4)
	if !ok || c < 0xdc00 || c > 0xdfff {
		return utf8.RuneError, 0
	}
	return c, run + 5
}

// hex reads that many digits.
func hex(s string, digits int) (v rune, ok bool) {
	if len(s) < digits {
		return 0, false
	}
	for _, c := range []byte(s[:digits]) {
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
		v = v<<4 | rune(c)
	}
	return v, true
}
