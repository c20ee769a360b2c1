package trace_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"onced/api"
	"onced/api/trace"
)

// clean takes all variables of OpenTelemetry away and sets some.
func clean(t *testing.T, vars map[string]string) {
	t.Helper()
	for name := range strings.FieldsSeq("ENDPOINT HEADERS TIMEOUT COMPRESSION PROTOCOL CERTIFICATE " +
		"CLIENT_CERTIFICATE CLIENT_KEY") {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, "")
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_"+name, "")
	}
	for _, name := range []string{"SDK_DISABLED", "TRACES_EXPORTER", "SERVICE_NAME", "RESOURCE_ATTRIBUTES",
		"TRACES_SAMPLER", "TRACES_SAMPLER_ARG"} {
		t.Setenv("OTEL_"+name, "")
	}
	for name, v := range vars {
		t.Setenv(name, v)
	}
}

// collector is a receiver of OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	got      []*tracepb.TracesData
	replies  []int // what it answers next; then 200
}

func newCollector(t *testing.T, replies ...int) *collector {
	t.Helper()
	c := &collector{replies: replies}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		raw, err := io.ReadAll(body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(raw, &data)
		}
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests, c.got = append(c.requests, r), append(c.got, &data)
		if len(c.replies) > 0 {
			w.WriteHeader(c.replies[0])
			c.replies = c.replies[1:]
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func newTracer(t *testing.T, log *slog.Logger) *trace.Tracer {
	t.Helper()
	tr, err := trace.New(trace.Config{Version: "1.2.3", Logger: log})
	if err != nil || tr == nil {
		t.Fatalf("the tracer is %v, %v", tr, err)
	}
	return tr
}

// one makes a span of a request with a span inside.
func one(tr *trace.Tracer) {
	ctx, end := tr.Request(request("POST", "/charges", incoming))
	_, inner := tr.Start(ctx, "claim begin", slog.String("operation", "charge"), slog.Int("try", 2),
		slog.Bool("found", true), slog.String(trace.LinkKey, "00-"+strings.Repeat("1", 32)+"-"+spanID+"-01"))
	inner(nil)
	end(api.Done{Method: "POST", Route: "v1-charges", Status: 503})
}

// The whole way over HTTP to a collector.
func TestExport(t *testing.T) {
	for _, compression := range []string{"gzip", "none"} {
		c := newCollector(t)
		clean(t, map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT":    c.URL + "/base",
			"OTEL_EXPORTER_OTLP_HEADERS":     "Api-Key=a%20b, tenant=shop",
			"OTEL_EXPORTER_OTLP_COMPRESSION": compression,
			"OTEL_RESOURCE_ATTRIBUTES":       "deployment.environment.name=test,service.version=9",
		})
		tr := newTracer(t, nil)
		one(tr)
		if err := tr.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(c.requests) != 1 {
			t.Fatalf("%d requests", len(c.requests))
		}
		r := c.requests[0]
		if r.Method != http.MethodPost || r.URL.Path != "/base/v1/traces" ||
			r.Header.Get("Api-Key") != "a b" ||
			r.Header.Get("Tenant") != "shop" || r.Header.Get("Content-Type") != "application/x-protobuf" ||
			(r.Header.Get("Content-Encoding") == "gzip") != (compression == "gzip") {
			t.Errorf("the request is %s %s %v", r.Method, r.URL, r.Header)
		}
		checkMessage(t, c.got[0])
	}
}

func checkMessage(t *testing.T, data *tracepb.TracesData) {
	t.Helper()
	rs := data.GetResourceSpans()[0]
	resource := fmt.Sprint(rs.GetResource())
	for _, want := range []string{`"service.name"`, `"onced"`, `"service.version"`, `"9"`,
		`"deployment.environment.name"`, `"telemetry.sdk.language"`} {
		if !strings.Contains(resource, want) {
			t.Errorf("%s is not in the resource %s", want, resource)
		}
	}
	scope := rs.GetScopeSpans()[0]
	if scope.GetScope().GetName() != "onced" || scope.GetScope().GetVersion() != "1.2.3" ||
		len(scope.GetSpans()) != 2 {
		t.Fatalf("the scope is %v with %d spans", scope.GetScope(), len(scope.GetSpans()))
	}
	in, out := scope.GetSpans()[0], scope.GetSpans()[1]
	if out.GetName() != "POST v1-charges" || out.GetKind() != tracepb.Span_SPAN_KIND_SERVER ||
		fmt.Sprintf("%x", out.GetTraceId()) != traceID ||
		fmt.Sprintf("%x", out.GetParentSpanId()) != spanID ||
		out.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR || out.GetFlags() != 0x301 {
		t.Errorf("the span is %v", out)
	}
	if in.GetKind() != tracepb.Span_SPAN_KIND_INTERNAL ||
		!bytes.Equal(in.GetParentSpanId(), out.GetSpanId()) ||
		in.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_UNSET || in.GetFlags() != 0x101 ||
		len(in.GetLinks()) != 1 || fmt.Sprintf("%x", in.GetLinks()[0].GetSpanId()) != spanID {
		t.Errorf("the span inside is %v", in)
	}
	now := uint64(time.Now().UnixNano())
	if in.GetStartTimeUnixNano() > in.GetEndTimeUnixNano() || in.GetEndTimeUnixNano() > now ||
		in.GetStartTimeUnixNano() < now-uint64(time.Hour) {
		t.Errorf("it went from %d to %d", in.GetStartTimeUnixNano(), in.GetEndTimeUnixNano())
	}
	values := map[string]string{}
	for _, a := range in.GetAttributes() {
		values[a.GetKey()] = fmt.Sprintf("%T", a.GetValue().GetValue())
	}
	types := map[string]string{"onced.operation": "String", "onced.try": "Int", "onced.found": "Bool"}
	for key, typ := range types {
		if want := "*v1.AnyValue_" + typ + "Value"; values[key] != want {
			t.Errorf("%s is a %s, want %s", key, values[key], want)
		}
	}
}

// What the collector could not take now is sent again; what it refuses is not.
func TestExportIsRepeated(t *testing.T) {
	for _, c := range []struct{ replies, requests []int }{
		{[]int{503}, []int{503, 200}},
		{[]int{429}, []int{429, 200}},
		{[]int{400}, []int{400}},
		{[]int{500}, []int{500}},
		{[]int{302}, []int{302}},
	} {
		col := newCollector(t, c.replies...)
		clean(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": col.URL + "/own"})
		var log bytes.Buffer
		tr := newTracer(t, slog.New(slog.NewTextHandler(&log, nil)))
		one(tr)
		if err := tr.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(col.requests) != len(c.requests) || col.requests[0].URL.Path != "/own" {
			t.Errorf("%v: %d requests, the first to %s", c.replies, len(col.requests), col.requests[0].URL)
		}
		lost := len(c.requests) == 1
		if strings.Contains(log.String(), "are lost") != lost {
			t.Errorf("%v: the log is %q", c.replies, log.String())
		}
	}
}

// A collector that takes connections and never answers slows nothing: spans end
// at once, the queue is bounded, and the shutdown keeps to its time.
func TestSilentCollector(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted, closed := make(chan struct{}), make(chan struct{})
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		close(accepted)
		_, _ = io.Copy(io.Discard, conn) // until the other side has closed
		conn.Close()
		close(closed)
	}()
	clean(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + l.Addr().String(),
		"OTEL_EXPORTER_OTLP_TIMEOUT": "60000"})
	tr := newTracer(t, nil)
	const spans = 20_000 // ten times what the queue holds
	start := time.Now()
	for range spans {
		_, end := tr.Start(t.Context(), "claim begin")
		end(nil)
	}
	if took := time.Since(start); took > 30*time.Second { // the collector has a minute for a batch
		t.Errorf("%d spans took %v", spans, took)
	}
	<-accepted // a batch is under way
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start = time.Now()
	if err := tr.Shutdown(ctx); err == nil {
		t.Error("the shutdown says that all was sent")
	}
	if took := time.Since(start); took > trace.FlushTime {
		t.Errorf("the shutdown took %v", took)
	}
	select {
	case <-closed: // nothing goes on behind it
	case <-time.After(25 * time.Second): // a batch alone has 30 s
		t.Error("the connection is still open")
	}
	_, end := tr.Start(t.Context(), "late")
	end(nil)
}

// Shutdown has a bound of its own.
func TestShutdownIsBounded(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // nobody accepts
	clean(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + l.Addr().String()})
	tr := newTracer(t, nil)
	one(tr)
	start := time.Now()
	if err := tr.Shutdown(context.Background()); err == nil {
		t.Error("the shutdown says that all was sent")
	}
	if took := time.Since(start); took < trace.FlushTime || took > trace.FlushTime+3*time.Second {
		t.Errorf("the shutdown took %v", took)
	}
}

// The log says why, and not where: an endpoint may hold a key.
func TestErrorsHoldNoEndpoint(t *testing.T) {
	plain := newCollector(t)
	endpoint := strings.Replace(plain.URL, "http://", "https://u:4242@", 1) + "/key4242"
	clean(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
		"OTEL_EXPORTER_OTLP_TIMEOUT": "1000"}) // so that it is not tried for long
	var log bytes.Buffer
	tr := newTracer(t, slog.New(slog.NewTextHandler(&log, nil)))
	one(tr)
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "HTTP response to HTTPS client") ||
		strings.Contains(log.String(), "4242") {
		t.Errorf("the log is %s", log.String())
	}
}

func TestSettings(t *testing.T) {
	// One variable is a=b, E_ stands for OTEL_EXPORTER_OTLP_, and | is between two.
	const on = "E_ENDPOINT=http://127.0.0.1:4318"
	for name, c := range map[string]struct {
		vars string
		on   bool
		err  string // part of it; empty means none
	}{
		"nothing set":       {"", false, ""},
		"other names":       {"E_HEADERS==", false, ""},
		"endpoint":          {on, true, ""},
		"traces endpoint":   {"E_TRACES_ENDPOINT=http://127.0.0.1:4318", true, ""},
		"disabled":          {on + "|OTEL_SDK_DISABLED=TRUE", false, ""},
		"no exporter":       {on + "|OTEL_TRACES_EXPORTER=none", false, ""},
		"other exporter":    {on + "|OTEL_TRACES_EXPORTER=zipkin", false, "OTEL_TRACES_EXPORTER"},
		"http":              {on + "|E_PROTOCOL=http/protobuf", true, ""},
		"grpc":              {on + "|E_TRACES_PROTOCOL=grpc", false, "4318"},
		"no scheme":         {"E_ENDPOINT=pass4242@127.0.0.1:4318", false, "OTLP_ENDPOINT is not a URL"},
		"bad URL":           {"E_TRACES_ENDPOINT=http://a:4242@[::1", false, "TRACES_ENDPOINT is not a URL"},
		"bad header":        {on + "|E_HEADERS=key4242", false, "OTLP_HEADERS"},
		"header splits":     {on + "|E_HEADERS=a=4242%0d%0ab", false, "OTLP_HEADERS"},
		"bad name":          {on + "|E_HEADERS=a b=4242", false, "OTLP_HEADERS"},
		"bad timeout":       {on + "|E_TIMEOUT=10s", false, "OTLP_TIMEOUT"},
		"no timeout":        {on + "|E_TIMEOUT=0", false, "OTLP_TIMEOUT"},
		"bad compression":   {on + "|E_COMPRESSION=zip", false, "OTLP_COMPRESSION"},
		"no certificate":    {on + "|E_CERTIFICATE=/dev/null", false, "no certificate"},
		"certificate alone": {on + "|E_CLIENT_CERTIFICATE=x", false, "belong together"},
	} {
		t.Run(name, func(t *testing.T) {
			vars := map[string]string{}
			for v := range strings.SplitSeq(strings.ReplaceAll(c.vars, "E_", "OTEL_EXPORTER_OTLP_"), "|") {
				if name, value, ok := strings.Cut(v, "="); ok {
					vars[name] = value
				}
			}
			clean(t, vars)
			tr, err := trace.New(trace.Config{})
			if (tr != nil) != c.on || (err == nil) != (c.err == "") {
				t.Fatalf("got %v, %v", tr, err)
			}
			if err != nil &&
				(!strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "4242")) {
				t.Errorf("the error is %v", err)
			}
			if err := tr.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
