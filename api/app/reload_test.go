package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"onced/kv"
	"onced/kv/claim"
)

var errLost = errors.New("the store did not answer")

// deafStore fails every Update while it is deaf.
type deafStore struct {
	kv.Store

	deaf atomic.Bool
}

func (s *deafStore) Update(ctx context.Context, fn func(kv.Writer) error) error {
	if s.deaf.Load() {
		return errLost
	}
	return s.Store.Update(ctx, fn)
}

// An outcome that could not be stored is stored by the next request with its key,
// also when the routes were read again meanwhile.
func TestIK11_AReloadForgetsNoOutcome(t *testing.T) {
	var charges atomic.Int64
	deaf := &deafStore{}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charges.Add(1)
		deaf.deaf.Store(true) // from now on nothing is stored
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "charged")
	}))
	t.Cleanup(upstream.Close)
	o := options(t, "routes:\n- {name: pay, path: /charges, principal: shop, wait: 0s, upstream: "+
		upstream.URL+"}\n")
	o.Notice, o.Level, o.Logger = io.Discard, new(slog.LevelVar), slog.New(slog.DiscardHandler)
	a, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	deaf.Store = a.store
	if a.parts.book, err = claim.New(t.Context(), deaf, claim.Config{Feed: a.parts.feed}); err != nil {
		t.Fatal(err)
	}
	reload := func() {
		t.Helper()
		if _, err := a.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	reload() // over the store that can be deaf
	pay := func(key string) (*http.Response, string) {
		t.Helper()
		req := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("10.00"))
		req.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		a.parts.proxy.ServeHTTP(w, req)
		return w.Result(), w.Body.String()
	}
	if resp, body := pay("k"); resp.StatusCode != 503 || !strings.Contains(body, "commit_unknown") {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	reload()
	if resp, body := pay("k"); resp.StatusCode != 503 || !strings.Contains(body, "commit_unknown") {
		t.Errorf("while the store is deaf: %d %s", resp.StatusCode, body)
	}
	deaf.deaf.Store(false)
	for range 2 {
		if resp, body := pay("k"); resp.StatusCode != 201 || body != "charged" ||
			resp.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	if charges.Load() != 1 {
		t.Errorf("%d charges", charges.Load())
	}
}
