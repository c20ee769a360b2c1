package app

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"onced/api/auth"
	"onced/api/jsonlog"
)

// benched is a process whose handler is asked without connections, and the token of a
// client.
type benched struct {
	b      *testing.B
	handle http.Handler
	token  string
}

const benchDefinition = `
name: good
input: {order: string, cents: int}
steps:
- {name: one, call: {url: "CALLEE/1", body: "${input}"}, nothing_to_undo: true, repeatable: 24h}
- {name: two, call: {url: "CALLEE/2", body: "${input}"}, nothing_to_undo: true, repeatable: 24h}
- {name: three, call: {url: "CALLEE/3", body: "${input}"}, nothing_to_undo: true, repeatable: 24h}
`

func startBenched(b *testing.B) *benched {
	b.Helper()
	callee := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"ch_1"}`)
	}))
	b.Cleanup(callee.Close)
	folder := b.TempDir()
	doc := strings.ReplaceAll(benchDefinition, "CALLEE", callee.URL)
	if err := os.WriteFile(filepath.Join(folder, "good.yaml"), []byte(doc), 0o600); err != nil {
		b.Fatal(err)
	}
	text := "sagas: {definitions: [" + folder + "]}\nroutes: [{path: /ok, upstream: '" + callee.URL +
		"', repeatable: true}]\n"
	o := Options{Version: "test", Load: loader(b.TempDir(), &text),
		Logger: slog.New(jsonlog.New(io.Discard, slog.LevelInfo))}
	var err error
	if o.Loaded, err = o.Load(); err != nil {
		b.Fatal(err)
	}
	a, err := New(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		<-done
	})
	_, token, err := a.parts.auth.Create(ctx, auth.Spec{Name: "shop", Role: auth.Client, Actor: "test"})
	if err != nil {
		b.Fatal(err)
	}
	return &benched{b: b, handle: a.servers[len(a.servers)-1].handler, token: token}
}

// answered takes in an answer, and has deadlines that nobody looks at.
type answered struct {
	header http.Header
	status int
	body   []byte
}

func (a *answered) Header() http.Header              { return a.header }
func (a *answered) WriteHeader(status int)           { a.status = status }
func (a *answered) SetReadDeadline(time.Time) error  { return nil }
func (a *answered) SetWriteDeadline(time.Time) error { return nil }
func (a *answered) Write(p []byte) (int, error) {
	a.body = append(a.body, p...)
	return len(p), nil
}

// ask sends one request; header are names and values.
func (s *benched) ask(method, path, body string, header ...string) *answered {
	h := make(http.Header, 8)
	h["Authorization"] = []string{"Bearer " + s.token}
	h["Content-Type"] = []string{"application/json"}
	for i := 0; i < len(header); i += 2 {
		h[header[i]] = []string{header[i+1]}
	}
	r := &http.Request{Method: method, URL: &url.URL{Path: path}, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Header: h, Host: "127.0.0.1", RemoteAddr: "127.0.0.1:4711", RequestURI: path,
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body))}
	w := &answered{header: make(http.Header, 8)}
	s.handle.ServeHTTP(w, r)
	return w
}

// measure asks the same again and again.
func (s *benched) measure(status int, ask func() *answered) {
	ask()
	s.b.ReportAllocs()
	s.b.ResetTimer()
	for range s.b.N {
		if a := ask(); a.status != status {
			s.b.Fatalf("%d %s", a.status, a.body)
		}
	}
}

// A key that is finished, through the proxy, without the connection.
func BenchmarkReplay(b *testing.B) {
	s := startBenched(b)
	s.measure(http.StatusOK, func() *answered {
		return s.ask("POST", "/ok", `{"order":"o-1234567890","cents":4999,"currency":"EUR"}`,
			"Idempotency-Key", "finished")
	})
}

// What every request costs.
func BenchmarkLivez(b *testing.B) {
	s := startBenched(b)
	s.measure(http.StatusOK, func() *answered { return s.ask("GET", "/livez", "") })
}

// A start that joins a run which has ended: reading the request, finding the run,
// showing it.
func BenchmarkJoin(b *testing.B) {
	s := startBenched(b)
	body := `{"definition":"good","key":"k","input":{"order":"o-1234567890","cents":4999}}`
	s.ask("POST", "/v1/runs", body, "Prefer", "wait=30")
	s.measure(http.StatusOK, func() *answered { return s.ask("POST", "/v1/runs", body, "Prefer", "wait=30") })
}
