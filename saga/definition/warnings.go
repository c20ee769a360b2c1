package definition

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"onced/saga/httpstep"
)

// warnf notes what is allowed and seldom meant, see [Document.Remarks].
func (c *checker) warnf(n *node, field, format string, args ...any) {
	if len(c.warnings) < maxProblems {
		c.warnings = append(c.warnings, Problem{File: c.file, Line: n.line, Column: n.col, Field: field,
			Message: fmt.Sprintf(format, args...)})
	}
}

// proofs are the statuses that can say that nothing has happened: not 408 and 5xx.
const proofs = "200-407,409-499"

// warnOfOutcomes warns of statuses that are taken for a proof and are none: a 503, or a
// 408, may come from a proxy in between while the charge is under way.
func (c *checker) warnOfOutcomes(s *section, l httpstep.Lists) {
	certain, _ := httpstep.ParseStatuses(proofs) // they are some
	for _, x := range []struct {
		name, risk string
		set        *httpstep.Statuses
	}{
		{"refused", "the run goes on as if nothing stood, and that is not undone", l.Refused},
		{"retry", "it is sent again, and happens twice where the callee does not honour the key", l.Retry},
	} {
		if x.set == nil {
			continue
		}
		if doubtful := x.set.Without(certain); !doubtful.Empty() {
			c.warnf(s.n.get(x.name), s.path(x.name), "has %s, which seldom means that nothing has happened: "+
				"when something has, %s; take it out, so that it is looked up, unless the callee promises "+
				"that", doubtful, x.risk)
		}
	}
	if l.Done == nil {
		return
	}
	failures, _ := httpstep.ParseStatuses("4xx") // it is one
	if l.Done.Without(failures).Empty() {
		c.warnf(s.n.get("done"), s.path("done"), "has no success: what is written takes the place of the "+
			"default, so that 200 is unknown; write [2xx, %s]", l.Done)
	}
}

// warnOfPlain warns of secrets that anybody on the way can read.
func (c *checker) warnOfPlain(s *section, d *callDef, secrets map[string]bool) {
	if d.url == nil || len(secrets) == 0 || !strings.HasPrefix(strings.ToLower(d.url.base), "http://") {
		return
	}
	if u, err := url.Parse(d.url.base); err == nil && foreign(u.Hostname()) {
		c.warnf(s.n.get("url"), s.path("url"), "is http, and the call carries secrets (%s), which anybody "+
			"on the way to %s can read; write https", list(sortedKeys(secrets)), u.Hostname())
	}
}

// nearNames end names of hosts that are not on the public network.
var nearNames = []string{".localhost", ".local", ".internal", ".lan", ".home.arpa", ".svc", ".test"}

// foreign reports a host that is reached over a network of others, as far as its name
// tells.
func foreign(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast()
	}
	near := func(end string) bool { return strings.HasSuffix(host, end) }
	return strings.Contains(host, ".") && !slices.ContainsFunc(nearNames, near)
}

// warnOfOutputs warns of outputs that are not what they seem.
func (c *checker) warnOfOutputs(s *section, d *stepDef) {
	switch {
	case d.await == nil:
	case d.await.output != nil && d.output != nil && !d.undoWhenAbsent:
		c.warnf(s.key("output"), s.path("output"), "is read by nobody: the step ends with its signal, and "+
			"its output is await.output; leave it out")
	case d.await.output == nil && d.check != nil:
		c.warnf(s.key("await"), s.path("await"), "has no output, so that steps.%s.output is the whole body "+
			"of the signal, or what the look-up gives, whichever ended the step; write await.output and "+
			"check.output with the same fields", d.name)
	}
}
