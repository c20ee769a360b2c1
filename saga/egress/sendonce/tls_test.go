package sendonce

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// identity is a certificate that signs itself.
type identity struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIdentity(t testing.TB) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		DNSNames:    []string{"shop.example", "xn--bcher-kva.example"},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &identity{cert, key}
}

func (i *identity) server(version uint16) *tls.Config {
	return &tls.Config{MinVersion: version, MaxVersion: version, NextProtos: []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{i.cert.Raw}, PrivateKey: i.key}}}
}

func (i *identity) client() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(i.cert)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, NextProtos: []string{"h2", "http/1.1"},
		ClientSessionCache: tls.NewLRUClientSessionCache(10)}
}

// serveTLS is serve over TLS.
func serveTLS(t testing.TB, cfg *tls.Config, f func(n int, c *tls.Conn, r *bufio.Reader)) *server {
	t.Helper()
	return serve(t, func(n int, raw net.Conn, _ *bufio.Reader) {
		c := tls.Server(raw, cfg)
		f(n, c, bufio.NewReader(c))
	})
}

// TestHosts: what is dialled, whose certificate is demanded and what the callee is told.
func TestHosts(t *testing.T) {
	id := newIdentity(t)
	for _, c := range []struct{ url, addr, name, host, err string }{
		{"https://shop.example", "shop.example:443", "shop.example", "shop.example", ""},
		{"https://SHOP.example:8443/", "SHOP.example:8443", "SHOP.example", "SHOP.example:8443", ""},
		{"https://shop.example.", "shop.example.:443", "shop.example", "shop.example.", ""},
		{"https://bücher.example", "xn--bcher-kva.example:443", "xn--bcher-kva.example",
			"xn--bcher-kva.example", ""},
		{"https://bücher.example:1", "xn--bcher-kva.example:1", "xn--bcher-kva.example",
			"xn--bcher-kva.example:1", ""},
		{"https://127.0.0.1", "127.0.0.1:443", "", "127.0.0.1", ""},
		{"https://[::1]:8443", "[::1]:8443", "", "[::1]:8443", ""},
		{"https://[::1]", "[::1]:443", "", "[::1]", ""},
		{"https://[fe80::1%25lo]:1", "[fe80::1%lo]:1", "", "", "fe80::1%lo"},
		{"https://other.example", "other.example:443", "other.example", "", "other.example"},
	} {
		name, host := make(chan string, 1), make(chan string, 1)
		cfg := id.server(tls.VersionTLS13)
		cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name <- hello.ServerName
			return nil, nil
		}
		s := serveTLS(t, cfg, func(_ int, c *tls.Conn, r *bufio.Reader) {
			req, _, err := readRequest(r)
			if err == nil {
				host <- req.Host
				own(c, req, "")
			}
		})
		addr := make(chan string, 1)
		tr := newTransport(t, Config{TLS: id.client(),
			Dial: func(ctx context.Context, network, to string) (net.Conn, error) {
				addr <- network + " " + to
				return (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr().String())
			}})
		if c.err != "" {
			if err := tr.fails(t.Context(), t, request(t, "POST", c.url, "b"), NotSent); !strings.Contains(
				err.Error(), c.err) {
				t.Errorf("%s: %v", c.url, err)
			}
		} else if _, _, err := tr.get(t.Context(), request(t, "POST", c.url, "b"), false); err != nil {
			t.Errorf("%s: %v", c.url, err)
		} else if got := wait(t, host, "the host"); got != c.host {
			t.Errorf("%s: the host is said to be %q", c.url, got)
		}
		if got := wait(t, addr, "the dial"); got != "tcp "+c.addr {
			t.Errorf("%s: dialled %q", c.url, got)
		}
		if got := wait(t, name, "the greeting"); got != c.name {
			t.Errorf("%s: the name asked for is %q", c.url, got)
		}
	}
	for url, want := range map[string]string{"http://h": "h:80", "http://h:81": "h:81",
		"http://[::1]": "[::1]:80", "http://[fe80::1%25lo]": "[fe80::1%lo]:80"} {
		tr := newTransport(t, Config{Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
			return nil, errors.New(addr)
		}})
		if err := tr.fails(t.Context(), t, request(t, "POST", url, ""), NotSent); err.Error() != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestTLS: kept connections, sessions that are resumed, HTTP/1.1 with one who can do more.
func TestTLS(t *testing.T) {
	id := newIdentity(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		resumed, protocol := make(chan bool, 10), make(chan string, 10)
		s := serveTLS(t, id.server(version), func(n int, c *tls.Conn, r *bufio.Reader) {
			for i := 0; ; i++ {
				req, body, err := readRequest(r)
				if err != nil {
					return
				}
				if i == 0 {
					resumed <- c.ConnectionState().DidResume
					protocol <- c.ConnectionState().NegotiatedProtocol
				}
				own(c, req, body)
			}
		})
		tr := newTransport(t, Config{TLS: id.client()})
		for _, fresh := range []bool{false, false, true, false} {
			for _, body := range []string{"b", strings.Repeat("b", 4*InlineBody)} {
				r := request(t, "POST", "https://"+s.Addr().String()+"/", body)
				if _, got, err := tr.get(t.Context(), r, fresh); got != "/ "+body || err != nil {
					t.Fatalf("%x: %.40q, %v", version, got, err)
				}
			}
		}
		if s.dialed() != 3 || tr.idles() != 1 {
			t.Errorf("%x: %d connections, %d idle; want 3, 1", version, s.dialed(), tr.idles())
		}
		if <-resumed || !<-resumed || !<-resumed {
			t.Errorf("%x: the first session was resumed, or another was not", version)
		}
		if p := <-protocol; p != "http/1.1" {
			t.Errorf("%x: the protocol is %q", version, p)
		}
	}
}

// TestTLSBreaks: without the farewell of TLS an answer that lasts until the end may be half
// of one.
func TestTLSBreaks(t *testing.T) {
	id := newIdentity(t)
	for _, farewell := range []bool{true, false} {
		s := serveTLS(t, id.server(tls.VersionTLS13), func(_ int, c *tls.Conn, r *bufio.Reader) {
			if _, _, err := readRequest(r); err == nil {
				sayf(c, "HTTP/1.1 200 OK\r\n\r\nabc")
				if farewell {
					_ = c.Close() // the test shows whether it came
				} else {
					_, _ = c.NetConn().Write([]byte{23, 3}) // the begin of a record
				}
			}
		})
		tr := newTransport(t, Config{TLS: id.client()})
		r := request(t, "GET", "https://"+s.Addr().String()+"/", "")
		if _, got, err := tr.get(t.Context(), r, false); got != "abc" && farewell ||
			(err == nil) != farewell {
			t.Errorf("farewell %v: %q, %v", farewell, got, err)
		}
	}
}

// TestHandshake: one that fails or does not end has sent nothing.
func TestHandshake(t *testing.T) {
	id := newIdentity(t)
	plain := serve(t, echo)
	tr := newTransport(t, Config{TLS: id.client()})
	r := request(t, "POST", "https://"+plain.Addr().String(), "b")
	_ = tr.fails(t.Context(), t, r, NotSent)
	gone := make(chan struct{})
	silent := serve(t, func(_ int, _ net.Conn, r *bufio.Reader) {
		hold(r)
		close(gone)
	})
	tr = newTransport(t, Config{TLS: id.client(), TLSTimeout: time.Millisecond})
	r = request(t, "POST", "https://"+silent.Addr().String(), "b")
	if err := tr.fails(t.Context(), t, r, NotSent); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	wait(t, gone, "the end of the connection")
}

// TestRefusedAtLength: the reason why a callee does not take a long body is told, and not
// that its writing was broken off.
func TestRefusedAtLength(t *testing.T) {
	id := newIdentity(t)
	cfg := id.server(tls.VersionTLS13)
	cfg.ClientAuth = tls.RequireAnyClientCert // of which the client learns after its handshake
	s := serveTLS(t, cfg, func(_ int, c *tls.Conn, _ *bufio.Reader) {
		_, _ = c.Read(make([]byte, 1)) // fails
		hold(c.NetConn())
	})
	tr := newTransport(t, Config{TLS: id.client()})
	r := request(t, "POST", "https://"+s.Addr().String()+"/", strings.Repeat("b", 1<<20))
	_, fate, err := tr.Send(t.Context(), r, false)
	if op := (*net.OpError)(nil); !errors.As(err, &op) || op.Op != "remote error" {
		t.Error(err)
	}
	if fate != Sent && fate != NotSent { // the refusal may come before the first byte
		t.Errorf("fate %d", fate)
	}
}

// TestAlerts: what the callee says by an alert after it has read the request is no greeting
// that failed, where the version of TLS lets that be told.
func TestAlerts(t *testing.T) {
	id := newIdentity(t)
	for _, c := range []struct {
		version uint16
		asks    tls.ClientAuthType
		want    Fate
	}{
		{tls.VersionTLS12, tls.NoClientCert, Answered},
		{tls.VersionTLS12, tls.RequestClientCert, Answered},
		{tls.VersionTLS13, tls.NoClientCert, Answered},
		{tls.VersionTLS13, tls.RequestClientCert, Sent},
	} {
		arrived := make(chan string, 1)
		s := serve(t, func(_ int, raw net.Conn, _ *bufio.Reader) {
			spoiled := &spoiled{Conn: raw}
			cfg := id.server(c.version)
			cfg.ClientAuth = c.asks
			r := bufio.NewReader(tls.Server(spoiled, cfg))
			if _, body, err := readRequest(r); err == nil {
				arrived <- body
			}
			spoiled.now = true
			_, err := r.ReadByte() // it answers by an alert that the record is not genuine
			if err == nil {
				t.Error("the record was taken")
			}
			hold(raw)
		})
		tr := newTransport(t, Config{TLS: id.client()})
		r := request(t, "POST", "https://"+s.Addr().String()+"/", "b")
		err := tr.fails(t.Context(), t, r, c.want)
		if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "remote error" {
			t.Errorf("%v", err)
		}
		if body := wait(t, arrived, "the request"); body != "b" {
			t.Errorf("%q arrived", body)
		}
	}
}

// spoiled is a connection on which a record comes that its other side has not sent.
type spoiled struct {
	net.Conn
	now bool
}

// Read implements [io.Reader].
func (s *spoiled) Read(p []byte) (int, error) {
	if !s.now {
		return s.Conn.Read(p)
	}
	return copy(p, append([]byte{23, 3, 3, 0, 40}, make([]byte, 40)...)), nil
}
