package egress

import (
	"context"
	"encoding/binary"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// nameServer answers every question for addresses with what answer says; none is
// "no such host".
type nameServer struct {
	net.PacketConn

	mu     sync.Mutex
	asked  int
	answer func(asked int) []string
}

func newNameServer(t *testing.T, answer func(asked int) []string) *nameServer {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{PacketConn: conn, answer: answer}
	var done sync.WaitGroup
	done.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(s.reply(buf[:n]), from) // or the test fails
		}
	})
	t.Cleanup(func() {
		_ = conn.Close() // ends the reading
		done.Wait()
	})
	return s
}

// reply answers a question of type A with the addresses of IPv4, and of type AAAA
// with the others.
func (s *nameServer) reply(q []byte) []byte {
	end := 12
	for q[end] != 0 {
		end += int(q[end]) + 1
	}
	kind := binary.BigEndian.Uint16(q[end+1:])
	s.mu.Lock()
	if kind == 1 {
		s.asked++
	}
	addrs := s.answer(s.asked)
	s.mu.Unlock()
	out := append([]byte{}, q[:end+5]...)
	out[2], out[3] = 0x81, 0x80 // an answer
	clear(out[4:12])
	out[5] = 1 // one question
	if len(addrs) == 0 {
		out[3] |= 3 // no such name
	}
	for _, text := range addrs {
		addr := netip.MustParseAddr(text)
		if addr.Is4() != (kind == 1) {
			continue
		}
		out[7]++
		raw := addr.AsSlice()
		out = append(out, 0xc0, 12, byte(kind>>8), byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
		out = append(out, raw...)
	}
	return out
}

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.LocalAddr().String())
	}}
}

// serveAt serves at another address of this machine, on the given port, 0 for any.
func serveAt(t *testing.T, addr string) *counting {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return newCounting(t, nil, func(s *httptest.Server) {
		_ = s.Listener.Close() // ours takes its place
		s.Listener = l
		s.Start()
	})
}

// TestRebinding: a name that is harmless when it is looked up first and points inside
// later. What counts is the address of each dial.
func TestRebinding(t *testing.T) {
	outside := serveAt(t, "127.0.0.1:0") // allowed by address, as if it were public
	_, port, _ := net.SplitHostPort(outside.Listener.Addr().String())
	inside := serveAt(t, "127.0.0.2:"+port)
	names := newNameServer(t, func(asked int) []string {
		if asked <= 1 {
			return []string{"127.0.0.1"}
		}
		return []string{"127.0.0.2"}
	})
	c := newClient(t, Config{Allow: []string{"127.0.0.1"}, Resolver: names.resolver()})
	url := "http://shop.example:" + port
	if _, _, err := c.get(request(t, "POST", url, "b"), How{Fresh: true}); err != nil {
		t.Fatal(err)
	}
	for _, how := range []How{{Fresh: true}, {}, {Resend: true}} {
		e := c.fails(t, request(t, "POST", url, "b"), how, Blocked, false)
		if !strings.Contains(e.Error(), "127.0.0.2") {
			t.Error(e)
		}
	}
	if conns, _ := inside.seen(); conns != 0 {
		t.Errorf("%d connections were made inside", conns)
	}
	if _, requests := outside.seen(); requests != 1 {
		t.Errorf("%d requests outside, want 1", requests)
	}
	// A trusted request goes wherever the name points.
	if _, _, err := c.get(request(t, "POST", url, "b"), trusted); err != nil {
		t.Error(err)
	}
	if _, requests := inside.seen(); requests != 1 {
		t.Errorf("%d requests inside, want the trusted one", requests)
	}
}

// TestSeveralAddresses: of a name with several addresses each is looked at.
func TestSeveralAddresses(t *testing.T) {
	outside := serveAt(t, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(outside.Listener.Addr().String())
	inside := serveAt(t, "127.0.0.2:"+port)
	url := "http://shop.example:" + port
	for _, c := range []struct {
		addrs string
		ok    bool
	}{
		{"127.0.0.2 127.0.0.1", true},
		{"127.0.0.2 10.0.0.1 127.0.0.1", true},
		{"127.0.0.2 169.254.169.254 10.0.0.1", false},
		{"::1 ::ffff:127.0.0.2", false},
		{"64:ff9b::7f00:2 2002:7f00:2:: fe80::1", false},
	} {
		names := newNameServer(t, func(int) []string { return strings.Fields(c.addrs) })
		client := newClient(t, Config{Allow: []string{"127.0.0.1"}, Resolver: names.resolver()})
		if !c.ok {
			e := client.fails(t, request(t, "POST", url, "b"), How{}, Blocked, false)
			if e.Kind != Blocked {
				t.Error(c.addrs)
			}
			continue
		}
		if _, _, err := client.get(request(t, "POST", url, "b"), How{}); err != nil {
			t.Errorf("%s: %v", c.addrs, err)
		}
	}
	if conns, _ := inside.seen(); conns != 0 {
		t.Errorf("%d connections were made inside", conns)
	}
}

// TestNamedHost: a name on the list may point to private addresses, and still not to
// link-local ones.
func TestNamedHost(t *testing.T) {
	s := serveAt(t, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	names := newNameServer(t, func(asked int) []string {
		if asked <= 1 {
			return []string{"127.0.0.1"}
		}
		return []string{"169.254.169.254"}
	})
	c := newClient(t, Config{Allow: []string{"shop.internal:" + port}, Resolver: names.resolver()})
	if _, _, err := c.get(request(t, "POST", "http://SHOP.internal.:"+port, "b"),
		How{Fresh: true}); err != nil {
		t.Error(err)
	}
	c.fails(t, request(t, "POST", "http://shop.internal:"+port, "b"), How{Fresh: true}, Blocked, false)
	c.fails(t, request(t, "POST", "http://other.internal:"+port, "b"), How{Fresh: true}, Blocked, false)
}

func TestNoSuchHost(t *testing.T) {
	names := newNameServer(t, func(int) []string { return nil })
	c := newClient(t, Config{Resolver: names.resolver()})
	e := c.fails(t, request(t, "POST", "http://nobody.example/", "b"), trusted, NoName, false)
	if !strings.Contains(e.Error(), "no such host") || strings.Contains(e.Error(), "127.0.0.1") {
		t.Errorf("%v", e) // which server was asked is nobody's business
	}
}
