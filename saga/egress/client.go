package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"time"

	"onced/saga/egress/sendonce"
)

// Defaults of [Config].
const (
	// DefaultMaxIdlePerHost is how many idle connections one host may have: as many
	// as were busy a moment ago, or a burst would make most of them anew.
	DefaultMaxIdlePerHost = 256
	// DefaultIdleTimeout is below what servers keep idle connections for, so that
	// they seldom close one just as it is used.
	DefaultIdleTimeout = 4 * time.Second
	// DefaultDialTimeout bounds the look-up of a name and the connecting.
	DefaultDialTimeout = 10 * time.Second
	// DefaultTLSTimeout bounds a handshake.
	DefaultTLSTimeout = 10 * time.Second
	// DefaultMaxHeader bounds the header of an answer, in bytes.
	DefaultMaxHeader = 64 << 10
)

// pingAfter is how long a connection of HTTP/2 may be silent before it is asked
// whether it is there, and how long its answer may take.
const pingAfter = 10 * time.Second

// maxIdle bounds the idle connections to all hosts.
const maxIdle = 4 * DefaultMaxIdlePerHost

// Config are the settings. The zero value of every field is its default.
type Config struct {
	// Allow are hosts ("shop.internal"), addresses ("10.1.2.3", "fd00::1") and
	// networks ("10.1.0.0/16") that guarded requests may reach though they are not
	// public. A host or an address may have a port ("10.1.2.3:8080", "[fd00::1]:8080")
	// and then allows that one only. A host that is named so may resolve to private
	// and loopback addresses; link-local and metadata addresses are allowed only by
	// address or network.
	Allow []string
	// RootCAs are the authorities that sign servers' certificates; nil means the
	// system's. See [TLSFiles].
	RootCAs *x509.CertPool
	// Certificates are those that prove who we are, to servers that ask. Only trusted
	// requests show them: a guarded one goes where somebody else wants it, and must not
	// go in our name.
	Certificates []tls.Certificate
	// MaxIdlePerHost, IdleTimeout, DialTimeout, TLSTimeout and MaxHeader replace the
	// defaults of those names when they are not 0.
	MaxIdlePerHost                       int
	IdleTimeout, DialTimeout, TLSTimeout time.Duration
	MaxHeader                            int64
	// Resolver looks up names; nil means the system's way.
	Resolver *net.Resolver
}

// Trust says where a request may go.
type Trust uint8

// The levels of trust. The zero value is the one that may least.
const (
	// Guarded requests reach public addresses and those on the list Config.Allow.
	Guarded Trust = iota
	// Trusted requests reach every address. Their host is the operator's choice.
	Trusted
)

var trustNames = [...]string{"guarded", "trusted"}

// String returns the level's name.
func (t Trust) String() string {
	if int(t) < len(trustNames) {
		return trustNames[t]
	}
	return "unknown trust"
}

// How says how a request is to be sent. The zero value is the careful way: guarded,
// never sent again, over a connection that may have been used before.
type How struct {
	// Trust is Guarded or Trusted.
	Trust Trust
	// Resend allows that the request is sent again, as it is, when a reused
	// connection breaks: the callee honours its key, or it changes nothing. It is sent
	// twice at most, the second time over a connection of its own. A request with a body
	// then needs its GetBody.
	Resend bool
	// Fresh sends it over a connection that nothing was sent over before.
	Fresh bool
}

// The pools of connections of one level of trust.
const (
	once   = iota // reused connections, nothing is sent again
	resend        // reused connections of HTTP/1.1 and 2, it may be sent once more
	fresh         // a connection for each request
	pools
)

// Client sends requests. It is made by [New], is safe for concurrent use, and has
// no goroutine besides those of its connections.
type Client struct {
	allow  allowList
	dialer net.Dialer
	send   [2][pools]*http.Transport
}

// New returns a client. Its error names the entry of Config.Allow that is none.
func New(cfg Config) (*Client, error) {
	allow, err := parseAllow(cfg.Allow)
	if err != nil {
		return nil, err
	}
	c := &Client{allow: allow, dialer: net.Dialer{
		Timeout:   cmp.Or(cfg.DialTimeout, DefaultDialTimeout),
		KeepAlive: 15 * time.Second,
		Resolver:  cfg.Resolver,
	}}
	for _, trust := range []Trust{Guarded, Trusted} {
		for pool := range pools {
			c.send[trust][pool] = c.transport(cfg, trust, pool)
		}
	}
	return c, nil
}

func (c *Client) transport(cfg Config, trust Trust, pool int) *http.Transport {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(pool == resend)
	var ours []tls.Certificate
	if trust == Trusted {
		ours = cfg.Certificates
	}
	return &http.Transport{
		Proxy: sendonce.NoProxy,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return c.dial(ctx, network, addr, trust)
		},
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            cfg.RootCAs,
			Certificates:       ours,
			ClientSessionCache: tls.NewLRUClientSessionCache(DefaultMaxIdlePerHost),
		},
		Protocols:              protocols,
		DisableKeepAlives:      pool == fresh,
		DisableCompression:     true, // what is read is what was bounded
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    cmp.Or(cfg.MaxIdlePerHost, DefaultMaxIdlePerHost),
		IdleConnTimeout:        cmp.Or(cfg.IdleTimeout, DefaultIdleTimeout),
		TLSHandshakeTimeout:    cmp.Or(cfg.TLSTimeout, DefaultTLSTimeout),
		MaxResponseHeaderBytes: cmp.Or(cfg.MaxHeader, DefaultMaxHeader),
		// A connection of HTTP/2 that is dead without a word would be used for minutes.
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
	}
}

// Close closes the idle connections. Requests that are under way may end, and their
// connections are closed later, at the idle time limit at the latest.
func (c *Client) Close() {
	for _, level := range c.send {
		for _, t := range level {
			t.CloseIdleConnections()
		}
	}
}

// Send sends r and returns its answer, of whatever status, redirects and 101 too;
// informational answers before it are dropped. The caller closes the body. r itself
// is not changed. The only error is *[Error].
func (c *Client) Send(r *http.Request, how How) (*http.Response, error) {
	return c.SendWith(r.Context(), r, how)
}

// SendWith is [Client.Send] with a context in place of that of r.
func (c *Client) SendWith(ctx context.Context, r *http.Request, how How) (*http.Response, error) {
	if err := CheckURL(r.URL); err != nil {
		return nil, &Error{Kind: NotValid, Host: hostOf(r.URL), Err: err}
	}
	if how.Trust > Trusted {
		how.Trust = Guarded
	}
	pool := poolFor(r, how)
	out := &sendonce.Handover{Shared: pool == resend, Once: pool == resend}
	sent := r.WithContext(out.Watch(ctx))
	if pool != resend {
		sent.Header = sendonce.HideKeys(r.Header)
	}
	resp, err := c.send[how.Trust][pool].RoundTrip(sent)
	if err == nil {
		return resp, nil
	}
	wrote := out.Seal()
	if out.Stopped() && ctx.Err() == nil {
		return c.again(ctx, r, how.Trust)
	}
	return nil, newError(r, wrote, err)
}

// again sends r a second time, over a connection of its own: the reused one broke, and
// so may all others do that are idle, each after it has taken the request in.
func (c *Client) again(ctx context.Context, r *http.Request, trust Trust) (*http.Response, error) {
	out := &sendonce.Handover{}
	sent := r.WithContext(out.Watch(ctx))
	sent.Header = sendonce.HideKeys(r.Header)
	var err error
	if r.GetBody != nil {
		if sent.Body, err = r.GetBody(); err != nil {
			return nil, newError(r, true, err)
		}
	}
	resp, err := c.send[trust][fresh].RoundTrip(sent)
	if err != nil {
		out.Seal()
		return nil, newError(r, true, err) // the first time it was sent
	}
	return resp, nil
}

// poolFor chooses so that net/http can send nothing again that must not be.
func poolFor(r *http.Request, how How) int {
	switch {
	case how.Fresh:
		return fresh
	case how.Resend:
		return resend
	case sendonce.AlwaysRepeated(r.Method):
		return fresh
	}
	return once
}

// hostOf is the host for an error's text.
func hostOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Host
}
