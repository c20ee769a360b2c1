package httpstep

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"iter"
	"net/url"
	"strings"
	"unicode/utf8"
)

// masked stands where a secret was.
const masked = "***"

// mask takes secrets out of texts.
type mask struct{ secrets []string }

// newMask knows the secrets of a request in the forms in which a callee may repeat
// them: as they are, in JSON, in HTML and in a URL.
func newMask(req *Request) mask {
	var m mask
	for _, secret := range req.Secrets {
		m.add(secret)
	}
	for name, values := range req.Header {
		if !carriesCredentials(name) {
			continue
		}
		for _, v := range values {
			m.add(v)
			scheme, credentials, _ := strings.Cut(v, " ")
			m.add(credentials)
			if strings.EqualFold(scheme, "Basic") {
				m.addBasic(credentials)
			}
		}
	}
	return m
}

// addBasic takes the password out of what the header of HTTP's Basic scheme carries.
func (m *mask) addBasic(credentials string) {
	plain, err := base64.StdEncoding.DecodeString(credentials)
	if err != nil {
		return
	}
	m.add(string(plain))
	_, password, _ := strings.Cut(string(plain), ":")
	m.add(password)
}

func (m *mask) add(secret string) {
	if strings.TrimSpace(secret) == "" {
		return
	}
	first := len(m.secrets)
	m.secrets = append(m.secrets, secret)
	safe, plain := inJSON(secret)
	for _, form := range []string{safe, plain, html.EscapeString(secret),
		url.QueryEscape(secret), url.PathEscape(secret)} {
		if form != secret {
			m.secrets = append(m.secrets, form)
		}
	}
	for _, form := range m.secrets[first:] {
		if strings.Contains(form, "/") { // some write it so in JSON
			m.secrets = append(m.secrets, strings.ReplaceAll(form, "/", `\/`))
		}
	}
}

// inJSON returns the text as it stands in JSON, with and without the escapes that
// make it safe within HTML.
func inJSON(text string) (safe, plain string) {
	b, err := json.Marshal(text)
	if err != nil { // a text can always be
		return text, text
	}
	safe = string(b[1 : len(b)-1])
	return safe, strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(safe)
}

// carriesCredentials reports a header whose value is a secret by its name.
func carriesCredentials(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "idempotency-key", "x-idempotency-key":
		return false
	}
	for _, word := range []string{"auth", "cookie", "key", "token", "secret", "password", "signature",
		"credential"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// runes yields the characters of text with [masked] in place of each secret, or of
// several that overlap. cut says that text may end in the middle of one.
func (m mask) runes(text string, cut bool) iter.Seq[rune] {
	return func(yield func(rune) bool) {
		end := 0 // of the secret that begins at or before i
		for i := 0; i < len(text); {
			begun := end > i
			for _, secret := range m.secrets {
				rest := text[i:]
				if strings.HasPrefix(rest, secret) || cut && strings.HasPrefix(secret, rest) {
					end = max(end, i+len(secret))
				}
			}
			if end > i {
				for _, c := range masked {
					if !begun && !yield(c) {
						return
					}
				}
				i++ // another one may begin inside
				continue
			}
			c, size := utf8.DecodeRuneInString(text[i:])
			if !yield(c) {
				return
			}
			i += size
		}
	}
}

// text returns text without the secrets.
func (m mask) text(text string) string {
	var b strings.Builder
	for c := range m.runes(text, false) {
		b.WriteRune(c)
	}
	return b.String()
}
