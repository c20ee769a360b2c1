package sendonce

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// answering answers whatever comes in one piece, with as little work as can be: what is
// measured is the client.
func answering(b *testing.B) string {
	b.Helper()
	l, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() }) // it ends the server
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := make([]byte, 4096)
				out := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" +
					"Content-Length: 15\r\n\r\n" + `{"id":"ch_123"}`)
				for at := 0; ; {
					n, err := c.Read(in[at:])
					if err != nil {
						return
					}
					if at += n; !bytes.HasSuffix(in[:at], []byte("}")) {
						continue
					}
					if _, err := c.Write(out); err != nil {
						return
					}
					at = 0
				}
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/v1/charges"
}

// calls makes n calls by so many callers at a time.
func calls(b *testing.B, n, callers int, url string, send func(*http.Request) (*http.Response, error)) {
	b.Helper()
	body := `{"amount":"12.50","currency":"EUR","order":"` + strings.Repeat("x", 100) + `"}`
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range (n + callers - 1 - i) / callers {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url,
					strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				r.Header.Set("Idempotency-Key", "0123456789abcdef")
				r.Header.Set("Content-Type", "application/json")
				resp, err := send(r)
				if err != nil {
					b.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Error(err)
				}
				_ = resp.Body.Close() // it was read to its end
			}
		})
	}
	all.Wait()
}

// BenchmarkCall is one call over a kept connection, each with a context that ends. of-nethttp
// is its time by that of the same call by net/http's transport, taken in turns.
func BenchmarkCall(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			url := answering(b)
			ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
			defer cancel()
			ours := New(Config{Dial: (&net.Dialer{}).DialContext, IdleTimeout: time.Hour})
			defer ours.Close()
			theirs := &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true}
			defer theirs.CloseIdleConnections()
			byOurs := func(r *http.Request) (*http.Response, error) {
				resp, _, err := ours.Send(ctx, r, false)
				return resp, err
			}
			byTheirs := func(r *http.Request) (*http.Response, error) {
				return theirs.RoundTrip(r.WithContext(ctx))
			}
			calls(b, 4*callers, callers, url, byOurs) // both have their connections then
			calls(b, 4*callers, callers, url, byTheirs)
			b.ReportAllocs()
			b.ResetTimer()
			var us, them time.Duration
			for left := b.N; left > 0; left -= 1000 {
				n := min(left, 1000)
				began := time.Now()
				calls(b, n, callers, url, byOurs)
				us += time.Since(began)
				b.StopTimer()
				began = time.Now()
				calls(b, n, callers, url, byTheirs)
				them += time.Since(began)
				b.StartTimer()
			}
			b.ReportMetric(us.Seconds()/them.Seconds(), "of-nethttp")
		})
	}
}
