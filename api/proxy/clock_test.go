package proxy

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"onced/kv/kvtest/testclock"
	"onced/kv/memkv"
)

// clockAndStore returns a clock that only the test moves, and a store that follows it.
func clockAndStore() (*testclock.Clock, *memkv.Store) {
	c := testclock.At(time.Unix(1_000_000, 0))
	return c, memkv.New(memkv.Options{Clock: c})
}

// tlsURL is an upstream whose certificate nobody trusts.
func tlsURL(t *testing.T) string {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}
