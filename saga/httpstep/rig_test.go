package httpstep

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"onced/saga/egress"
)

// noon is when these tests take place.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

type fixedClock struct{}

func (fixedClock) Now() time.Time { return noon }

// newCaller makes one without a wish left open.
func newCaller(t testing.TB, cfg Config) *Caller {
	t.Helper()
	client, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	cfg.Client, cfg.Clock = client, fixedClock{}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func post(url string) *Request {
	return &Request{Method: "POST", URL: url, Body: []byte(`{"a":1}`), Key: "k1", Trust: egress.Trusted}
}

// callError is the *CallError of an error that must have one.
func callError(t testing.TB, err error) *CallError {
	t.Helper()
	var e *CallError
	if !errors.As(err, &e) {
		t.Fatalf("%v is no CallError", err)
	}
	return e
}

// mustStatuses reads a set.
func mustStatuses(t testing.TB, text string) Statuses {
	t.Helper()
	s, err := ParseStatuses(strings.Fields(text)...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
