package httpstep

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"onced/kv"
	"onced/saga"
	"onced/saga/egress"
	"onced/saga/machine"
)

const (
	// DefaultMaxReply is how much of a reply's body is kept, in bytes: as much as can
	// be the output of a step.
	DefaultMaxReply = saga.MaxData
	// MaxRetryAfter bounds what a callee may ask for.
	MaxRetryAfter = machine.MaxRetryAfter
	// DefaultUserAgent is who we are.
	DefaultUserAgent = "onced"
)

// Config are the settings of a [Caller]. Client is required.
type Config struct {
	// Client sends the requests.
	Client *egress.Client
	// Clock is for Retry-After with a date; nil means the system's.
	Clock kv.Clock
	// Traceparent returns the span of a context in the form of the W3C, or ""; nil
	// sends none. See saga.Tracer.
	Traceparent func(context.Context) string
	// Alarm is told of every reply that says that our credentials are wrong: by TLS, or
	// by 401 or 407 where the step's outcomes have these under retry. An operator must
	// correct them. It must be quick, and is called by many goroutines; nil is silent.
	Alarm func(ctx context.Context, a Alarm)
	// Logger is told of the same; nil is silent.
	Logger *slog.Logger
	// UserAgent and MaxReply replace DefaultUserAgent and DefaultMaxReply.
	UserAgent string
	MaxReply  int
}

// Alarm says that a callee does not accept our credentials.
type Alarm struct {
	// Host is the callee, Status its reply, 0 when TLS failed.
	Host   string
	Status int
}

// Caller makes HTTP calls. It is safe for concurrent use.
type Caller struct {
	cfg      Config
	agent    []string
	outcomes Outcomes
}

// New returns a caller. It fails when there is no Client.
func New(cfg Config) (*Caller, error) {
	if cfg.Client == nil {
		return nil, errors.New("httpstep: Config.Client is missing: use egress.New")
	}
	if cfg.Clock == nil {
		cfg.Clock = kv.SystemClock()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.MaxReply = cmp.Or(cfg.MaxReply, DefaultMaxReply)
	return &Caller{cfg: cfg, agent: []string{cmp.Or(cfg.UserAgent, DefaultUserAgent)},
		outcomes: DefaultOutcomes()}, nil
}

// Do sends the request and says what became of the effect: nil when the reply means
// that it is done, else an error for the function of a step to return. It is marked
// as package saga reads it (saga.OutcomeOf), and holds a *[CallError]. The reply is
// nil only when there is none that is whole; it is there beside an error too.
func (c *Caller) Do(ctx context.Context, req *Request) (*Reply, error) {
	reply, err := c.Ask(ctx, req)
	if err != nil {
		return nil, err
	}
	return reply, reply.Err(c.outcomesOf(req).Of(reply.Status), "")
}

// Ask sends the request and returns the reply, whatever it says. Without a whole
// reply the error is as that of [Caller.Do]: marked as not done when the callee
// certainly did not get the request, else unknown.
func (c *Caller) Ask(ctx context.Context, req *Request) (*Reply, error) {
	timeout := req.Timeout
	if _, has := ctx.Deadline(); !has && timeout <= 0 {
		timeout = saga.DefaultTimeout
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	var r http.Request
	if err := c.build(ctx, req, &r); err != nil {
		return nil, c.unsent(req, err)
	}
	resp, err := c.cfg.Client.SendWith(ctx, &r,
		egress.How{Trust: req.Trust, Resend: req.Resend, Fresh: req.Fresh})
	if err != nil {
		return nil, c.failed(ctx, req, err)
	}
	if resp.StatusCode < 200 { // 101: what follows is no HTTP, and nobody asked for it
		_ = resp.Body.Close() // nothing of it is wanted
		return &Reply{Status: resp.StatusCode, Header: resp.Header, call: c, req: req, host: r.URL.Host}, nil
	}
	body, whole, err := egress.ReadBody(resp, cmp.Or(req.MaxReply, c.cfg.MaxReply))
	if err != nil {
		return nil, c.failed(ctx, req, err)
	}
	reply := &Reply{Status: resp.StatusCode, Header: resp.Header, Body: body, Truncated: !whole,
		call: c, req: req, host: r.URL.Host}
	if reply.credentials() && c.outcomesOf(req).Of(reply.Status) == Retry {
		c.alarm(ctx, Alarm{Host: reply.host, Status: reply.Status})
	}
	return reply, nil
}

func (c *Caller) outcomesOf(req *Request) *Outcomes {
	if req.Outcomes != nil {
		return req.Outcomes
	}
	return &c.outcomes
}

func (c *Caller) alarm(ctx context.Context, a Alarm) {
	c.cfg.Logger.ErrorContext(ctx, "a callee does not accept our credentials",
		"host", a.Host, "status", a.Status)
	if c.cfg.Alarm != nil {
		c.cfg.Alarm(ctx, a)
	}
}

// unsent is the error of a request that cannot be sent.
func (c *Caller) unsent(req *Request, err error) error {
	e := &CallError{Method: req.Method, Meaning: Retry, Cause: err, Unsendable: true,
		text: "the request cannot be sent: " + newMask(req).Text(err.Error(), false, masked)}
	return saga.Blocked(0, e)
}

// failed is the error of a request that has no whole reply.
func (c *Caller) failed(ctx context.Context, req *Request, err error) error {
	e := &CallError{Method: req.Method, Cause: err}
	sent, ours, text := true, false, "the request failed"
	if cause, ok := errors.AsType[*egress.Error](err); ok {
		e.Host, sent, text = cause.Host, cause.Sent, cause.Error()
		ours = cause.Kind == egress.OurCertificate || cause.Kind == egress.Blocked
		if cause.Kind == egress.OurCertificate {
			e.Credentials = true
			c.alarm(ctx, Alarm{Host: cause.Host})
		}
	}
	text = newMask(req).Text(text, false, masked)
	if !sent {
		e.Meaning = Retry
		e.text = req.Method + " " + text + "; nothing was sent"
		if ours { // somebody here can correct it
			return saga.Blocked(0, e)
		}
		return saga.NotDone(e)
	}
	e.text = req.Method + " " + text + "; it may have happened"
	return e
}

// retryAfter reads the header, in seconds or as a date, between 0 and MaxRetryAfter.
func (c *Caller) retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if text == "" {
		return 0
	}
	if seconds, ok := digits(text); ok {
		return min(time.Duration(seconds)*time.Second, MaxRetryAfter)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(c.cfg.Clock.Now()), 0), MaxRetryAfter)
}

// digits reads a number of seconds; a larger one than an hour's is an hour's.
func digits(text string) (seconds int64, ok bool) {
	for _, d := range []byte(text) {
		if d < '0' || d > '9' {
			return 0, false
		}
		seconds = min(seconds*10+int64(d-'0'), int64(MaxRetryAfter/time.Second))
	}
	return seconds, true
}
