package egress

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// allowList is what guarded requests may reach beside the public.
type allowList struct {
	hosts map[hostPort]bool
	nets  []allowedNet
}

// hostPort is a name in lower case; the port "" means every one.
type hostPort struct{ host, port string }

// allowedNet is a network; the port 0 means every one.
type allowedNet struct {
	net  netip.Prefix
	port uint16
}

var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

// AllowError is an entry of Config.Allow that cannot be used.
type AllowError struct {
	// Entry is the entry, Problem what is wrong with it and what to write.
	Entry, Problem string
}

// Error names the entry, the problem and the remedy.
func (e *AllowError) Error() string {
	return fmt.Sprintf("egress: allowed host %q %s", e.Entry, e.Problem)
}

// CheckAllow reports the first entry that cannot stand in Config.Allow, as
// *[AllowError], or nil.
func CheckAllow(entries []string) error {
	_, err := parseAllow(entries)
	return err
}

func parseAllow(entries []string) (allowList, error) {
	l := allowList{hosts: map[hostPort]bool{}}
	for _, entry := range entries {
		if problem := l.add(entry); problem != "" {
			return allowList{}, &AllowError{Entry: entry, Problem: problem}
		}
	}
	return l, nil
}

// add takes an entry in, or says what is wrong with it.
func (l *allowList) add(entry string) (problem string) {
	if strings.Contains(entry, "://") {
		return "is a URL; write its host, or host:port"
	}
	if p, err := netip.ParsePrefix(entry); err == nil {
		if p.Addr().Is4In6() {
			return "is an IPv4 network in IPv6; write it as an IPv4 network"
		}
		if p != p.Masked() {
			return fmt.Sprintf("has bits beyond its length; write %s", p.Masked())
		}
		l.nets = append(l.nets, allowedNet{p, 0})
		return ""
	}
	if strings.Contains(entry, "/") {
		return "is not a network; write for example 10.1.0.0/16"
	}
	host, port := entry, ""
	if addr, err := netip.ParseAddr(entry); err == nil {
		return l.addAddr(addr, 0)
	}
	if h, p, err := net.SplitHostPort(entry); err == nil {
		host, port = h, p
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != p {
			return "has no port after the colon; write a number from 1 to 65535"
		}
		if addr, err := netip.ParseAddr(h); err == nil {
			return l.addAddr(addr, uint16(n))
		}
	}
	host = canonicalHost(host)
	if len(host) > 253 || !hostName.MatchString(host) {
		return "is not a host, an address or a network; write a name in ASCII without wildcards, " +
			"10.1.2.3, [fd00::1]:8080 or 10.1.0.0/16"
	}
	l.hosts[hostPort{host, port}] = true
	return ""
}

func (l *allowList) addAddr(addr netip.Addr, port uint16) (problem string) {
	if addr.Zone() != "" {
		return "has a zone; write the address without it"
	}
	addr = addr.Unmap()
	l.nets = append(l.nets, allowedNet{netip.PrefixFrom(addr, addr.BitLen()), port})
	return ""
}

func canonicalHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// named reports that the host of a dial, "host:port", is on the list by its name.
func (l *allowList) named(hostport string) bool {
	if len(l.hosts) == 0 {
		return false
	}
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return false
	}
	host = canonicalHost(host)
	return l.hosts[hostPort{host, ""}] || l.hosts[hostPort{host, port}]
}

// check looks at an address that is about to be connected to. named says that the
// list has its host's name.
func (l *allowList) check(address string, named bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &BlockedError{What: "no address"}
	}
	addr := at.Addr().WithZone("").Unmap()
	for _, n := range l.nets {
		if n.net.Contains(addr) && (n.port == 0 || n.port == at.Port()) {
			return nil
		}
	}
	r, what := judge(addr)
	if r == public || r == private && named {
		return nil
	}
	return &BlockedError{Addr: addr, What: what}
}
