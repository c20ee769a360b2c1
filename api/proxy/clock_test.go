package proxy

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"onced/kv/memkv"
)

// claimClock is a clock that only tests move.
type claimClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *claimClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *claimClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func (c *claimClock) store() *memkv.Store { return memkv.New(memkv.Options{Clock: c}) }

// tlsURL is an upstream whose certificate nobody trusts.
func tlsURL(t *testing.T) string {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}
