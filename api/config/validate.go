package config

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
)

// hostOf returns the host of host:port, which may be empty.
func hostOf(addr string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return host, err == nil && strconv.FormatUint(n, 10) == port
}

func joinAddress(host, port string) string { return net.JoinHostPort(host, port) }

// IsLoopback reports whether an address is reached from this machine only.
func IsLoopback(addr string) bool {
	host, ok := hostOf(addr)
	if !ok {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// BaseURL is where a process that listens on addr is reached from this machine.
func BaseURL(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "http://" + addr
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if err == nil && ip.Is6() && !ip.Is4In6() {
			host = "::1"
		}
	}
	return "http://" + net.JoinHostPort(host, port)
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
func (l *loader) validate(c *Config) {
	l.address("listen", c.Listen, false)
	l.address("metrics.listen", c.Metrics.Listen, true)
	if addr := c.Metrics.Listen; addr != "" && addr == c.Listen && !strings.HasSuffix(addr, ":0") {
		l.wrong("metrics.listen", Problem{Value: addr, Text: "is the address of listen",
			Remedy: "choose another port, or leave it empty to share the address"})
	}
	if c.Data == "" {
		l.wrong("data", Problem{Text: "is empty", Remedy: "name a folder"})
	}
	for i, text := range c.HTTP.TrustedProxies {
		if _, err := ParseNetwork(text); err != nil {
			l.wrong("http.trusted_proxies", Problem{Value: text, Text: fmt.Sprintf("(entry %d) is no network",
				i+1),
				Allowed: "for example 10.0.0.0/8, 192.168.1.7, fd00::/8"})
		}
	}
	l.validateSagas(c)
	l.validateRoutes(c.Routes)
	l.guarded(c)
	l.ownAddresses(c)
	l.remarks(c)
}

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
	if _, ok := hostOf(addr); !ok {
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
		l := newLoader(reflect.Value{})
		l.validate(&m)
		if err := l.problems.err(); err != nil {
			return nil, restart, fmt.Errorf("without a restart for %s: %w", strings.Join(restart, ", "), err)
		}
	}
	return &m, restart, nil
}
