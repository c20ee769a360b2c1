package egress

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"onced/saga/egress/sendonce"
)

// TestCertificateRefusedLater: the callee takes the request in over a kept connection and
// breaks, and the second send is refused, for it has begun to ask for a certificate. The
// refusal says nothing of the first.
func TestCertificateRefusedLater(t *testing.T) {
	server := newIdentity(t, nil, nil)
	arrived := make(chan string, 10)
	s := newRaw(t, func(n int, raw net.Conn, _ *bufio.Reader) {
		cfg := &tls.Config{Certificates: []tls.Certificate{server.pair()}}
		if n > 1 {
			cfg.ClientAuth = tls.RequireAnyClientCert
		}
		conn := tls.Server(raw, cfg)
		r := bufio.NewReader(conn)
		for i := range 2 {
			req, err := readRequest(r)
			if err != nil {
				hold(bufio.NewReader(raw)) // so that the refusal arrives
				return
			}
			arrived <- req.Method
			if i == 0 {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") // as above
			}
		}
	})
	client := newClient(t, Config{RootCAs: poolOf(server.cert)})
	url := "https://" + s.Addr().String() + "/"
	how := How{Trust: Trusted, Resend: true}
	if _, _, err := client.get(request(t, "POST", url, "b"), how); err != nil {
		t.Fatal(err)
	}
	client.fails(t, request(t, "POST", url, "b"), how, OurCertificate, true)
	if len(arrived) != 2 || s.dialed() != 2 {
		t.Errorf("%d requests over %d connections; want 2 over 2", len(arrived), s.dialed())
	}
}

// TestWhenOurCertificateIsAtFault: only where nothing else was said over the connection is a
// refusal of our certificate proof that the request was not read.
func TestWhenOurCertificateIsAtFault(t *testing.T) {
	r := request(t, "POST", "https://h/", "b")
	refused := &net.OpError{Op: "remote error", Err: alert(42)}
	for fate, sent := range map[sendonce.Fate]bool{sendonce.Sent: false, sendonce.NotSent: false,
		sendonce.Broke: true, sendonce.Answered: true} {
		if e := newError(r, fate, refused); e.Kind != OurCertificate || e.Sent != sent {
			t.Errorf("fate %d: %q, sent %v", fate, e.Kind, e.Sent)
		}
	}
	resp := &http.Response{Request: r, ContentLength: -1, Body: io.NopCloser(refusing{refused})}
	_, _, err := ReadBody(resp, 100)
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Broken || !e.Sent {
		t.Errorf("in the answer: %v", err)
	}
}

// refusing is a body that is refused.
type refusing struct{ err error }

// Read implements [io.Reader].
func (r refusing) Read([]byte) (int, error) { return 0, r.err }

// TestRefusedAtLength: our certificate is known to be at fault also of a long body, whose
// writing is broken off.
func TestRefusedAtLength(t *testing.T) {
	server := newIdentity(t, nil, nil)
	s := newRaw(t, func(_ int, raw net.Conn, r *bufio.Reader) {
		conn := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{server.pair()},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()})
		_, _ = conn.Read(make([]byte, 1)) // it fails
		hold(r)
	})
	client := newClient(t, Config{RootCAs: poolOf(server.cert)})
	for range 10 {
		r := request(t, "POST", "https://"+s.Addr().String()+"/", strings.Repeat("b", 1<<20))
		client.fails(t, r, trusted, OurCertificate, false)
	}
}

// TestNotValid: what cannot be sent is called that, and its text holds nothing of it.
func TestNotValid(t *testing.T) {
	client := newClient(t, Config{})
	for name, spoil := range map[string]func(*http.Request){
		"header": func(r *http.Request) { r.Header["Secret"] = []string{"secret\r\n"} },
		"name":   func(r *http.Request) { r.Header["secret\r\n"] = []string{"a"} },
		"method": func(r *http.Request) { r.Method = "secret secret" },
		"host":   func(r *http.Request) { r.Host = "secret secret" },
		"length": func(r *http.Request) { r.ContentLength = -1 },
	} {
		r := request(t, "POST", "https://h/", "b")
		spoil(r)
		if e := client.fails(t, r, trusted, NotValid, false); strings.Contains(e.Error(), "ecret") {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// TestResendNeedsTheBody: a request whose body cannot be had again is not sent again.
func TestResendNeedsTheBody(t *testing.T) {
	s, client := newBreaking(t), newClient(t, Config{})
	how := How{Trust: Trusted, Resend: true}
	if _, _, err := client.get(request(t, "POST", s.url(), "b"), how); err != nil {
		t.Fatal(err)
	}
	r := request(t, "POST", s.url(), "b")
	r.GetBody = nil
	client.fails(t, r, how, Broken, true)
	if got := s.requests(); len(got) != 2 || s.dialed() != 1 {
		t.Errorf("%q over %d connections; want 2 requests over 1", got, s.dialed())
	}
}
