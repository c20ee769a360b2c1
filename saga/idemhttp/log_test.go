package idemhttp

import (
	"bytes"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"onced/saga"
)

// An unknown outcome is warned of once, by the request that caused it, and not by
// each one that asks for it.
func TestUnknownIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	cfg := Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	h := guard(t, newBook(t), cfg, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
	})
	for i := range 4 {
		resp := serve(h, post("k", "{}"))
		if first := resp.StatusCode == http.StatusBadGateway; first != (i == 0) {
			t.Fatalf("request %d: %d", i, resp.StatusCode)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "unknown") {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}

// What a handler panics with may hold what came in the request.
func TestLogHasNoPanicValue(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	cfg := Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	h := guard(t, newBook(t), cfg, func(http.ResponseWriter, *http.Request) { panic("secret of the card") })
	for range 2 {
		serve(h, post("k", "{}"))
	}
	early := (&Handler{cfg: cfg}).failure(post("k", "{}"),
		saga.NotDone(&saga.PanicError{Value: "secret of it"}))
	if early.Code != CodeInternal {
		t.Errorf("%v", early)
	}
	if got := log.String(); strings.Contains(got, "secret") ||
		strings.Count(got, "a handler panicked") != 1 || !strings.Contains(got, "type=string") ||
		!strings.Contains(got, "log_test.go") {
		t.Errorf("%s", got)
	}
}

func TestProblemEndsItsLine(t *testing.T) {
	t.Parallel()
	h := guard(t, newBook(t), Config{}, func(http.ResponseWriter, *http.Request) {})
	resp := serve(h, post("", "{}"))
	if body := bodyOf(t, resp); !strings.HasSuffix(body, "}\n") ||
		resp.Header.Get("Content-Length") != strconv.Itoa(len(body)) {
		t.Errorf("%q of %s bytes", body, resp.Header.Get("Content-Length"))
	}
}
