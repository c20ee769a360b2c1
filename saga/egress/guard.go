package egress

import (
	"fmt"
	"net/netip"
)

// reach says how far an address is open to guarded requests.
type reach uint8

const (
	public  reach = iota // anybody's
	private              // a host on the list may resolve to it
	closed               // only an address or network on the list opens it
)

// span is a network and what may reach it. The first one that holds an address
// counts.
type span struct {
	net   netip.Prefix
	reach reach
	what  string
}

// spans4 are the networks of IPv4 that are not public.
var spans4 = spansOf([]spanText{
	{"168.63.129.16/32", closed, "an address of the cloud's own services"}, // Azure
	{"100.100.100.200/32", closed, "an address of cloud metadata"},         // Alibaba
	{"169.254.0.0/16", closed, "link-local, where cloud metadata is"},
	{"10.0.0.0/8", private, "private"},
	{"172.16.0.0/12", private, "private"},
	{"192.168.0.0/16", private, "private"},
	{"127.0.0.0/8", private, "loopback"},
	{"100.64.0.0/10", private, "shared between networks of one provider"},
	{"0.0.0.0/8", closed, "unspecified"},
	{"192.0.0.0/24", closed, "reserved for protocols"}, // metadata of Oracle too
	{"192.0.2.0/24", closed, "for documentation"},
	{"192.88.99.0/24", closed, "a relay to IPv6"},
	{"198.18.0.0/15", closed, "for measurements"},
	{"198.51.100.0/24", closed, "for documentation"},
	{"203.0.113.0/24", closed, "for documentation"},
	{"224.0.0.0/4", closed, "multicast"},
	{"240.0.0.0/4", closed, "reserved"},
})

// spans6 are those of IPv6. Outside of 2000::/3 nothing is public.
var spans6 = spansOf([]spanText{
	{"::1/128", private, "loopback"},
	{"fd00:ec2::254/128", closed, "an address of cloud metadata"}, // AWS
	{"fd20:ce::254/128", closed, "an address of cloud metadata"},  // Google
	{"fc00::/7", private, "private"},
	{"fe80::/10", closed, "link-local"},
	{"fec0::/10", closed, "site-local"},
	{"ff00::/8", closed, "multicast"},
	{"::/128", closed, "unspecified"},
	{"2001::/23", closed, "reserved for protocols"}, // Teredo, benchmarks, ORCHID
	{"2001:db8::/32", closed, "for documentation"},
	{"2002::/16", closed, "a relay from IPv4 (6to4)"},
	{"3fff::/20", closed, "for documentation"},
	{"2000::/3", public, ""},
	{"::/0", closed, "not assigned to the public"},
})

// nat64 holds the addresses of IPv4 as networks that speak IPv6 alone reach them.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

type spanText struct {
	net   string
	reach reach
	what  string
}

func spansOf(texts []spanText) []span {
	out := make([]span, len(texts))
	for i, t := range texts {
		out[i] = span{netip.MustParsePrefix(t.net), t.reach, t.what}
	}
	return out
}

// judge says who may reach an address, and what it is if that is not everybody.
// The address has no zone and is no IPv4-mapped one.
func judge(addr netip.Addr) (reach, string) {
	if nat64.Contains(addr) {
		b := addr.As16()
		r, what := judge(netip.AddrFrom4([4]byte(b[12:])))
		if r == private { // who names a host there means another way to it
			r = closed
		}
		return r, what
	}
	spans := spans6
	if addr.Is4() {
		spans = spans4
	}
	for _, s := range spans {
		if s.net.Contains(addr) {
			return s.reach, s.what
		}
	}
	if addr.Is4() {
		return public, ""
	}
	return closed, "no address"
}

// BlockedError says that a guarded request would have gone to an address that is
// not public and not allowed. Nothing was sent; sending it again changes nothing
// until the address or the list changes.
type BlockedError struct {
	// Addr is the address that the host resolved to.
	Addr netip.Addr
	// What it is: "private", "loopback" and so on.
	What string
}

// Error names the address, why it is refused, and the remedy.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("%s is not a public address (%s); an operator can add it to sagas.allow_hosts",
		e.Addr, e.What)
}
