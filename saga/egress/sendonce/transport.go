package sendonce

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"
)

// InlineBody is the longest body, in bytes, that is written before the answer is read.
// The buffers of the sockets hold so much, so that a callee which answers without reading
// stops nobody.
const InlineBody = 16 << 10

// Defaults of [Config].
const (
	// DefaultIdleTimeout is below what servers keep idle connections for, so that they
	// seldom close one just as it is used.
	DefaultIdleTimeout = 4 * time.Second
	// DefaultTLSTimeout bounds a handshake.
	DefaultTLSTimeout = 10 * time.Second
	// DefaultMaxHeader bounds the header of an answer, in bytes.
	DefaultMaxHeader = 64 << 10
	// DefaultMaxIdlePerHost is how many idle connections one host may have: as many as were
	// busy a moment ago, or a burst would make most of them anew.
	DefaultMaxIdlePerHost = 256
)

// Config are the settings. Dial is required.
type Config struct {
	// Dial connects to "host:port", as [net.Dialer].DialContext does.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is for https; nil is its zero value. The name of the server is set here.
	TLS *tls.Config
	// MaxIdlePerHost, IdleTimeout, TLSTimeout and MaxHeader replace the defaults of those
	// names when they are not 0. MaxIdle bounds the idle connections to all hosts; 0 means
	// four times as many as to one.
	MaxIdle, MaxIdlePerHost int
	IdleTimeout, TLSTimeout time.Duration
	MaxHeader               int64
}

// Fate is what is known of a request that has no answer.
type Fate uint8

// The fates. The zero value is the one that claims least.
const (
	// Sent: it may have reached the callee.
	Sent Fate = iota
	// Broke is Sent, over a connection that was kept from before and then failed without a
	// byte of an answer. A callee that closes idle connections does that, and so does one
	// that dies at work.
	Broke
	// Answered: an answer began, which broke off or is none, or the callee broke off by an
	// alert of TLS that was about nothing of its greeting: with TLS 1.2, or with TLS 1.3
	// when it had not asked for a certificate. The callee has the request, or speaks without
	// being asked.
	Answered
	// NotSent: nothing of it was handed to a connection, and nothing will be.
	NotSent
)

// Transport sends requests. It is made by [New] and safe for concurrent use.
type Transport struct {
	cfg Config

	mu     sync.Mutex
	idle   map[origin][]*conn // the last one was used last
	count  int
	sweep  *time.Timer // is set while there are idle connections
	swept  uint64
	closed bool
}

// origin is what a connection leads to.
type origin struct {
	tls  bool
	host string // as the URL has it
}

// New returns a transport.
func New(cfg Config) *Transport {
	if cfg.TLS == nil {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	cfg.MaxIdlePerHost = cmp.Or(cfg.MaxIdlePerHost, DefaultMaxIdlePerHost)
	cfg.MaxIdle = cmp.Or(cfg.MaxIdle, 4*cfg.MaxIdlePerHost)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, DefaultIdleTimeout)
	cfg.TLSTimeout = cmp.Or(cfg.TLSTimeout, DefaultTLSTimeout)
	cfg.MaxHeader = cmp.Or(cfg.MaxHeader, DefaultMaxHeader)
	return &Transport{cfg: cfg, idle: map[origin][]*conn{}}
}

// ErrRequest is in the error of a request that cannot be sent as it is. Such an error holds
// nothing of the request.
var ErrRequest = errors.New("sendonce: the request cannot be sent")

// Send sends r with ctx in place of its own, and returns its answer, of whatever status,
// redirects and 101 too. fresh demands a connection that nothing was sent over before,
// and closes it after the answer. r is not changed; its body is closed. With an error
// the fate says what is known of the request, else it means nothing. When ctx has ended
// the error is that of ctx. Its answer's body may be closed while another goroutine reads
// from it.
func (t *Transport) Send(ctx context.Context, r *http.Request, fresh bool) (*http.Response, Fate, error) {
	at, err := check(r)
	if err != nil {
		closeBody(r)
		return nil, NotSent, err
	}
	if fresh && !r.Close {
		closing := *r
		closing.Close = true
		r = &closing
	}
	for {
		c, err := t.connect(ctx, at, r.Close)
		if err != nil {
			closeBody(r)
			return nil, NotSent, err
		}
		reused := c.used
		resp, fate, err := c.exchange(ctx, r)
		if err == nil || fate != NotSent || !reused || c.failed == nil || ctx.Err() != nil {
			return resp, fate, err
		}
		// The connection took nothing: it was dead. Another one gets the body from its beginning.
		if r, err = rewound(r); err != nil {
			return nil, NotSent, err
		}
	}
}

// connect returns an idle connection that is alive, unless fresh, or a new one.
func (t *Transport) connect(ctx context.Context, at origin, fresh bool) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !fresh {
		if c := t.take(at); c != nil {
			return c, nil
		}
	}
	return t.dial(ctx, at)
}

// rewound returns r with its body as it was at first.
func rewound(r *http.Request) (*http.Request, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	if r.GetBody == nil {
		return nil, errors.New("sendonce: the connection was dead, and the body cannot be had again")
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, fmt.Errorf("sendonce: the body cannot be had again: %w", err)
	}
	again := *r
	again.Body = body
	return &again, nil
}

// check says where a request goes, or what makes it one that cannot be sent. It lets
// nothing pass that net/http would write otherwise than it is given, but for the headers
// that are net/http's own: Host, Content-Length, Transfer-Encoding and Trailer.
func check(r *http.Request) (origin, error) {
	problem := ""
	switch {
	case r.URL == nil || r.URL.Hostname() == "" || r.URL.Opaque != "":
		problem = "it has no host"
	case r.URL.Scheme != "http" && r.URL.Scheme != "https":
		problem = "it is neither for http nor for https"
	case !validHost(cmp.Or(r.Host, r.URL.Host)):
		problem = "its host is none"
	case !httpguts.ValidHeaderFieldName(r.Method) || r.Method == http.MethodConnect:
		problem = "its method is none that can be sent"
	case r.Body != nil && r.Body != http.NoBody && r.ContentLength <= 0 || len(r.TransferEncoding) > 0:
		problem = "its body has no length"
	case len(r.Trailer) > 0: // they would be announced, unchecked, and not follow
		problem = "it has trailers"
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			problem = "the name of a header is none"
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				problem = "the value of a header has a control character"
			}
		}
	}
	if problem != "" {
		return origin{}, fmt.Errorf("%w: %s", ErrRequest, problem)
	}
	return origin{r.URL.Scheme == "https", r.URL.Host}, nil
}

// validHost reports a host that net/http does not leave out.
func validHost(host string) bool {
	ascii, err := httpguts.PunycodeHostPort(host)
	return err == nil && httpguts.ValidHostHeader(ascii)
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // nothing was read from it
	}
}

// dial opens a connection. The error is that of ctx when it has ended.
func (t *Transport) dial(ctx context.Context, at origin) (*conn, error) {
	host, addr, err := address(at)
	if err != nil {
		return nil, err
	}
	raw, err := t.cfg.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, endOf(ctx, err)
	}
	wire := newWire(raw)
	c := &conn{transport: t, at: at, wire: wire, Conn: wire}
	if at.tls {
		c.Conn, err = t.handshake(ctx, c, host)
	}
	if err == nil {
		err = ctx.Err() // it may have ended just before the request
	}
	if err != nil {
		c.close() // the error says more
		return nil, endOf(ctx, err)
	}
	c.in = bufio.NewReader((*reader)(c))
	return c, nil
}

func (t *Transport) handshake(ctx context.Context, c *conn, host string) (net.Conn, error) {
	cfg := t.cfg.TLS.Clone()
	cfg.ServerName = cmp.Or(cfg.ServerName, host)
	cfg.NextProtos = []string{"http/1.1"}
	choose := cfg.GetClientCertificate
	if choose == nil {
		choose = certificateOf(cfg.Certificates)
	}
	cfg.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c.asked = true
		return choose(info)
	}
	ctx, cancel := context.WithTimeout(ctx, t.cfg.TLSTimeout)
	defer cancel()
	conn := tls.Client(c.wire, cfg)
	return conn, conn.HandshakeContext(ctx)
}

// certificateOf chooses as crypto/tls does: the first that the callee may take, or none.
func certificateOf(
	all []tls.Certificate,
) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		for i := range all {
			if info.SupportsCertificate(&all[i]) == nil {
				return &all[i], nil
			}
		}
		return &tls.Certificate{}, nil
	}
}

// address is what to dial: names in the form that the DNS has them in.
func address(at origin) (host, addr string, err error) {
	u := url.URL{Host: at.host}
	host = u.Hostname()
	for i := range len(host) {
		if host[i] < 0x80 {
			continue
		}
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return "", "", fmt.Errorf("%w: its host is none", ErrRequest)
		}
		break
	}
	port := cmp.Or(u.Port(), "80")
	if u.Port() == "" && at.tls {
		port = "443"
	}
	return host, net.JoinHostPort(host, port), nil
}

// endOf is the error of something that ctx may have ended.
func endOf(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil {
		return end
	}
	return err
}
