package redact

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"
)

const secret = `abc+DEF/ghi'jk=é1"2\3 <&>𝄞`

// ways are how callees write a text.
var ways = map[string]func(string) string{
	"plain": func(s string) string { return s },
	"go": func(s string) string {
		b, _ := json.Marshal(s) // a text can always be
		return string(b[1 : len(b)-1])
	},
	"dotnet": func(s string) string { return units(s, "\\u%04X", `+'<&>"é`) },
	"python": func(s string) string { return units(s, "\\u%04x", "") },
	"php":    func(s string) string { return strings.ReplaceAll(units(s, "\\u%04x", ""), "/", `\/`) },
	"gson":   func(s string) string { return units(s, "\\u%04x", `'=<&>`) },
	"every":  func(s string) string { return units(s, "\\u%04x", s) },
	"html":   html.EscapeString,
	"hex": func(s string) string {
		return strings.NewReplacer("'", "&#x27;", `"`, "&quot;", "&", "&amp;", "<", "&lt;").Replace(s)
	},
	"HEX": func(s string) string {
		return strings.NewReplacer("'", "&#X27;", "&", "&#x26;", "/", "&#x2F;").Replace(s)
	},
	"names": func(s string) string {
		return strings.NewReplacer("'", "&apos;", "é", "&eacute;", "&", "&amp;").Replace(s)
	},
	"query": url.QueryEscape,
	"path":  url.PathEscape,
	"lower": func(s string) string { return strings.ToLower(url.QueryEscape("+/=é")) + s },
}

// units writes those of the characters, or all that are not ASCII, with their code
// units in the form.
func units(s, form, those string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c == '\\' || c == '"' && !strings.ContainsRune(those, c):
			b.WriteString(`\` + string(c))
		case c < 0x80 && !strings.ContainsRune(those, c):
			b.WriteRune(c)
		default:
			for _, u := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(&b, form, u)
			}
		}
	}
	return b.String()
}

func TestEveryWayToWriteASecret(t *testing.T) {
	m := New([]string{secret, "other-secret"})
	for way, f := range ways {
		for within, g := range ways {
			text := "before " + g(f(secret)) + " after"
			got := m.Text(text, false, "***")
			if strings.Contains(got, "abc") || strings.Contains(got, "DEF") ||
				strings.Count(got, "***") != 1 || !strings.HasPrefix(got, "before ") ||
				!strings.HasSuffix(got, " after") {
				t.Errorf("%s in %s: %q is %q", way, within, text, got)
			}
		}
	}
}

// A text that is cut, anywhere, shows no half of a secret.
func TestATextThatIsCut(t *testing.T) {
	m := New([]string{secret})
	for way, f := range ways {
		text := f(secret)
		begin := strings.Index(text, "abc")
		if begin < 0 {
			begin = strings.Index(text, `\u0061`)
		}
		for n := begin + 1; n < len(text); n++ {
			if got := m.Text(text[:n], true, "***"); strings.Contains(got[min(begin, len(got)):], "a") {
				t.Errorf("%s: %q is %q", way, text[:n], got)
			}
		}
	}
}

func TestWhatIsNoSecretStays(t *testing.T) {
	m := New([]string{"abcd", "cdef", " ", "", `x\y`, `\\\\\\\\`})
	for _, c := range []struct {
		in, want string
		cut      bool
	}{
		{"", "", false}, {"abc", "abc", false}, {"xabcdy", "x*y", false}, {"xabcdefy", "x*y", false},
		{"abcdabcd", "**", false}, {"xab", "x*", true}, {"xab", "xab", false}, {`x\`, "*", true},
		{`{"a":"\u00e9\n"} &amp; 100% + \q`, `{"a":"\u00e9\n"} &amp; 100% + \q`, false},
		{`x\\y x\y`, "* *", false}, {`ab\u0063d`, "*", false}, {`ab\\\\u0063d`, "*", false},
		{`\u006`, `\u006`, false}, {`ab\u0`, "*", true}, {`ab%6`, "*", true}, {"ab&#x6", "*", true},
		{`\ud834`, `\ud834`, false}, {`%zz&#xzz;\xzz\uzzzz`, `%zz&#xzz;\xzz\uzzzz`, false},
		{"\xff\xfeabcd\xff", "\xff\xfe*\xff", false},
	} {
		if got := m.Text(c.in, c.cut, "*"); got != c.want {
			t.Errorf("%q, %v: %q, want %q", c.in, c.cut, got, c.want)
		}
	}
	var none *Mask
	if !none.Empty() || !New(nil).Empty() || none.Text("abcd", true, "*") != "abcd" {
		t.Error("no mask takes something out")
	}
}

// A text made to be read in many ways costs no more for it.
func TestManyWaysToRead(t *testing.T) {
	for _, s := range []string{`\`, "& ", "+ ", "%"} {
		m := New([]string{strings.Repeat(s, 60) + "x"})
		for _, text := range []string{strings.Repeat(`\`, 5000), strings.Repeat("&amp;", 1000),
			strings.Repeat("+", 5000), strings.Repeat(`\u005c`, 900)} {
			m.Text(text, false, "*") // it ends
		}
	}
}

// FuzzText: whatever the text is, a secret in it is taken out, and what has none stays.
func FuzzText(f *testing.F) {
	f.Add("a", "secret", "b", true)
	f.Add(`\`, `\\x`, "&amp;", false)
	f.Add("%", "\xe9&", ";", true)
	f.Fuzz(func(t *testing.T, before, secret, after string, cut bool) {
		if len(secret) > 200 || len(before)+len(after) > 5000 || strings.TrimSpace(secret) == "" {
			return
		}
		m := New([]string{secret})
		got := m.Text(before+secret+after, cut, "\x00")
		for part := range strings.SplitSeq(got, "\x00") {
			if strings.Contains(part, secret) {
				t.Errorf("%q has %q", got, secret)
			}
		}
		if !strings.Contains(got, "\x00") {
			t.Errorf("%q stays", got)
		}
	})
}
