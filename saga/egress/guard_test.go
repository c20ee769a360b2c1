package egress

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// What guarded requests must not reach, and why.
const closedAddresses = `
0.0.0.0 unspecified
0.1.2.3 unspecified
10.0.0.1 private
10.255.255.255 private
100.64.0.1 shared
100.100.100.200 metadata
100.127.255.255 shared
127.0.0.1 loopback
127.1.2.3 loopback
168.63.129.16 cloud
169.254.0.1 link-local
169.254.169.254 link-local
172.16.0.1 private
172.31.255.255 private
192.0.0.192 reserved
192.0.2.1 documentation
192.88.99.1 relay
192.168.0.1 private
198.18.0.1 measurements
198.19.255.255 measurements
198.51.100.1 documentation
203.0.113.1 documentation
224.0.0.1 multicast
239.255.255.255 multicast
240.0.0.1 reserved
255.255.255.255 reserved
::ffff:127.0.0.1 loopback
::ffff:169.254.169.254 link-local
::ffff:10.0.0.1 private
:: unspecified
::1 loopback
::2 not
::127.0.0.1 not
64:ff9b::7f00:1 loopback
64:ff9b::a9fe:a9fe link-local
64:ff9b::a00:1 private
64:ff9b::a83f:8110 cloud
64:ff9b:1::808:808 not
100::1 not
2001::1 reserved
2001:0:53aa:64c:0:7fff:f5ff:fffe reserved
2001:2::1 reserved
2001:10::1 reserved
2001:db8::1 documentation
2002:7f00:1::1 relay
2002:808:808::1 relay
3fff::1 documentation
4000::1 not
5f00::1 not
fc00::1 private
fd00:ec2::254 metadata
fd12:3456::1 private
fd20:ce::254 metadata
fe80::1 link-local
fe80::1%eth0 link-local
fec0::1 site-local
ff02::1 multicast
`

// And what they may.
const publicAddresses = `
1.1.1.1
8.8.8.8
9.255.255.255
11.0.0.0
100.63.255.255
100.128.0.0
126.255.255.255
128.0.0.1
168.63.129.17
169.253.255.255
169.255.0.0
172.15.255.255
172.32.0.0
191.255.255.255
192.0.1.0
192.167.255.255
192.169.0.0
198.17.255.255
198.20.0.0
223.255.255.255
::ffff:8.8.8.8
64:ff9b::808:808
2001:200::1
2001:4860:4860::8888
2606:4700:4700::1111
2a00:1450::1
3ffe:ffff::1
`

// TestGuardAddresses goes through every kind of address, once as a dial would ask,
// once as the host of a URL.
func TestGuardAddresses(t *testing.T) {
	c := newClient(t, Config{})
	for line := range strings.Lines(strings.TrimSpace(closedAddresses)) {
		text, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		addr := netip.MustParseAddr(text)
		var blocked *BlockedError
		if err := c.allow.check(netip.AddrPortFrom(addr, 80).String(), false); !errors.As(err, &blocked) {
			t.Errorf("%s is not refused: %v", text, err)
			continue
		}
		if !strings.Contains(blocked.What, what) {
			t.Errorf("%s: it is %q, want %q", text, blocked.What, what)
		}
		u := &url.URL{Scheme: "http", Host: netip.AddrPortFrom(addr, 80).String()}
		if err := c.Check(u, Guarded); !errors.As(err, &blocked) {
			t.Errorf("a URL with %s is not refused: %v", text, err)
		}
		if err := c.Check(u, Trusted); err != nil {
			t.Errorf("a trusted URL with %s: %v", text, err)
		}
	}
	for line := range strings.Lines(strings.TrimSpace(publicAddresses)) {
		text := strings.TrimSpace(line)
		addr := netip.MustParseAddr(text)
		if err := c.allow.check(netip.AddrPortFrom(addr, 443).String(), false); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if err := c.Check(&url.URL{Scheme: "https", Host: netip.AddrPortFrom(addr, 443).String()},
			Guarded); err != nil {
			t.Errorf("a URL with %s: %v", text, err)
		}
	}
	if err := c.allow.check("no address", false); err == nil {
		t.Error("what is no address is not refused")
	}
}

// TestGuardEveryAddress looks at each /16 of IPv4 and each /16 of IPv6: what the
// standard library calls private and so on is never public.
func TestGuardEveryAddress(t *testing.T) {
	var l allowList
	open := 0
	for hi := range 1 << 16 {
		v4 := netip.AddrFrom4([4]byte{byte(hi >> 8), byte(hi), 1, 1})
		mapped := netip.AddrFrom16(v4.As16())
		var b [16]byte
		b[0], b[1], b[15] = byte(hi>>8), byte(hi), 1
		v6 := netip.AddrFrom16(b)
		for _, addr := range []netip.Addr{v4, mapped, v6} {
			bad := addr.Unmap().IsPrivate() || addr.Unmap().IsLoopback() ||
				addr.Unmap().IsLinkLocalUnicast() ||
				addr.Unmap().IsMulticast() || addr.Unmap().IsUnspecified() || !addr.Unmap().IsGlobalUnicast()
			err := l.check(netip.AddrPortFrom(addr, 1).String(), false)
			if bad && err == nil {
				t.Fatalf("%s is let through", addr)
			}
			if err == nil {
				open++
			}
		}
	}
	if open < 100_000 {
		t.Errorf("only %d addresses are public", open)
	}
}

func TestAllow(t *testing.T) {
	for _, c := range []struct{ entry, yes, no string }{
		{"10.1.2.3", "10.1.2.3:1 10.1.2.3:443 [::ffff:10.1.2.3]:80", "10.1.2.4:1"},
		{"10.1.2.3:8080", "10.1.2.3:8080", "10.1.2.3:80 10.1.2.3:18080"},
		{"10.0.0.0/8", "10.0.0.0:1 10.255.255.255:1 [::ffff:10.9.9.9]:1",
			"11.0.0.0:1/ 127.0.0.1:1 [64:ff9b::a00:1]:1 [2002:a00:1::]:1"},
		{"fd00::/8", "[fd00::1]:1 [fd00:ec2::254]:1", "[fc00::1]:1 [fe80::1]:1"},
		{"[fd00::1]:8080", "[fd00::1]:8080", "[fd00::1]:80 [fd00::2]:8080"},
		{"fd00::1", "[fd00::1]:80 [fd00::1%eth0]:80", "[fd00::2]:80"},
		{"::ffff:127.0.0.1", "127.0.0.1:80", "127.0.0.2:80"},
		{"169.254.169.254", "169.254.169.254:80", "169.254.169.253:80"},
		{"0.0.0.0/0", "10.0.0.1:1 127.0.0.1:1 8.8.8.8:1", "[::1]:1"},
	} {
		l, err := parseAllow([]string{c.entry})
		if err != nil {
			t.Errorf("%s: %v", c.entry, err)
			continue
		}
		for addr := range strings.FieldsSeq(c.yes) {
			if err := l.check(addr, false); err != nil {
				t.Errorf("%s should allow %s: %v", c.entry, addr, err)
			}
		}
		for addr := range strings.FieldsSeq(c.no) {
			if strings.HasSuffix(addr, "/") {
				continue // public
			}
			if l.check(addr, false) == nil {
				t.Errorf("%s allows %s", c.entry, addr)
			}
		}
	}
}

// TestAllowNames is about entries that are names: they open private addresses, and
// nothing else that is not public.
func TestAllowNames(t *testing.T) {
	for _, c := range []struct{ entry, yes, no string }{
		{"shop.internal", "shop.internal:80 SHOP.internal:443 shop.internal.:1",
			"a.shop.internal:80 internal:80"},
		{"Shop.Internal.", "shop.internal:80", "shop.internalx:80"},
		{"shop:8080", "shop:8080", "shop:80 shop:18080"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example:1", "bcher.example:1"},
	} {
		l, err := parseAllow([]string{c.entry})
		if err != nil {
			t.Errorf("%s: %v", c.entry, err)
			continue
		}
		for name := range strings.FieldsSeq(c.yes) {
			if !l.named(name) {
				t.Errorf("%s does not name %s", c.entry, name)
			}
		}
		for name := range strings.FieldsSeq(c.no) {
			if l.named(name) {
				t.Errorf("%s names %s", c.entry, name)
			}
		}
	}
	var l allowList
	for _, addr := range []string{"10.0.0.1:1", "127.0.0.1:1", "[::1]:1", "[fd00::1]:1", "100.64.0.1:1",
		"8.8.8.8:1"} {
		if err := l.check(addr, true); err != nil {
			t.Errorf("a named host at %s: %v", addr, err)
		}
	}
	for _, addr := range []string{"169.254.169.254:1", "0.0.0.0:1", "[fe80::1]:1", "224.0.0.1:1",
		"[fd00:ec2::254]:1",
		"100.100.100.200:1", "168.63.129.16:1", "[64:ff9b::a00:1]:1", "[2002:a00:1::]:1", "[::]:1"} {
		if l.check(addr, true) == nil {
			t.Errorf("a named host is let through to %s", addr)
		}
	}
}

func TestAllowProblems(t *testing.T) {
	for _, c := range []struct{ entry, problem string }{
		{"", "is not a host"},
		{"http://10.0.0.1", "is a URL"},
		{"10.0.0.1/8", "write 10.0.0.0/8"},
		{"10.0.0.0/33", "is not a network"},
		{"host/path", "is not a network"},
		{"*.internal", "without wildcards"},
		{"::ffff:10.0.0.0/104", "write it as an IPv4 network"},
		{"shop:0", "no port"},
		{"shop:", "no port"},
		{"shop:http", "no port"},
		{"shop:080", "no port"},
		{"shop:65536", "no port"},
		{"fe80::1%eth0", "has a zone"},
		{"bücher.example", "in ASCII"},
		{"a b", "is not a host"},
		{"user@shop", "is not a host"},
		{"[fd00::1]", "is not a host"},
		{strings.Repeat("a.", 130) + "a", "is not a host"},
	} {
		err := CheckAllow([]string{"ok.example", c.entry})
		var wrong *AllowError
		if !errors.As(err, &wrong) || wrong.Entry != c.entry || !strings.Contains(wrong.Problem, c.problem) {
			t.Errorf("%q: %v, want %q", c.entry, err, c.problem)
		}
		if _, err := New(Config{Allow: []string{c.entry}}); err == nil {
			t.Errorf("%q: New takes it", c.entry)
		}
	}
}

func TestCheckURL(t *testing.T) {
	for _, text := range []string{"ftp://h/", "//h/", "http:///p", "http://:80/", "http:h", "http://u@h/",
		"https://u:p@h/", "http://h/#f", "http://h:/", "http://h:0/", "https://h:99999/", "http://h:65536/",
		"file:///etc/passwd", "gopher://h/"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if CheckURL(u) == nil {
			t.Errorf("%s is taken", text)
		}
	}
	for _, text := range []string{"http://h", "http://h:65535/", "http://h:1/", "https://h:8443/p?q=1",
		"http://[::1]:80/", "http://h/%23"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckURL(u); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if CheckURL(nil) == nil {
		t.Error("no URL is taken")
	}
	for _, m := range []string{"", "post", "CONNECT", "TRACE", "A B", "GET\r\n"} {
		if CheckMethod(m) == nil {
			t.Errorf("%q is taken", m)
		}
	}
	for _, m := range []string{"GET", "POST", "M-SEARCH"} {
		if err := CheckMethod(m); err != nil {
			t.Errorf("%q: %v", m, err)
		}
	}
}
