package definition

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"onced/saga"
	"onced/saga/httpstep"
)

// Bounds of the time limit of a call.
const (
	minTimeout   = 100 * time.Millisecond
	maxTimeout   = 10 * time.Minute
	checkTimeout = 10 * time.Second
)

// namedText is a header, a value of a query or of a form.
type namedText struct {
	name string
	sent string // the name as it is sent: a header's as net/http spells it, else escaped
	text *textTemplate
}

// callDef is one HTTP call of a step.
type callDef struct {
	step, method string
	url          *urlTemplate
	query        []namedText
	headers      []namedText
	body         *valueTemplate
	form         []namedText
	isForm       bool
	keyHeader    string
	timeout      time.Duration
	limit        time.Duration // timeout; 0 where the step has the same
	fixed        string        // the URL, where no run has another
	endpoint     *httpstep.Endpoint
	outcomes     httpstep.Outcomes
	readings     []reading
	keyValidFor  time.Duration // 0: it knows none
	fresh        bool
	isCheck      bool
	tells        bool // the callee learns how to signal the end
}

// reading says what a reply means beyond its status.
type reading struct {
	key     string
	meaning httpstep.Meaning
	when    *expression
}

var callKeys = []string{"method", "url", "query", "headers", "body", "form", "timeout"}

// methods are those that a call may have, the first is the default.
var (
	actionMethods = []string{"POST", "PUT", "PATCH", "DELETE", "GET"}
	checkMethods  = []string{"GET", "HEAD", "POST"}
)

// ownHeaders are set by us, and by nobody else.
var ownHeaders = []string{"Traceparent", "Tracestate"}

// call reads what all calls have.
func (c *checker) call(s *section, around *env, methods []string) *callDef {
	own := *around
	env := &own
	env.used = map[string]bool{} // the secrets of this call
	d := &callDef{step: env.own, method: methods[0], outcomes: httpstep.DefaultOutcomes()}
	if d.timeout = s.duration("timeout", minTimeout, maxTimeout); d.timeout == 0 {
		d.timeout = saga.DefaultTimeout // and not the longest of the step's calls
	}
	c.method(s, d, methods)
	path := *env
	path.noSecrets = "has no place in the path of a URL, which gets into logs; put it in a header, the " +
		"query " +
		"or the body"
	if n := s.get("url"); n != nil {
		if d.url = c.url(n, s.path("url"), &path, env); d.url != nil {
			d.query = c.query(s, "query", env)
		}
	} else if s.lacks("url") {
		c.atf(s.n, s.path("url"), "is missing; a call has a url")
	}
	d.headers = c.headers(s, env)
	c.content(s, d, env)
	d.fix()
	maps.Copy(around.used, env.used)
	c.warnOfPlain(s, d, env.used)
	return d
}

func (c *checker) method(s *section, d *callDef, methods []string) {
	m, n := s.text("method")
	if n == nil {
		return
	}
	if !slices.Contains(methods, m) {
		c.atf(n, s.path("method"), "is %q; it must be one of %s%s", m, strings.Join(methods, ", "),
			didYouMean(strings.ToUpper(m), methods))
		return
	}
	d.method = m
}

// content reads the body, JSON or a form.
func (c *checker) content(s *section, d *callDef, env *env) {
	body, form := s.n.get("body"), s.get("form")
	if (body != nil || form != nil) && (d.method == "GET" || d.method == "HEAD") {
		c.atf(s.key("body"), s.field, "has a body, which %s does not take; use another method or the "+
			"query", d.method)
		return
	}
	if body != nil && form != nil {
		c.atf(s.key("form"), s.path("form"), "stands beside body; leave one of them out")
		return
	}
	if body != nil {
		d.body = c.value(body, s.path("body"), env)
	}
	if form != nil {
		d.form, d.isForm = c.query(s, "form", env), true
	}
}

// names reads an object of texts.
func (c *checker) names(s *section, key string, env *env) []namedText {
	n := s.get(key)
	if n == nil {
		return nil
	}
	if n.kind != objectNode {
		c.atf(n, s.path(key), "is %s; it must be a section of names and values", n.kind)
		return nil
	}
	var out []namedText
	for i, k := range n.keys {
		field := s.path(key) + "." + k.text
		if k.text == "" || strings.Contains(k.text, "${") {
			c.atf(k, field, "is no name; names are written down, expressions stand in values only")
		}
		if t := c.text(n.items[i], field, env); t != nil {
			out = append(out, namedText{name: k.text, text: t})
		}
	}
	return out
}

// query reads the names and values of a query or a form, in the order in which they are
// sent.
func (c *checker) query(s *section, key string, env *env) []namedText {
	out := c.names(s, key, env)
	for i := range out {
		out[i].sent = url.QueryEscape(out[i].name)
	}
	slices.SortFunc(out, func(a, b namedText) int { return strings.Compare(a.name, b.name) })
	return out
}

func (c *checker) headers(s *section, env *env) []namedText {
	out := c.names(s, "headers", env)
	seen := map[string]bool{}
	for i, h := range out {
		at, field := s.n.get("headers").keyNode(h.name), s.path("headers")+"."+h.name
		name := http.CanonicalHeaderKey(h.name)
		switch err := httpstep.CheckHeader(h.name); {
		case err != nil:
			c.atf(at, field, "%s", err.Error())
		case name == httpstep.DefaultKeyHeader:
			c.atf(at, field, "is set by onced, to the key of the step; use key_header for another name of it")
		case slices.Contains(ownHeaders, name):
			c.atf(at, field, "is set by onced; leave it out")
		case seen[name]:
			c.atf(at, field, "is there twice, in other letters")
		}
		seen[name] = true
		out[i].sent = name
		for _, p := range h.text.parts {
			if p.x == nil && !validHeaderText(p.literal) {
				c.atf(s.n.get("headers").get(h.name), field, "has a line break or another control character")
			}
		}
	}
	return out
}

// keyNode returns the node of a key.
func (n *node) keyNode(key string) *node {
	for _, k := range n.keys {
		if k.text == key {
			return k
		}
	}
	return n
}

func validHeaderText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// effect reads what calls have that cause an effect: the key and the readings.
func (c *checker) effect(s *section, d *callDef, env *env, outcomes httpstep.Outcomes) {
	c.keyHeader(s, d)
	d.outcomes = outcomes
	if n := s.get("outcomes"); n != nil {
		c.outcomes(n, s.path("outcomes"), d)
	}
	read := replyEnv(env)
	for _, r := range []reading{{"refused_if", httpstep.Refused, nil}, {"retry_if", httpstep.Retry, nil},
		{"unfinished_if", httpstep.Unfinished, nil}} {
		if r.when = s.condition(r.key, read); r.when != nil {
			d.readings = append(d.readings, r)
		}
	}
}

// meaningHeaders have a meaning of their own, which the key must not take.
var meaningHeaders = []string{"Authorization", "Proxy-Authorization", "Cookie", "Content-Type",
	"Content-Encoding", "Accept", "Accept-Encoding", "User-Agent", "Date", "Range", "If-Match",
	"If-None-Match", "Origin", "Referer", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host",
	"X-Forwarded-Proto", "X-Http-Method-Override"}

// keyHeader reads in which header the key is sent.
func (c *checker) keyHeader(s *section, d *callDef) {
	name, n := s.text("key_header")
	if n == nil {
		return
	}
	err := httpstep.CheckHeader(name)
	name = http.CanonicalHeaderKey(name)
	d.keyHeader = name
	taken := slices.ContainsFunc(d.headers, func(h namedText) bool {
		return http.CanonicalHeaderKey(h.name) == name
	})
	switch {
	case err != nil:
		c.atf(n, s.path("key_header"), "%s", err.Error())
	case slices.Contains(ownHeaders, name) || slices.Contains(meaningHeaders, name):
		c.atf(n, s.path("key_header"), "is %s, which has another meaning; name the header in which "+
			"the callee wants its idempotency key", name)
	case taken:
		c.atf(n, s.path("key_header"), "is %s, which headers sets too; leave one of them out", name)
	}
}

// replyEnv is what may stand in the reading of a reply.
func replyEnv(e *env) *env {
	r := *e
	r.reply, r.callback = true, false
	r.noSecrets = "has no place where a reply is read; secrets stand in headers, query and body of calls only"
	return &r
}

// outcomeKeys are the lists of outcomes.
var outcomeKeys = []string{"done", "refused", "retry", "unfinished", "unknown"}

func (c *checker) outcomes(n *node, field string, d *callDef) {
	s := c.section(n, field, outcomeKeys...)
	if s == nil {
		return
	}
	lists := httpstep.Lists{Done: s.statuses("done"), Refused: s.statuses("refused"),
		Retry:      s.statuses("retry"),
		Unfinished: s.statuses("unfinished"), Unknown: s.statuses("unknown")}
	out, err := d.outcomes.With(lists)
	if err != nil {
		c.atf(n, field, "%s", err.Error())
		return
	}
	d.outcomes = out
	c.warnOfOutcomes(s, lists)
}

// request renders the call. An error means that nothing can be sent.
func (d *callDef) request(s *scope, t *Target) (*httpstep.Request, error) {
	req := &httpstep.Request{Method: d.method, KeyHeader: d.keyHeader, Trust: t.Origin.trust(),
		Resend: d.isCheck, Fresh: d.fresh, Timeout: d.limit, Outcomes: &d.outcomes,
		URL: d.fixed, Endpoint: d.endpoint}
	if d.endpoint == nil {
		var err error
		if req.URL, err = d.renderURL(s); err != nil {
			return nil, err
		}
	}
	if !d.isCheck {
		// A pause as long as the callee knows the key would leave no try within it. Each
		// is at most half of what the ones before can have left.
		req.MaxPause = d.keyValidFor >> min(max(s.call.Try, 1), 30)
		req.Key = s.call.DownstreamKey
	}
	if err := d.renderHeaders(req, s); err != nil {
		return nil, err
	}
	if err := d.renderContent(req, s); err != nil {
		return nil, err
	}
	for _, h := range d.headers {
		for _, v := range req.Header[h.sent] {
			if !validHeaderText(v) {
				return nil, h.text.broken(s, fmt.Errorf("the value of the header %s has a line break or "+
					"another control character", h.name))
			}
		}
	}
	req.Secrets = s.secrets
	return req, nil
}

func (d *callDef) renderURL(s *scope) (string, error) {
	query, err := renderQuery(d.query, s)
	if err != nil {
		return "", err
	}
	return d.url.render(s, query)
}

func (d *callDef) renderHeaders(req *httpstep.Request, s *scope) error {
	if len(d.headers) == 0 {
		return nil
	}
	req.Header = make(http.Header, len(d.headers))
	values := make([]string, 0, len(d.headers)) // of all, one each
	for _, h := range d.headers {
		text, ok, err := h.text.render(s)
		if err != nil {
			return err
		}
		if ok {
			values = append(values, text)
			req.Header[h.sent] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	return nil
}

func (d *callDef) renderContent(req *httpstep.Request, s *scope) (err error) {
	switch {
	case d.isForm:
		form, err := renderQuery(d.form, s)
		if err != nil {
			return err
		}
		req.Body = []byte(form)
		if req.Header.Get("Content-Type") == "" {
			if req.Header == nil {
				req.Header = http.Header{}
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	case d.body != nil:
		if d.body.isInput() {
			req.Body = s.theInput().written()
		}
		if req.Body == nil {
			req.Body, err = d.body.render(s)
		}
	}
	return err
}

// renderQuery makes a query or a form, as url.Values does; a value that is nil on purpose
// is left out.
func renderQuery(names []namedText, s *scope) (string, error) {
	var b strings.Builder
	for _, n := range names {
		text, ok, err := n.text.render(s)
		if err != nil {
			return "", err
		}
		if !ok {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(n.sent)
		b.WriteByte('=')
		b.WriteString(url.QueryEscape(text))
	}
	return b.String(), nil
}

// fix makes the URL of a call that is the same for all runs.
func (d *callDef) fix() {
	if d.url == nil || !d.url.isFixed() || slices.ContainsFunc(d.query, func(q namedText) bool {
		return !q.text.isFixed()
	}) {
		return
	}
	text, err := d.renderURL(&scope{})
	if err != nil {
		return
	}
	if d.endpoint, err = httpstep.NewEndpoint(text); err == nil { // else each call says so
		d.fixed = text
	}
}

// awayError is what is wrong now and can be corrected: a secret. All else that an
// expression sees is the run's own, and stays as it is.
type awayError struct{ error }

// Unwrap returns the cause.
func (e *awayError) Unwrap() error { return e.error }

// broken is the error of a header that cannot be sent: that of a secret, unless another
// part of it is at fault too.
func (t *textTemplate) broken(s *scope, err error) error {
	for _, p := range t.parts {
		if p.x == nil || p.x.typ.secret {
			continue
		}
		if text, e := p.x.text(s); e != nil || !validHeaderText(text) {
			return err
		}
	}
	return &awayError{err}
}

// newScope is what the call of a step sees.
func (d *callDef) newScope(ctx context.Context, c *saga.Call, t *Target, deps *Deps) *scope {
	return &scope{ctx: ctx, call: c, input: c.Input, def: d, target: t, deps: deps}
}
