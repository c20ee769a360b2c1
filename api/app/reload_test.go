package app

import (
	"context"
	"errors"
	"io"
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
	r := start(t, options(t, "routes:\n- {name: pay, path: /charges, principal: shop, wait: 0s, upstream: "+
		upstream.URL+"}\n"))
	parts := r.app.parts
	deaf.Store = r.app.store
	var err error
	if parts.book, err = claim.New(t.Context(), deaf, claim.Config{Feed: parts.feed}); err != nil {
		t.Fatal(err)
	}
	pay := func() (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/charges",
			strings.NewReader("10.00"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "k")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	if _, err := r.app.Reload(); err != nil { // over the store that can be deaf
		t.Fatal(err)
	}
	if resp, body := pay(); resp.StatusCode != 503 || !strings.Contains(body, "commit_unknown") {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if _, err := r.app.Reload(); err != nil {
		t.Fatal(err)
	}
	if resp, body := pay(); resp.StatusCode != 503 || !strings.Contains(body, "commit_unknown") {
		t.Errorf("while the store is deaf: %d %s", resp.StatusCode, body)
	}
	deaf.deaf.Store(false)
	for range 2 {
		if resp, body := pay(); resp.StatusCode != 201 || body != "charged" ||
			resp.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	if charges.Load() != 1 {
		t.Errorf("%d charges", charges.Load())
	}
}
