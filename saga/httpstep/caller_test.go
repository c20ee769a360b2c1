package httpstep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"onced/saga"
	"onced/saga/egress"
)

// TestRequest is what a callee sees.
func TestRequest(t *testing.T) {
	var got *http.Request
	var body string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r, string(b)
	})
	parent := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	type spanKey struct{}
	c := newCaller(t, Config{Traceparent: func(ctx context.Context) string {
		parent, _ := ctx.Value(spanKey{}).(string)
		return parent
	}})
	ctx := context.WithValue(t.Context(), spanKey{}, parent)
	req := post(s.URL + "/a%2Fb/c?d=%2F&e")
	req.Header = http.Header{"x-own": {"1", "2"}, "Accept": {"application/json"}}
	if _, err := c.Do(ctx, req); err != nil {
		t.Fatal(err)
	}
	want := http.Header{"Idempotency-Key": {"k1"}, "Traceparent": {parent}, "User-Agent": {"onced"},
		"Content-Type": {"application/json"}, "Content-Length": {"7"}, "X-Own": {"1", "2"},
		"Accept": {"application/json"}}
	if fmt.Sprint(got.Header) != fmt.Sprint(want) || body != `{"a":1}` ||
		got.RequestURI != "/a%2Fb/c?d=%2F&e" ||
		got.Method != http.MethodPost {
		t.Errorf("%s %s %q\n%v\nwant\n%v", got.Method, got.RequestURI, body, got.Header, want)
	}
	// A look-up has no key and no body; what the step sets wins; no span, no header.
	req = &Request{Method: "GET", URL: s.URL, Trust: egress.Trusted, Resend: true,
		Header: http.Header{"User-Agent": {"me"}, "content-type": {"text/plain"}}}
	if _, err := c.Ask(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	want = http.Header{"User-Agent": {"me"}, "Content-Type": {"text/plain"}}
	if fmt.Sprint(got.Header) != fmt.Sprint(want) {
		t.Errorf("%v\nwant\n%v", got.Header, want)
	}
	req = post(s.URL)
	req.KeyHeader = "x-request-id"
	if _, err := c.Do(t.Context(), req); err != nil || got.Header.Get("X-Request-ID") != "k1" ||
		got.Header.Get("Idempotency-Key") != "" {
		t.Errorf("%v, %v", got.Header, err)
	}
}

// TestRequestIsNotChanged: not by a header that is there in two spellings, nor by the key.
func TestRequestIsNotChanged(t *testing.T) {
	var got *http.Request
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	c := newCaller(t, Config{})
	for _, resend := range []bool{true, false} {
		values := []string{"1", "2", "spare"}
		req := post(s.URL)
		req.Resend, req.Header = resend, http.Header{"x-own": values[:1], "X-Own": values[1:2],
			"Idempotency-Key": {"another"}}
		for range 3 {
			if _, err := c.Do(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			own := got.Header["X-Own"]
			slices.Sort(own)
			if key := got.Header["Idempotency-Key"]; !slices.Equal(own, []string{"1", "2"}) ||
				!slices.Equal(key, []string{"k1"}) {
				t.Errorf("%v and the keys %v", own, key)
			}
		}
		if fmt.Sprint(req.Header) != "map[Idempotency-Key:[another] X-Own:[2] x-own:[1]]" ||
			values[1] != "2" || values[2] != "spare" {
			t.Errorf("the request is now %v, its values are %v", req.Header, values)
		}
	}
}

// TestEndpoint: it is as good as its URL, is refused as that is, and stands for no other.
func TestEndpoint(t *testing.T) {
	var got string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Host + r.RequestURI })
	c := newCaller(t, Config{})
	at, err := NewEndpoint(s.URL + "/a%2Fb/c?d=%2F&e")
	if err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{"/a%2Fb/c?d=%2F&e", "/other", "/a%2Fb/c?d=%2F&e"} {
		req := post(s.URL + uri)
		req.Endpoint = at
		if _, err := c.Do(t.Context(), req); err != nil || "http://"+got != s.URL+uri {
			t.Errorf("%q was asked, %v; want %q", got, err, uri)
		}
	}
	for _, bad := range []string{"", "shop", "ftp://shop/", "http://", "http://u:p@shop/", "http://shop/#x",
		"http://shop:/", "http://shop:0/", "http://shop/%zz", "http://shop/" + strings.Repeat("x", MaxURL)} {
		_, err := NewEndpoint(bad)
		_, asked := c.Ask(t.Context(), &Request{Method: "GET", URL: bad})
		if err == nil || asked == nil || !strings.HasSuffix(asked.Error(), ": "+err.Error()) {
			t.Errorf("%.20q is an endpoint: %v; as a URL: %v", bad, err, asked)
		}
	}
}

// TestSameBytes: every try of a request sends the same bytes.
func TestSameBytes(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	seen := make(chan string, 20)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var raw strings.Builder
			r := bufio.NewReader(io.TeeReader(conn, &raw))
			if req, err := http.ReadRequest(r); err == nil {
				_, _ = io.Copy(io.Discard,
					req.Body) // it is in raw
				_, _ = io.WriteString(conn,
					"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n") // or it fails
			}
			_ = conn.Close() // the next one is fresh
			seen <- raw.String()
		}
	}()
	c := newCaller(t, Config{})
	req := post("http://" + l.Addr().String() + "/p?q=1")
	req.Header = http.Header{}
	for i := range 20 {
		req.Header.Set(fmt.Sprintf("X-%d", i), "v")
	}
	first := ""
	for range 10 {
		if _, err := c.Do(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; first == "" {
			first = got
		} else if got != first {
			t.Fatalf("%q\nwas sent first, then\n%q", first, got)
		}
	}
}

// TestNotSent are requests that are none: they did not happen, and say why.
func TestNotSent(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	c := newCaller(t, Config{})
	for _, x := range []struct {
		text string
		edit func(*Request)
	}{
		{"in capitals", func(r *Request) { r.Method = "post" }},
		{"no method", func(r *Request) { r.Method = "" }},
		{"CONNECT", func(r *Request) { r.Method = "CONNECT" }},
		{"cannot be read", func(r *Request) { r.URL = "http://h/%zz" }},
		{"cannot be read", func(r *Request) { r.URL = "http://h/\n" }},
		{"must begin with", func(r *Request) { r.URL = "file:///etc/passwd" }},
		{"user or password", func(r *Request) { r.URL = "http://u:p@h/" }},
		{"URL has", func(r *Request) { r.URL += "/" + strings.Repeat("x", MaxURL) }},
		{"body has", func(r *Request) { r.Body = make([]byte, MaxBody+1) }},
		{"header has", func(r *Request) { r.Header = http.Header{"A": {strings.Repeat("x", MaxHeader)}} }},
		{"belongs to the connection", func(r *Request) { r.Header = http.Header{"host": {"h"}} }},
		{"belongs to the connection", func(r *Request) {
			r.Header = http.Header{"Transfer-Encoding": {"chunked"}}
		}},
		{"not the name", func(r *Request) { r.Header = http.Header{"A B": {"h"}} }},
		{"no name", func(r *Request) { r.Header = http.Header{"": {"h"}} }},
		{"control character", func(r *Request) { r.Header = http.Header{"A": {"b\r\nC: d"}} }},
		{"control character", func(r *Request) { r.Key = "k\n" }},
		{"belongs to the connection", func(r *Request) { r.KeyHeader = "Upgrade" }},
		{"not the name", func(r *Request) { r.KeyHeader = "A:" }},
		{"not a public address", func(r *Request) { r.Trust = egress.Guarded }},
	} {
		req := post(s.URL)
		x.edit(req)
		reply, err := c.Do(t.Context(), req)
		if reply != nil || saga.OutcomeOf(err) != saga.OutcomeRetry || !strings.Contains(err.Error(),
			x.text) {
			t.Errorf("%v (%v), want %q", err, saga.OutcomeOf(err), x.text)
			continue
		}
		if e := callError(t, err); e.Meaning != Retry || e.Status != 0 || e.Cause == nil {
			t.Errorf("%s: %+v", x.text, e)
		}
	}
}

// TestWithoutReply: before the first byte it did not happen, after it nobody knows.
func TestWithoutReply(t *testing.T) {
	c := newCaller(t, Config{})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // nobody listens
	_, err = c.Do(t.Context(), post("http://"+l.Addr().String()))
	if saga.OutcomeOf(err) != saga.OutcomeRetry || !strings.HasSuffix(err.Error(), "nothing was sent") {
		t.Error(err)
	}
	for _, answer := range []string{"", "HTTP/1.1 200 OK\r\n", "hello\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "HTTP/1.1 400 Bad\r\nContent-Length: 5\r\n\r\nab"} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, answer) // or the test fails
			_ = conn.Close()                    // that is the point
		})
		reply, err := c.Do(t.Context(), post(s.URL))
		if err == nil || reply != nil || saga.OutcomeOf(err) != saga.OutcomeUnknown ||
			!strings.HasSuffix(err.Error(), "it may have happened") {
			t.Errorf("%q: %+v, %v", answer, reply, err)
		}
		if e := callError(t, err); e.Meaning != Unknown || e.Host == "" {
			t.Errorf("%q: %+v", answer, e)
		}
	}
}

// silent is a server that takes requests in, says so, and never answers.
func silent(t *testing.T) (url string, arrived chan struct{}) {
	t.Helper()
	arrived = make(chan struct{}, 20)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices the end
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	return s.URL, arrived
}

// TestTimeout: a call that is out when its time is over is unknown. The error says so
// itself: it is not one of the context, of which the engine would not show the text.
func TestTimeout(t *testing.T) {
	url, _ := silent(t)
	c := newCaller(t, Config{})
	for _, limit := range []func(*Request, time.Duration) context.Context{
		func(r *Request, d time.Duration) context.Context {
			r.Timeout = d
			return t.Context()
		},
		func(_ *Request, d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		},
	} {
		// On a busy machine a short time may be over before anything is sent.
		for d := 50 * time.Millisecond; ; d *= 2 {
			req := post(url)
			_, err := c.Do(limit(req, d), req)
			if !strings.Contains(err.Error(), "no answer in time") ||
				errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			if saga.OutcomeOf(err) == saga.OutcomeUnknown && callError(t, err).Meaning == Unknown {
				break
			}
			if d > 10*time.Second {
				t.Fatalf("it is out, and not unknown: %v", err)
			}
		}
	}
}

// TestCancelled: so is one that is cancelled.
func TestCancelled(t *testing.T) {
	url, arrived := silent(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := newCaller(t, Config{}).Do(ctx, post(url))
	if saga.OutcomeOf(err) != saga.OutcomeUnknown || !strings.Contains(err.Error(), "cancelled") {
		t.Error(err)
	}
}

// TestThePauseIsBounded: where the outcome is unknown, by the request too.
func TestThePauseIsBounded(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "600")
		status, _ := strconv.Atoi(r.URL.Query().Get("s"))
		w.WriteHeader(status)
	})
	c := newCaller(t, Config{})
	for status, want := range map[int]time.Duration{429: 10 * time.Minute, 503: time.Minute,
		202: time.Minute} {
		_, err := c.Do(t.Context(), &Request{Method: "POST", URL: s.URL + "/?s=" + strconv.Itoa(status),
			Trust: egress.Trusted, MaxPause: time.Minute})
		if e := callError(t, err); e.RetryAfter != want {
			t.Errorf("%d: %s, want %s", status, e.RetryAfter, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"":                                 0,
		"0":                                0,
		"1":                                time.Second,
		"120":                              2 * time.Minute,
		"3600":                             time.Hour,
		"3601":                             time.Hour,
		"99999999999999999999999999999999": time.Hour,
		"-1":                               0,
		"1.5":                              0,
		"soon":                             0,
		"1 2":                              0,
		noon.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		noon.Add(-time.Hour).Format(http.TimeFormat):       0,
		noon.Add(48 * time.Hour).Format(http.TimeFormat):   time.Hour,
		noon.Add(time.Minute).Format(time.RFC850):          time.Minute,
		noon.Add(time.Minute).Format(time.ANSIC):           time.Minute,
		noon.Add(time.Minute).Format(time.RFC3339):         0,
	} {
		for _, status := range []int{429, 409, 503, 202, 425} {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if header != "" {
					w.Header().Set("Retry-After", header)
				}
				w.WriteHeader(status)
			})
			reply, err := newCaller(t, Config{}).Do(t.Context(), post(s.URL))
			if got := callError(t, err).RetryAfter; got != want || reply.RetryAfter() != want {
				t.Errorf("%d with %q: %v, want %v", status, header, got, want)
			}
		}
	}
}

// TestAlarm: whoever can correct our credentials is told.
func TestAlarm(t *testing.T) {
	var alarms []Alarm
	var log strings.Builder
	c := newCaller(t, Config{Alarm: func(_ context.Context, a Alarm) { alarms = append(alarms, a) },
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	status := 0
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	host := strings.TrimPrefix(s.URL, "http://")
	for _, status = range []int{200, 400, 401, 403, 407, 429, 500} {
		req := post(s.URL)
		req.Header = http.Header{"Authorization": {"Bearer s3cr3t"}}
		_, _ = c.Do(t.Context(), req) // only the alarm is looked at
	}
	if want := []Alarm{{host, 401}, {host, 407}}; !slices.Equal(alarms, want) {
		t.Errorf("%v, want %v", alarms, want)
	}
	if strings.Count(log.String(), "level=ERROR") != 2 || strings.Contains(log.String(), "s3cr3t") {
		t.Errorf("the log is %s", &log)
	}
	// A step for which 401 is a refusal does not mean our credentials.
	status, alarms = 401, nil
	refused := mustStatuses(t, "401")
	o, err := DefaultOutcomes().With(Lists{Refused: &refused})
	if err != nil {
		t.Fatal(err)
	}
	req := post(s.URL)
	req.Outcomes = &o
	if _, err := c.Do(t.Context(), req); saga.OutcomeOf(err) != saga.OutcomeRefused || len(alarms) > 0 {
		t.Errorf("%v, %v", err, alarms)
	}
}

// TestReplyIsBounded: a long body does not change what the status means.
func TestReplyIsBounded(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 10_000)) // the client leaves
	})
	c := newCaller(t, Config{MaxReply: 5000})
	reply, err := c.Do(t.Context(), post(s.URL))
	if err != nil || len(reply.Body) != 5000 || !reply.Truncated {
		t.Errorf("%v, %d bytes, %v", err, len(reply.Body), reply.Truncated)
	}
	req := post(s.URL)
	req.MaxReply = 10_000
	reply, err = c.Do(t.Context(), req)
	if err != nil || len(reply.Body) != 10_000 || reply.Truncated {
		t.Errorf("%v, %d bytes, %v", err, len(reply.Body), reply.Truncated)
	}
	reply, err = c.Do(t.Context(), post(s.URL+"/bad"))
	if saga.OutcomeOf(err) != saga.OutcomeRefused || !reply.Truncated || len(err.Error()) > maxExcerpt+100 {
		t.Errorf("%d bytes of text: %v", len(err.Error()), err)
	}
}

// TestErr: what the caller reads in a reply becomes an error like ours.
func TestErr(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w,
			`{"status":"declined"}`)
	})
	reply, err := newCaller(t, Config{}).Do(t.Context(), post(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	for m, want := range map[Meaning]saga.Outcome{Done: saga.OutcomeDone, Refused: saga.OutcomeRefused,
		Retry: saga.OutcomeRetry, Unfinished: saga.OutcomeUnknown, Unknown: saga.OutcomeUnknown} {
		err := reply.Err(m, "refused_if holds")
		if saga.OutcomeOf(err) != want {
			t.Errorf("%v: %v", m, err)
		}
		if m != Done && !strings.HasSuffix(err.Error(),
			` answered 200 (refused_if holds): {"status":"declined"}`) {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// TestNotAnAnswer: 101 promises another protocol, which nobody asked for.
func TestNotAnAnswer(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn,
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn) // until it is closed
	})
	_, err := newCaller(t, Config{}).Do(t.Context(), post(s.URL))
	if err == nil || saga.OutcomeOf(err) != saga.OutcomeUnknown || callError(t, err).Status != 101 {
		t.Error(err)
	}
	// Informational answers before the true one do not matter.
	s = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		w.WriteHeader(http.StatusUnprocessableEntity)
	})
	if _, err = newCaller(t, Config{}).Do(t.Context(), post(s.URL)); callError(t, err).Status != 422 {
		t.Error(err)
	}
}
