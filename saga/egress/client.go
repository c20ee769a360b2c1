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
	DefaultMaxIdlePerHost = sendonce.DefaultMaxIdlePerHost
	// DefaultIdleTimeout is below what servers keep idle connections for, so that
	// they seldom close one just as it is used.
	DefaultIdleTimeout = sendonce.DefaultIdleTimeout
	// DefaultDialTimeout bounds the look-up of a name and the connecting.
	DefaultDialTimeout = 10 * time.Second
	// DefaultTLSTimeout bounds a handshake.
	DefaultTLSTimeout = sendonce.DefaultTLSTimeout
	// DefaultMaxHeader bounds the header of an answer, in bytes.
	DefaultMaxHeader = sendonce.DefaultMaxHeader
)

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

// Client sends requests. It is made by [New] and safe for concurrent use.
type Client struct {
	allow  allowList
	dialer net.Dialer
	send   [2]*sendonce.Transport // by Trust
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
		c.send[trust] = c.transport(cfg, trust)
	}
	return c, nil
}

func (c *Client) transport(cfg Config, trust Trust) *sendonce.Transport {
	var ours []tls.Certificate
	if trust == Trusted {
		ours = cfg.Certificates
	}
	return sendonce.New(sendonce.Config{
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return c.dial(ctx, network, addr, trust)
		},
		TLS: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            cfg.RootCAs,
			Certificates:       ours,
			ClientSessionCache: tls.NewLRUClientSessionCache(DefaultMaxIdlePerHost),
		},
		MaxIdlePerHost: cfg.MaxIdlePerHost, // 0 is the default here too, and of the next three
		MaxIdle:        maxIdle,
		IdleTimeout:    cfg.IdleTimeout,
		TLSTimeout:     cfg.TLSTimeout,
		MaxHeader:      cfg.MaxHeader,
	})
}

// Close closes the idle connections. Requests that are under way may end, and their
// connections are closed then.
func (c *Client) Close() {
	for _, t := range c.send {
		t.Close()
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
	resp, fate, err := c.send[how.Trust].Send(ctx, r, how.Fresh)
	switch {
	case err == nil:
		return resp, nil
	case fate == sendonce.Broke && how.Resend && (r.ContentLength == 0 || r.GetBody != nil):
		return c.again(ctx, r, how.Trust)
	}
	return nil, newError(r, fate, err)
}

// again sends r a second time, over a connection of its own: the one that was kept broke,
// and so may all others do, each after it has taken the request in.
func (c *Client) again(ctx context.Context, r *http.Request, trust Trust) (*http.Response, error) {
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, newError(r, sendonce.Broke, err)
		}
		r = r.WithContext(ctx)
		r.Body = body
	}
	resp, _, err := c.send[trust].Send(ctx, r, true)
	if err != nil {
		return nil, newError(r, sendonce.Broke, err) // that of the first time
	}
	return resp, nil
}

// hostOf is the host for an error's text.
func hostOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Host
}
