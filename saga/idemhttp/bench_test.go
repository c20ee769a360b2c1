package idemhttp

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkMiddleware measures a fresh key, a replay, and the bare handler, each in
// the same process over a store in memory.
func BenchmarkMiddleware(b *testing.B) {
	const body = `{"amount":"10.00","asset":"EUR"}`
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"charge":"ch_123456789","state":"paid"}`))
	})
	run := func(b *testing.B, h http.Handler, key func(int) string) {
		b.Helper()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader(body))
			r.Header.Set("Idempotency-Key", key(i))
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusCreated {
				b.Fatal(w.Code, w.Body)
			}
		}
	}
	fresh := func(i int) string { return "key-" + strconv.Itoa(i) }
	same := func(int) string { return "key" }
	b.Run("bare", func(b *testing.B) { run(b, bare, same) })
	b.Run("replay", func(b *testing.B) { run(b, guard(b, newBook(b), Config{}, bare), same) })
	b.Run("fresh", func(b *testing.B) { run(b, guard(b, newBook(b), Config{}, bare), fresh) })
}
