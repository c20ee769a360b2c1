package proxy

import (
	"net/http"
	"net/url"
	"strings"

	"onced/api/problem"
	"onced/saga/idemhttp"
)

// replaced are headers in which a client could speak for us.
var replaced = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
	"X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Server", "X-Real-Ip", "Request-Id"}

// target is the URL at the upstream: its own path, then the bytes of the
// request's path without the prefix that is stripped.
func (rt *route) target(in *url.URL) *url.URL {
	raw := in.EscapedPath()
	if rt.StripPrefix != "" {
		// The pattern begins with the prefix, so the path does, perhaps with
		// escapes that do not need to be there.
		raw = strip(raw, rt.StripPrefix)
	}
	out := rt.Upstream.URL
	base := strings.TrimSuffix(out.EscapedPath(), "/")
	out.RawPath = base + raw
	out.RawQuery, out.ForceQuery = in.RawQuery, in.ForceQuery
	path, err := url.PathUnescape(out.RawPath)
	if err != nil { // both halves were parsed
		path = out.RawPath
	}
	out.Path = path
	return &out
}

// strip takes as many segments off as prefix has.
func strip(raw, prefix string) string {
	rest := raw
	for range strings.Count(prefix, "/") {
		_, after, ok := strings.Cut(rest[1:], "/")
		if !ok {
			return "/"
		}
		rest = "/" + after
	}
	return rest
}

// setHeaders makes the header of a request to the upstream out of h, which has
// none of the connection's any more.
func (rt *route) setHeaders(h http.Header, in *http.Request) {
	for name := range h {
		if strings.Contains(name, "_") && rt.resembles(name) {
			delete(h, name)
		}
	}
	trusted := rt.proxy.cfg.Trusted(in)
	proto, host := in.Header.Get("X-Forwarded-Proto"), in.Header.Get("X-Forwarded-Host")
	for _, name := range replaced {
		delete(h, name)
	}
	if !trusted || proto == "" {
		proto = "http"
		if in.TLS != nil {
			proto = "https"
		}
	}
	if !trusted || host == "" {
		host = in.Host
	}
	ours := setter{h, make([]string, 0, 6+len(rt.Headers))}
	ours.set("X-Forwarded-Proto", proto)
	ours.set("X-Forwarded-Host", host)
	if ip := rt.proxy.cfg.ClientIP(in); ip.IsValid() {
		ours.set("X-Forwarded-For", ip.String())
	}
	if id := problem.RequestID(in.Context()); id != "" {
		ours.set("Request-Id", id)
	}
	if rt.Principal == token {
		h.Del("Authorization") // it is onced's
	}
	h.Del("Expect")
	if _, ok := h["User-Agent"]; !ok {
		ours.set("User-Agent", "") // net/http shall not put in its own
	}
	rt.setOwn(h)
}

// setter sets headers, whose names are canonical, out of one piece of memory.
type setter struct {
	h      http.Header
	values []string
}

func (s *setter) set(name, value string) {
	s.values = append(s.values, value)
	s.h[name] = s.values[len(s.values)-1 : len(s.values) : len(s.values)]
}

// setOwn sets the headers of the route's configuration.
func (rt *route) setOwn(h http.Header) {
	for _, own := range rt.Headers {
		h.Set(own.Name, own.Prefix+own.Value.Reveal())
	}
}

// resembles reports that servers which turn headers into variables take name for
// one that we set.
func (rt *route) resembles(name string) bool {
	dashed := strings.ReplaceAll(name, "_", "-")
	for _, ours := range []string{rt.KeyHeader, rt.UpstreamKeyHeader, "Authorization"} {
		if strings.EqualFold(dashed, ours) {
			return true
		}
	}
	for _, ours := range replaced {
		if strings.EqualFold(dashed, ours) {
			return true
		}
	}
	for _, own := range rt.Headers {
		if strings.EqualFold(dashed, strings.ReplaceAll(own.Name, "_", "-")) {
			return true
		}
	}
	return false
}

// guardedHeader is the header of a guarded request.
func (rt *route) guardedHeader(in *http.Request, key string) http.Header {
	h := idemhttp.EndToEnd(in.Header)
	h.Del(rt.KeyHeader)
	rt.setHeaders(h, in)
	name := http.CanonicalHeaderKey(rt.UpstreamKeyHeader)
	h[name] = []string{key}
	return h
}
