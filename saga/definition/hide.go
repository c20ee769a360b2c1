package definition

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"onced/saga/httpstep/redact"
)

// keepSecrets makes s know the texts that nobody must find in what a run keeps: the secrets
// that the document names, whichever call sends them, and the URLs and tokens of the
// callbacks of all its steps. A callee may repeat in one reply what it got by another
// call. A secret that cannot be read was not sent now, so it is passed over.
func (d *Document) keepSecrets(
	s *scope, secret func(name string) (string, error), callback func(step string) string,
) {
	for _, name := range d.secrets {
		if v, err := secret(name); err == nil {
			s.keep(v)
		}
	}
	for _, def := range d.defs {
		if def.await != nil && d.notifies {
			s.keepURL(callback(def.name))
		}
	}
}

// hide makes the scope of a call know what must not be kept of its reply.
func (r *runner) hide(s *scope) {
	r.doc.keepSecrets(s, s.secret, func(step string) string {
		return r.deps.callbackURL(CallbackUse{Run: s.call.Run, Step: step, Round: s.call.Round})
	})
}

// callbackURL is the URL, or nothing where there is none.
func (d *Deps) callbackURL(use CallbackUse) string {
	if d.CallbackURL == nil {
		return ""
	}
	u, err := d.CallbackURL(use)
	if err != nil {
		return ""
	}
	return u
}

// hidden are the same for what comes by a signal.
func (d *Document) hidden(ctx context.Context, deps *Deps, run CallbackUse) []string {
	s := &scope{}
	d.keepSecrets(s, func(name string) (string, error) {
		if deps.Secret == nil {
			return "", errMissing
		}
		return deps.Secret(ctx, SecretUse{Name: name, Definition: d.name, Step: run.Step})
	}, func(step string) string {
		return deps.callbackURL(CallbackUse{Run: run.Run, Step: step, Round: run.Round})
	})
	return s.secrets
}

// keepURL remembers the URL of a callback, and its token.
func (s *scope) keepURL(u string) {
	s.keep(u)
	if token := u[strings.LastIndexByte(u, '/')+1:]; len(token) >= minToken {
		s.keep(token) // a callee may repeat it without the rest
	}
}

// mask takes the secrets that the call knows by now out of a reply.
func (s *scope) mask() *redact.Mask {
	if s.maskedOf != len(s.secrets) {
		s.masked, s.maskedOf = maskOf(s.secrets), len(s.secrets)
	}
	return s.masked
}

// maskOf takes those of the texts out that are long enough.
func maskOf(secrets []string) *redact.Mask {
	short := func(s string) bool { return len(s) < minSecret }
	if slices.ContainsFunc(secrets, short) {
		secrets = slices.DeleteFunc(slices.Clone(secrets), short)
	}
	return redact.New(secrets)
}

// printable says what is wrong with a name or a key that people will read: a character
// that is not seen, or that turns round what stands beside it.
func printable(name string) string {
	for _, c := range name {
		if c >= ' ' && c <= '~' {
			continue
		}
		if unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp) {
			return "has a character that is not seen or that turns text round; leave it out"
		}
	}
	return ""
}

// printable checks all names of a document.
func (c *checker) printable(n *node, field string) {
	for i, item := range n.items {
		name := fmt.Sprintf("%s[%d]", field, i)
		if n.kind == objectNode {
			if name = join(field, n.keys[i].text); printable(n.keys[i].text) != "" && !c.full() {
				name = join(field, strconv.QuoteToASCII(n.keys[i].text))
				c.atf(n.keys[i], name, "%s", printable(n.keys[i].text))
			}
		}
		c.printable(item, name)
	}
}
