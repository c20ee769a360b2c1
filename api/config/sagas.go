package config

import (
	"errors"
	"fmt"
	"strings"

	"onced/saga/egress"
)

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
			l.wrong("sagas.definitions", Problem{Value: name,
				Text:   fmt.Sprintf("(entry %d) names nothing", i+1),
				Remedy: "name a file or a folder"})
		}
	}
	for i, text := range c.Sagas.AllowHosts {
		const key = "sagas.allow_hosts"
		if bad, ok := errors.AsType[*egress.AllowError](egress.CheckAllow([]string{text})); ok {
			l.add(Problem{Origin: l.originOf(key), Key: key, Value: text,
				Text: fmt.Sprintf("(entry %d) %s", i+1, bad.Problem)})
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
