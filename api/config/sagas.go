package config

import (
	"fmt"
	"regexp"
	"strings"
)

// hostPattern matches the name of a host, with *. before it for all below.
var hostPattern = regexp.MustCompile(`^(\*\.)?` + hostLabel + `(\.` + hostLabel + `)*$`)

const hostLabel = `[a-z0-9_]([a-z0-9_-]*[a-z0-9])?`

// validateSagas checks what single keys of sagas cannot say. Definitions are read
// by whoever runs them.
func (l *loader) validateSagas(c *Config) {
	if c.PublicURL != "" {
		if _, err := parseURL(c.PublicURL); err != nil {
			l.wrong("public_url", Problem{Value: shownURL(c.PublicURL), Text: err.Error(),
				Allowed: "for example https://pay.example.com"})
		}
	}
	for i, name := range c.Sagas.Definitions {
		if strings.TrimSpace(name) == "" {
			l.wrong("sagas.definitions", Problem{Value: name, Text: fmt.Sprintf("(entry %d) names nothing", i+1),
				Remedy: "name a file or a folder"})
		}
	}
	for i, text := range c.Sagas.AllowHosts {
		const key = "sagas.allow_hosts"
		if _, err := ParseNetwork(text); err == nil {
			continue
		}
		if len(text) > 253 || !hostPattern.MatchString(strings.ToLower(text)) {
			l.add(Problem{Origin: l.originOf(key), Key: key, Value: text,
				Text:    fmt.Sprintf("(entry %d) is no host, address or network", i+1),
				Allowed: "for example shop.internal, 10.1.0.7, 10.1.0.0/16, fd00::/8; no port, no scheme"})
		}
	}
	t := c.Sagas.TLS
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		l.wrong("sagas.tls.cert_file", Problem{Value: t.CertFile, Text: "has no key",
			Remedy: "name the file of its key with sagas.tls.key_file"})
	case t.CertFile == "" && t.KeyFile != "":
		l.wrong("sagas.tls.key_file", Problem{Value: t.KeyFile, Text: "has no certificate",
			Remedy: "name the file of its certificate with sagas.tls.cert_file"})
	}
}
