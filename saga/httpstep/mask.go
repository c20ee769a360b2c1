package httpstep

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// masked stands where a secret was.
const masked = "***"

// mask takes secrets out of texts.
type mask struct{ secrets []string }

// newMask knows the secrets of a request in the forms in which a callee may repeat
// them: as they are, in JSON, and in a URL.
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
			if _, credentials, ok := strings.Cut(v, " "); ok { // Bearer …
				m.add(credentials)
			}
		}
	}
	// The longest first, so that no rest of one is left by another that it holds.
	slices.SortFunc(m.secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	m.secrets = slices.Compact(m.secrets)
	return m
}

func (m *mask) add(secret string) {
	if strings.TrimSpace(secret) == "" {
		return
	}
	m.secrets = append(m.secrets, secret)
	for _, other := range []string{inJSON(secret), strings.ReplaceAll(inJSON(secret), "/", `\/`),
		url.QueryEscape(secret), url.PathEscape(secret), http.CanonicalHeaderKey(secret)} {
		if other != secret {
			m.secrets = append(m.secrets, other)
		}
	}
}

func inJSON(text string) string {
	b, err := json.Marshal(text)
	if err != nil { // a text can always be
		return text
	}
	return string(b[1 : len(b)-1])
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

// longest is the length of the longest secret.
func (m mask) longest() int {
	if len(m.secrets) == 0 {
		return 0
	}
	return len(m.secrets[0])
}

// text returns text without the secrets.
func (m mask) text(text string) string {
	for _, secret := range m.secrets {
		text = strings.ReplaceAll(text, secret, masked)
	}
	return text
}
