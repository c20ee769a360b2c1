package egress

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// identity is a certificate with its key.
type identity struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newIdentity makes one for 127.0.0.1 after edit; signer nil signs itself.
func newIdentity(t *testing.T, signer *identity, edit func(*x509.Certificate)) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if signer == nil {
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage = x509.KeyUsageCertSign
	}
	if edit != nil {
		edit(template)
	}
	parent, parentKey := template, key
	if signer != nil {
		parent, parentKey = signer.cert, signer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &identity{cert, key}
}

func (i *identity) pair() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{i.cert.Raw}, PrivateKey: i.key, Leaf: i.cert}
}

// files writes the certificate and its key, and returns their names.
func (i *identity) files(t *testing.T) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	der, err := x509.MarshalECPrivateKey(i.key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: i.cert.Raw},
		key: {Type: "EC PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func serveTLS(t *testing.T, cfg *tls.Config) *counting {
	t.Helper()
	return newCounting(t, nil, func(s *httptest.Server) {
		s.TLS = cfg
		s.StartTLS()
	})
}

// TestBadTLS: whatever is wrong with the callee's TLS, nothing of the request is sent.
func TestBadTLS(t *testing.T) {
	ca := newIdentity(t, nil, nil)
	other := newIdentity(t, nil, nil)
	for _, c := range []struct {
		name, text string
		edit       func(*x509.Certificate)
		cfg        func(*tls.Config)
		roots      *identity
	}{
		{name: "authority", text: "unknown authority", roots: other},
		{name: "expired", text: "expired", edit: func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}},
		{name: "not yet valid", text: "not yet valid", edit: func(c *x509.Certificate) {
			c.NotBefore = time.Now().Add(time.Hour / 2)
		}},
		{name: "host", text: "127.0.0.1", edit: func(c *x509.Certificate) {
			c.IPAddresses, c.DNSNames = nil, []string{"other.example"}
		}},
		{name: "usage", text: "incompatible key usage", edit: func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}},
		{name: "version", text: "", cfg: func(c *tls.Config) {
			c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := &tls.Config{Certificates: []tls.Certificate{newIdentity(t, ca, c.edit).pair()}}
			if c.cfg != nil {
				c.cfg(cfg)
			}
			s := serveTLS(t, cfg)
			roots := ca
			if c.roots != nil {
				roots = c.roots
			}
			client := newClient(t, Config{RootCAs: poolOf(roots.cert)})
			for _, how := range []How{trusted, {Trust: Trusted, Resend: true}, {Trust: Trusted,
				Fresh: true}} {
				e := client.fails(t, request(t, "POST", s.URL, "b"), how, NoTLS, false)
				if !strings.Contains(e.Error(), c.text) {
					t.Errorf("%v, want %q", e, c.text)
				}
			}
			if _, requests := s.seen(); requests != 0 {
				t.Errorf("%d requests arrived", requests)
			}
		})
	}
}

// TestNoTLSThere: HTTPS to a server without TLS, to one that says nothing, and to one
// that closes.
func TestNoTLSThere(t *testing.T) {
	plain := newCounting(t, nil, (*httptest.Server).Start)
	client := newClient(t, Config{})
	client.fails(t, request(t, "POST", "https"+strings.TrimPrefix(plain.URL, "http"), "b"), trusted, NoTLS,
		false)
	silent := newRaw(t, func(_ int, _ net.Conn, r *bufio.Reader) { hold(r) })
	hasty := newClient(t, Config{TLSTimeout: time.Millisecond})
	hasty.fails(t, request(t, "POST", "https"+strings.TrimPrefix(silent.url(), "http"), "b"), trusted,
		TimedOut,
		false)
	closing := newRaw(t, func(_ int, _ net.Conn, r *bufio.Reader) { _, _ = r.ReadByte() })
	client.fails(t, request(t, "POST", "https"+strings.TrimPrefix(closing.url(), "http"), "b"), trusted,
		NoConnection, false)
	if _, requests := plain.seen(); requests != 0 {
		t.Error("a request arrived")
	}
	// And HTTP to a server with TLS: the bytes were written, so nothing is certain.
	s := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{newIdentity(t, nil, nil).pair()}})
	resp, _, err := client.get(request(t, "POST", "http"+strings.TrimPrefix(s.URL, "https"), "b"), trusted)
	if resp != 400 || err != nil {
		t.Errorf("%d, %v", resp, err)
	}
}

// TestClientCertificate: without the right one nothing is done, which the callee says
// only after the request is out (TLS 1.3), and with it all is well.
func TestClientCertificate(t *testing.T) {
	ca := newIdentity(t, nil, nil)
	server := newIdentity(t, ca, nil)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		s := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{server.pair()}, MaxVersion: version,
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: poolOf(ca.cert)})
		good := newClient(t, Config{RootCAs: poolOf(ca.cert),
			Certificates: []tls.Certificate{newIdentity(t, ca, nil).pair()}})
		for _, how := range []How{trusted, {Trust: Trusted, Resend: true}, {Trust: Trusted, Fresh: true}} {
			if _, _, err := good.get(request(t, "POST", s.URL, "b"), how); err != nil {
				t.Errorf("%x: %v", version, err)
			}
		}
		expired := newIdentity(t, ca, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
		foreign := newIdentity(t, newIdentity(t, nil, nil), nil)
		for name, certs := range map[string][]tls.Certificate{"none": nil, "expired": {expired.pair()},
			"foreign": {foreign.pair()}} {
			bad := newClient(t, Config{RootCAs: poolOf(ca.cert), Certificates: certs})
			for _, how := range []How{trusted, {Trust: Trusted, Resend: true}, {Trust: Trusted,
				Fresh: true}} {
				kind := OurCertificate
				if name == "none" && version == tls.VersionTLS12 {
					kind = NoTLS // the server does not say more
				}
				e := bad.fails(t, request(t, "POST", s.URL, "b"), how, kind, false)
				if !strings.Contains(e.Error(), "tls: ") {
					t.Errorf("%x, %s: %v", version, name, e)
				}
			}
		}
		if _, requests := s.seen(); requests != 3 {
			t.Errorf("%x: %d requests arrived, want 3", version, requests)
		}
	}
}

// TestGuardedRequestsDoNotShowOurCertificate: who posts a definition does not act in the
// operator's name, to a server that would let it in, and to one that only asks.
func TestGuardedRequestsDoNotShowOurCertificate(t *testing.T) {
	ca := newIdentity(t, nil, nil)
	server := newIdentity(t, ca, nil)
	for _, auth := range []tls.ClientAuthType{tls.RequireAndVerifyClientCert, tls.RequestClientCert} {
		s := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{server.pair()}, ClientAuth: auth,
			ClientCAs: poolOf(ca.cert)})
		c := newClient(t, Config{RootCAs: poolOf(ca.cert), Allow: []string{"127.0.0.1"},
			Certificates: []tls.Certificate{newIdentity(t, ca, nil).pair()}})
		ways := []How{{}, {Resend: true}, {Fresh: true}}
		for _, how := range ways {
			_, _, err := c.get(request(t, "POST", s.URL, "b"), how)
			if refused := auth == tls.RequireAndVerifyClientCert; (err != nil) != refused {
				t.Errorf("%v: %v", how, err)
			}
			how.Trust = Trusted
			if _, _, err := c.get(request(t, "POST", s.URL, "b"), how); err != nil {
				t.Errorf("%v: %v", how, err)
			}
		}
		s.mu.Lock()
		shown := 0
		for _, r := range s.requests {
			if r.TLS != nil {
				shown += len(r.TLS.PeerCertificates)
			}
		}
		s.mu.Unlock()
		if shown != len(ways) {
			t.Errorf("%v: it was shown %d times, want %d: to trusted requests only", auth, shown, len(ways))
		}
	}
}

func TestTLSFiles(t *testing.T) {
	ca := newIdentity(t, nil, nil)
	caFile, _ := ca.files(t)
	certFile, keyFile := newIdentity(t, ca, nil).files(t)
	var cfg Config
	if err := (TLSFiles{CA: caFile, Cert: certFile, Key: keyFile}).Load(&cfg); err != nil {
		t.Fatal(err)
	}
	s := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{newIdentity(t, ca, nil).pair()},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: poolOf(ca.cert)})
	if _, _, err := newClient(t, cfg).get(request(t, "POST", s.URL, "b"), trusted); err != nil {
		t.Error(err)
	}
	none := Config{}
	if err := (TLSFiles{}).Load(&none); err != nil || none.RootCAs != nil || none.Certificates != nil {
		t.Errorf("no files: %+v, %v", none, err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.Split(string(key), "\n")[1]
	for _, c := range []struct {
		f    TLSFiles
		text string
	}{
		{TLSFiles{Cert: certFile}, "key_file"},
		{TLSFiles{Key: keyFile}, "cert_file"},
		{TLSFiles{CA: "/nonexistent"}, "ca_file"},
		{TLSFiles{CA: keyFile}, "no certificate"},
		{TLSFiles{Cert: keyFile, Key: keyFile}, "cert_file"},
		{TLSFiles{Cert: caFile, Key: keyFile}, "key_file"},
	} {
		if err := c.f.Load(&cfg); err == nil || !strings.Contains(err.Error(), c.text) ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%+v: %v, want %q", c.f, err, c.text)
		}
	}
}

// TestAlertAfterSend: an alert of another kind after the request is out says nothing
// of the effect.
func TestAlertAfterSend(t *testing.T) {
	server := newIdentity(t, nil, nil)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		tc := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{server.pair()}})
		if _, err := readRequest(bufio.NewReader(tc)); err == nil {
			_ = tc.Close() // close_notify is an alert too
		}
	}()
	client := newClient(t, Config{RootCAs: poolOf(server.cert)})
	client.fails(t, request(t, "POST", "https://"+l.Addr().String(), "b"), trusted, Broken, true)
	for n, want := range map[uint8]bool{0: false, 40: false, 42: true, 46: true, 47: false, 48: true,
		80:  false,
		116: true} {
		if got := ourCertificate(alert(n)); got != want {
			t.Errorf("alert %d: %v", n, got)
		}
	}
	if ourCertificate(io.EOF) {
		t.Error("what is no alert is one")
	}
}

// alert is like the type of crypto/tls.
type alert uint8

func (a alert) Error() string { return "alert" }
