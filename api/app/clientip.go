package app

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"onced/api/config"
)

// clientIP tells the address of the client: that of the connection, or, when
// that is a trusted proxy's, the last one in X-Forwarded-For that is not. What
// stands before it was written by the client itself and is not believed.
func clientIP(trusted []string) func(*http.Request) netip.Addr {
	isTrusted := inNetworks(trusted)
	return func(r *http.Request) netip.Addr {
		ip := peer(r)
		if !isTrusted(ip) {
			return ip
		}
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for _, hop := range slices.Backward(hops) {
			next, err := netip.ParseAddr(strings.TrimSpace(hop))
			if err != nil {
				return ip // the last hop that is known
			}
			if ip = next.Unmap().WithZone(""); !isTrusted(ip) {
				return ip
			}
		}
		return ip
	}
}

// trustedPeer says whether a request comes straight from a trusted proxy.
func trustedPeer(trusted []string) func(*http.Request) bool {
	isTrusted := inNetworks(trusted)
	return func(r *http.Request) bool { return isTrusted(peer(r)) }
}

// peer is the address of the connection; the zero Addr when it has none.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

func inNetworks(trusted []string) func(netip.Addr) bool {
	var networks []netip.Prefix
	for _, text := range trusted {
		if n, err := config.ParseNetwork(text); err == nil { // they have been checked
			networks = append(networks, n)
		}
	}
	return func(ip netip.Addr) bool {
		return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(ip) })
	}
}
