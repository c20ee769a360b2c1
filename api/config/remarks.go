package config

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"onced/saga/httpstep"
)

// remarks says what is allowed and may surprise.
func (l *loader) remarks(c *Config) {
	if _, said := l.origins["routes"]; len(c.Routes) == 0 && !said && len(l.problems) == 0 {
		l.warnings = append(l.warnings, l.noRoutes())
	}
	for i := range c.Routes {
		r, path := &c.Routes[i], fmt.Sprintf("routes[%d]", i)
		if r.Key != "ignore" {
			l.remarkTimeout(r, path, c.HTTP)
			l.remarkOutcomes(r, path)
		}
		if _, named := l.origins[path+".name"]; !named && r.Name != "" {
			l.notes = append(l.notes, Problem{Origin: l.originOf(path), Key: path,
				Text:   "has its name, " + r.Name + ", from its path, and its keys are kept under that name",
				Remedy: "before the path changes, add name: " + r.Name})
		}
	}
	l.noteNotFound(c.Routes)
}

// noRoutes is for whoever has started in another folder, or has misnamed the file.
func (l *loader) noRoutes() Problem {
	p := Problem{Origin: Origin{Kind: FromDefault}, Key: "routes",
		Text: "has no entry: no request is passed on, and only the claims API and sagas are served"}
	if l.file != "" {
		p.Origin = Origin{Kind: FromFile, Name: l.file}
		p.Remedy = "add a route, or write routes: [] when you want none"
	}
	switch {
	case l.near != "":
		p.Remedy = fmt.Sprintf("is %[1]s your file? name it with --config=%[1]s, or call it %[2]s",
			l.near, DefaultFile)
	case l.file == "":
		p.Remedy = "there is no " + DefaultFile + " in this folder: name yours with --config, or write one " +
			"with onced config init"
	}
	return p
}

func (l *loader) remarkTimeout(r *Route, path string, h HTTP) {
	if r.Timeout <= h.DrainTimeout {
		return
	}
	l.warnings = append(l.warnings, Problem{Origin: l.originOf(path + ".timeout"),
		Key: path + ".timeout", Value: formatDuration(r.Timeout),
		Text: "is longer than http.drain_timeout, which is " + formatDuration(h.DrainTimeout) +
			": a stop of onced leaves the outcome of slower requests unknown",
		Remedy: "shorten it, or give http.drain_timeout and the supervisor more time"})
}

// certain are the statuses that can say that nothing has happened: not 408 and 5xx.
const certain = "200-407,409-499"

// remarkOutcomes warns of statuses that are taken for a proof and are none: a 503,
// or a 408, may come from a proxy in between while the charge is under way.
func (l *loader) remarkOutcomes(r *Route, path string) {
	proofs, _ := httpstep.ParseStatuses(certain) // they are some
	for _, c := range []struct {
		name, risk string
		set        httpstep.Statuses
	}{
		{"refused", "the order counts as unpaid", r.Outcomes.Refused},
		{"retry", "it is sent again, and may be charged twice", r.Outcomes.Retry},
	} {
		if doubtful := c.set.Without(proofs); !doubtful.Empty() {
			key := path + ".outcomes." + c.name
			l.warnings = append(l.warnings, Problem{Origin: l.originOf(key), Key: key,
				Text: fmt.Sprintf("has %s, which seldom means that nothing has happened: when something "+
					"has, %s", doubtful, c.risk),
				Remedy: "take it out, so that a look-up decides, unless the upstream promises that"})
		}
	}
}

// noteNotFound is about a refusal that a mistake in a path can bring about.
func (l *loader) noteNotFound(routes []Route) {
	var names []string
	first := ""
	for i := range routes {
		if r := &routes[i]; r.Key != "ignore" && r.Outcomes.Refused.Has(http.StatusNotFound) {
			if first == "" {
				first = fmt.Sprintf("routes[%d].outcomes.refused", i)
			}
			names = append(names, r.Name)
		}
	}
	if first == "" {
		return
	}
	l.notes = append(l.notes, Problem{Origin: l.originOf(first), Key: first,
		Text: "has 404 (" + strings.Join(names, ", ") + "), which is final for its key: a wrong path in a " +
			"deployment burns keys",
		Remedy: "try the path first, or write outcomes: {unknown: [404]}"})
}

// ownAddresses refuses routes that lead back to onced.
func (l *loader) ownAddresses(c *Config) {
	for i := range c.Routes {
		for _, listen := range []string{c.Listen, c.Metrics.Listen} {
			if isAt(c.Routes[i].Upstream, listen) {
				l.wrong(fmt.Sprintf("routes[%d].upstream", i), Problem{Value: c.Routes[i].Upstream.String(),
					Text:   "is onced itself, which listens at " + listen,
					Remedy: "name the service that is to be called, or let onced listen elsewhere"})
			}
		}
	}
}

// isAt reports whether a URL surely leads to what listens on an address. One that
// leads there by a name, or by another address of the machine, is not known here.
func isAt(u URL, listen string) bool {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" || u.Host == "" {
		return false
	}
	to := u.Port()
	if to == "" {
		to = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	name := strings.ToLower(u.Hostname())
	if to != port {
		return false
	}
	if strings.EqualFold(host, name) {
		return true
	}
	at, errAt := netip.ParseAddr(host)
	ip, errIP := netip.ParseAddr(name)
	here := name == "localhost" || errIP == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified())
	switch every := host == "" || errAt == nil && at.IsUnspecified(); {
	case every:
		return here
	case errAt == nil && errIP == nil:
		return at.Unmap() == ip.Unmap()
	}
	return here && IsLoopback(listen) // one of the two is called localhost
}
