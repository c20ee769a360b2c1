package idemhttp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"onced/kv/claim"
)

// The fingerprint is stored: it must be the same for ever, of small bodies and of large.
func TestTheFingerprintIsThatOfItsParts(t *testing.T) {
	h := &Handler{cfg: Config{}.withDefaults()}
	for _, size := range []int{0, 10, 400, 500, 600, 10_000, 100_000} {
		body := []byte(strings.Repeat("x", size))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/a%20b/c?d=e&f", http.NoBody)
		r.Header["Content-Type"] = []string{"application/json", "text/plain"}
		want := claim.FingerprintOf([]byte("POST"), []byte("/a%20b/c"), []byte("d=e&f"),
			[]byte("Content-Type"), []byte("2"), []byte("application/json"), []byte("text/plain"),
			[]byte("Content-Encoding"), []byte("0"), body)
		if got := h.fingerprint(r, body); got != want {
			t.Errorf("%d bytes: %x, want %x", size, got, want)
		}
	}
}
