package config

import (
	"fmt"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"onced/saga/httpstep"
)

// reserved are the first segments of the API's own paths, to which no route can
// lead: of now, and those that the status page and the inbox are to have.
var reserved = []string{
	"v1", "livez", "readyz", "metrics", "problems", "openapi.yaml", "assets", "hooks", "ui",
}

// hopHeaders belong to one connection, or are made by the HTTP client.
var hopHeaders = []string{
	"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection",
	"Te",
	"Trailer", "Transfer-Encoding", "Upgrade",
}

var (
	routeName  = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,99}$`)
	headerName = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~\x60-]{1,100}$`)
	methodName = regexp.MustCompile(`^[A-Z]{1,20}$`)
	// placeholder matches what is meant as one.
	placeholder = regexp.MustCompile(`\{[^{}]*\}?|\}`)
)

// maxRoutes bounds the routes of a configuration.
const maxRoutes = 1000

// Pattern returns the path of a route taken apart; of a route that [Load] gave
// out it is valid.
func (r *Route) Pattern() Pattern {
	p, _ := ParsePattern(r.Path)
	return p
}

// nameOf makes the name of a route from its path.
func nameOf(path string) string {
	words := strings.FieldsFunc(strings.ToLower(path), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
	if len(words) == 0 {
		return "root"
	}
	return strings.Join(words, "-")
}

func (l *loader) validateRoutes(routes []Route) {
	if len(routes) > maxRoutes {
		l.wrong("routes", Problem{Text: fmt.Sprintf("has %d entries", len(routes)),
			Allowed: fmt.Sprintf("at most %d", maxRoutes)})
		return
	}
	names := map[string]string{}
	for i := range routes {
		r, path := &routes[i], fmt.Sprintf("routes[%d]", i)
		l.routePath(r, path)
		if r.Name == "" {
			r.Name = nameOf(r.Path)
		}
		if !routeName.MatchString(r.Name) {
			l.wrong(path+".name", Problem{Value: r.Name, Text: "is not a name",
				Allowed: "1 to 100 lower-case letters, digits and ._-"})
		}
		if other, taken := names[r.Name]; taken {
			l.wrong(path+".name", Problem{Value: r.Name, Text: "is the name of " + other + " too",
				Remedy: "give each route a name of its own; it tells their keys apart"})
		}
		names[r.Name] = path
		l.routeRequest(r, path)
		l.routeOutcomes(r, path)
		if r.Check != nil {
			l.routeCheck(r.Check, path+".check")
		}
	}
	l.distinctPatterns(routes)
}

func (l *loader) distinctPatterns(routes []Route) {
	patterns := make([]Pattern, len(routes))
	for i := range routes {
		patterns[i] = routes[i].Pattern()
		for j := range i {
			if patterns[i].valid && patterns[j].valid && patterns[i].Compare(patterns[j]) == 0 {
				l.wrong(fmt.Sprintf("routes[%d].path", i), Problem{Value: routes[i].Path,
					Text:   fmt.Sprintf("matches the same paths as routes[%d]", j),
					Remedy: "make one route of the two"})
				break
			}
		}
	}
}

func (l *loader) routePath(r *Route, path string) {
	if r.Path == "" {
		l.wrong(path+".path", Problem{Text: "is missing", Remedy: "for example path: /charges"})
		return
	}
	p, err := ParsePattern(r.Path)
	if err != nil {
		l.wrong(path+".path", Problem{Value: r.Path, Text: err.Error(),
			Remedy: "for example /charges, /orders/{id}/pay or /payments/*"})
		return
	}
	if slices.Contains(reserved, strings.ToLower(p.first())) {
		l.wrong(path+".path", Problem{Value: r.Path, Text: "is a path of onced itself",
			Remedy: "put a segment before it and take it off again: path: /gateway" + r.Path +
				", strip_prefix: /gateway"})
	}
	if r.StripPrefix == "" {
		return
	}
	if !strings.HasPrefix(r.StripPrefix, "/") || strings.HasSuffix(r.StripPrefix, "/") ||
		r.Path != r.StripPrefix && !strings.HasPrefix(r.Path, r.StripPrefix+"/") ||
		strings.ContainsAny(r.StripPrefix, "{}*") {
		l.wrong(path+".strip_prefix", Problem{Value: r.StripPrefix, Text: "is not the beginning of path",
			Allowed: "whole literal segments that path begins with, without / at the end"})
	}
}

func (l *loader) routeRequest(r *Route, path string) {
	if r.Upstream.Host == "" {
		l.wrong(path+".upstream", Problem{Text: "is missing",
			Remedy: "for example upstream: http://127.0.0.1:9000"})
	}
	if len(r.Methods) == 0 {
		l.wrong(path+".methods", Problem{Text: "is empty", Remedy: "name at least one, for example POST"})
	}
	for _, m := range r.Methods {
		l.method(path+".methods", m, r.Key)
	}
	l.header(path+".key_header", r.KeyHeader)
	l.header(path+".upstream_key_header", r.UpstreamKeyHeader)
	if r.Principal == "" || len(r.Principal) > 100 || strings.ContainsAny(r.Principal, "/\n") {
		l.wrong(path+".principal", Problem{Value: r.Principal, Text: "is not a principal",
			Allowed: "token, or a name of at most 100 characters without /"})
	}
	for i, h := range r.Headers {
		p := fmt.Sprintf("%s.headers[%d]", path, i)
		if !l.failed[p+".value"+fileSuffix] && !l.failed[p+".value"+envSuffix] && h.Value.IsZero() {
			l.wrong(p+".value", Problem{Text: "is missing",
				Remedy: "give one of value, value_file and value_env"})
		}
		l.header(p+".name", h.Name)
		if strings.EqualFold(h.Name, r.UpstreamKeyHeader) {
			l.wrong(p+".name", Problem{Value: h.Name, Text: "is the header of the derived key",
				Remedy: "remove it; onced sets it"})
		}
	}
}

// method refuses methods that no key can guard: what has no effect by its
// definition is sent again by every client and proxy that pleases.
func (l *loader) method(path, m, key string) {
	switch {
	case !methodName.MatchString(m) || m == http.MethodConnect || m == http.MethodTrace:
		l.wrong(path, Problem{Value: m, Text: "is not a method of a route",
			Allowed: "POST, PUT, PATCH, DELETE and others in capitals, but not CONNECT and TRACE"})
	case key != "ignore" && (m == http.MethodGet || m == http.MethodHead || m == http.MethodOptions):
		l.wrong(path, Problem{Value: m,
			Text:   "cannot be guarded by a key: clients and proxies send it again as they please",
			Remedy: "take it out, it passes with others: pass; what charges by GET needs POST"})
	}
}

func (l *loader) header(path, name string) {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case name == "":
		l.wrong(path, Problem{Text: "is missing", Remedy: "name a header"})
	case !headerName.MatchString(name):
		l.wrong(path, Problem{Value: name, Text: "is not the name of a header"})
	case slices.Contains(hopHeaders, canonical):
		l.wrong(path, Problem{Value: name, Text: "belongs to the connection and cannot be set"})
	}
}

// routeOutcomes takes the statuses of unknown out of the rest; no status may
// have two meanings.
func (l *loader) routeOutcomes(r *Route, path string) {
	o := &r.Outcomes
	for _, list := range []*httpstep.Statuses{&o.Done, &o.Refused, &o.Retry} {
		*list = list.Without(o.Unknown)
	}
	o.give(path, l)
	for status := 200; status <= 599; status++ {
		var has []string
		for _, c := range []struct {
			name string
			set  httpstep.Statuses
		}{{"done", o.Done}, {"refused", o.Refused}, {"retry", o.Retry}} {
			if c.set.Has(status) {
				has = append(has, c.name)
			}
		}
		if len(has) > 1 {
			l.wrong(path+".outcomes."+has[1], Problem{Text: fmt.Sprintf("has %d, which %s has too", status,
				has[0]),
				Remedy: "a status means one thing"})
			return
		}
	}
	if o.Done.Empty() {
		l.wrong(path+".outcomes.done", Problem{Text: "is empty",
			Remedy: "no request could ever succeed; name a status"})
	}
}

// give lets a list that was written win over lists that are defaults: who names
// 409 as refused need not take it out of retry.
func (o *Outcomes) give(path string, l *loader) {
	lists := map[string]*httpstep.Statuses{"done": &o.Done, "refused": &o.Refused, "retry": &o.Retry}
	for name, written := range lists {
		if _, ok := l.origins[path+".outcomes."+name]; !ok {
			continue
		}
		for other, list := range lists {
			if _, ok := l.origins[path+".outcomes."+other]; !ok && other != name {
				*list = list.Without(*written)
			}
		}
	}
}

func (l *loader) routeCheck(c *Check, path string) {
	switch {
	case c.Path == "":
		l.wrong(path+".path", Problem{Text: "is missing",
			Remedy: "for example path: /charges/{downstream_key}"})
	case !strings.HasPrefix(c.Path, "/") || strings.ContainsAny(c.Path, "?#\\ "):
		l.wrong(path+".path", Problem{Value: c.Path, Text: "is not a path",
			Remedy: "begin with / and put parameters into query; scheme and host are the upstream's"})
	default:
		l.template(path+".path", c.Path)
	}
	for name, text := range c.Query {
		l.template(path+".query."+quoteKey(name), text)
	}
	for name, text := range c.Headers {
		l.header(path+".headers."+quoteKey(name), name)
		l.template(path+".headers."+quoteKey(name), text)
	}
	if !usesKey(c) && !l.failed[path+".path"] {
		l.wrong(path, Problem{Text: "does not say which request it looks up",
			Remedy: "put {downstream_key} or {key} into path, query or headers"})
	}
	l.recognise(c, path)
}

// template complains of placeholders that do not exist.
func (l *loader) template(path, text string) {
	for _, p := range placeholder.FindAllString(text, -1) {
		if p != "{key}" && p != "{downstream_key}" {
			l.wrong(path, Problem{Value: p, Text: "is not known", Allowed: "{key}, {downstream_key}"})
		}
	}
}

func usesKey(c *Check) bool {
	has := func(s string) bool {
		return strings.Contains(s, "{key}") ||
			strings.Contains(s, "{downstream_key}")
	}
	if has(c.Path) {
		return true
	}
	for _, texts := range []map[string]string{c.Query, c.Headers} {
		for _, text := range texts {
			if has(text) {
				return true
			}
		}
	}
	return false
}
