package config

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
)

// splitAddress splits host:port; the host may be empty.
func splitAddress(addr string) (host, port string, ok bool) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", "", false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return host, port, err == nil && strconv.FormatUint(n, 10) == port
}

func joinAddress(host, port string) string { return net.JoinHostPort(host, port) }

// IsLoopback reports whether an address is reached from this machine only.
func IsLoopback(addr string) bool {
	host, _, ok := splitAddress(addr)
	if !ok {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// wrong notes that the value of a key does not fit, unless the value could not
// be read in the first place.
func (l *loader) wrong(path string, p Problem) {
	if l.failed[path] {
		return
	}
	p.Key = path
	p.Origin = l.originOf(path)
	l.add(p)
}

// originOf returns where a value comes from, or else what it is a part of.
func (l *loader) originOf(path string) Origin {
	for p := path; p != ""; p = p[:max(0, strings.LastIndexByte(p, '.'))] {
		if o, ok := l.origins[p]; ok {
			return o
		}
	}
	return Origin{Kind: FromDefault}
}

// validate checks what single keys cannot say.
func (l *loader) validate() {
	c := &l.cfg
	l.address("listen", c.Listen, false)
	l.address("metrics.listen", c.Metrics.Listen, true)
	l.address("proxy.listen", c.Proxy.Listen, true)
	l.distinctAddresses()
	if c.Data == "" {
		l.wrong("data", Problem{Text: "is empty", Remedy: "name a folder"})
	}
	if c.Claims.Lease > c.Claims.MaxLease {
		l.wrong("claims.lease", Problem{Value: formatDuration(c.Claims.Lease), Text: "is longer than claims.max_lease",
			Allowed: "at most " + formatDuration(c.Claims.MaxLease)})
	}
	if t := c.Auth.AdminToken; !t.IsZero() && (len(t.Reveal()) < minAdminToken || len(t.Reveal()) > maxAdminToken) {
		l.wrong("auth.admin_token", Problem{Text: "has the wrong length",
			Allowed: fmt.Sprintf("%d to %d characters", minAdminToken, maxAdminToken),
			Remedy:  "make one with: openssl rand -hex 32"})
	}
	for i, text := range c.HTTP.TrustedProxies {
		if _, err := ParseNetwork(text); err != nil {
			l.wrong("http.trusted_proxies", Problem{Value: text, Text: fmt.Sprintf("(entry %d) is no network", i+1),
				Allowed: "for example 10.0.0.0/8, 192.168.1.7, fd00::/8"})
		}
	}
	l.validateRoutes()
}

// The length of a token that a person sets.
const minAdminToken, maxAdminToken = 32, 512

// ParseNetwork reads a network or a single address.
func ParseNetwork(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		return netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

func (l *loader) address(path, addr string, mayBeEmpty bool) {
	if addr == "" && mayBeEmpty {
		return
	}
	if _, _, ok := splitAddress(addr); !ok {
		l.wrong(path, Problem{Value: addr, Text: "is not an address", Allowed: "host:port",
			Remedy: "for example 127.0.0.1:8080, or :8080 for every address of this machine"})
		return
	}
	if IsLoopback(addr) {
		return
	}
	p := Problem{Origin: l.originOf(path), Key: path, Value: addr,
		Text:   "can be reached from other machines without encryption",
		Remedy: "put a proxy with TLS before it, or keep to 127.0.0.1"}
	if path == "metrics.listen" {
		p.Text = "shows the metrics to whoever reaches it"
		p.Remedy = "let only the scraper reach it"
	}
	l.warnings = append(l.warnings, p)
}

func (l *loader) distinctAddresses() {
	seen := map[string]string{}
	for _, a := range []struct{ path, addr string }{
		{"listen", l.cfg.Listen}, {"metrics.listen", l.cfg.Metrics.Listen}, {"proxy.listen", l.cfg.Proxy.Listen},
	} {
		if a.addr == "" || strings.HasSuffix(a.addr, ":0") {
			continue
		}
		if other, taken := seen[a.addr]; taken {
			l.wrong(a.path, Problem{Value: a.addr, Text: "is the address of " + other,
				Remedy: "choose another port, or leave it empty to share the address"})
		}
		seen[a.addr] = a.path
	}
}

// Merge returns next with what cannot change while the program runs taken from
// old, and the paths of those keys in which the two differ. The result is what
// a reload puts in place; its error says that the parts do not fit together, so
// that nothing of it may be.
func Merge(old, next *Config) (merged *Config, restart []string, err error) {
	m := *next
	was := map[string]reflect.Value{}
	eachLeaf(reflect.ValueOf(old).Elem(), "", func(path string, _ field, v reflect.Value) { was[path] = v })
	eachLeaf(reflect.ValueOf(&m).Elem(), "", func(path string, f field, v reflect.Value) {
		if f.reload || reflect.DeepEqual(v.Interface(), was[path].Interface()) {
			return
		}
		restart = append(restart, path)
		v.Set(was[path])
	})
	if len(restart) > 0 {
		l := newLoader(m)
		l.validate()
		if err := l.problems.err(); err != nil {
			return nil, restart, fmt.Errorf("without a restart for %s: %w", strings.Join(restart, ", "), err)
		}
		m = l.cfg
	}
	return &m, restart, nil
}
