package httpstep

import (
	"encoding/base64"
	"slices"
	"strings"

	"onced/saga/httpstep/redact"
)

// masked stands where a secret was.
const masked = "***"

// newMask knows the secrets of a request: those that it names, and the values of its
// credential headers.
func newMask(req *Request) *redact.Mask {
	secrets := slices.Clone(req.Secrets)
	for name, values := range req.Header {
		if !carriesCredentials(name) {
			continue
		}
		for _, v := range values {
			scheme, credentials, _ := strings.Cut(v, " ")
			secrets = append(secrets, v, credentials)
			if strings.EqualFold(scheme, "Basic") {
				secrets = append(secrets, basic(credentials)...)
			}
		}
	}
	return redact.New(secrets)
}

// basic returns what the header of HTTP's Basic scheme carries, and the password in it.
func basic(credentials string) []string {
	plain, err := base64.StdEncoding.DecodeString(credentials)
	if err != nil {
		return nil
	}
	_, password, _ := strings.Cut(string(plain), ":")
	return []string{string(plain), password}
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
