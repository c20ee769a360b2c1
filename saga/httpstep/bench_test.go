package httpstep

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"onced/saga"
	"onced/saga/egress"
)

// BenchmarkCall compares a call of a step with what a plain client of net/http costs
// that does the same: send a body and three headers, read the reply. Run it with
// -benchmem; the parts are to be compared within one run only.
func BenchmarkCall(b *testing.B) {
	s := serve(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)         // what goes wrong shows in the client
		_, _ = io.WriteString(w, `{"id":"pay_1"}`) // as above
	})
	body := []byte(`{"order":"o-1","amount":"12.50"}`)
	plain := func(b *testing.B, client *http.Client) {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL+"/charges?x=1",
			bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer token")
		req.Header.Set("Idempotency-Key", "k1")
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close() // it was read
	}
	call := func(b *testing.B, c *Caller, edit func(*Request)) {
		req := post(s.URL + "/charges?x=1")
		req.Body, req.Header = body, http.Header{"Authorization": {"Bearer token"}}
		if edit != nil {
			edit(req)
		}
		if _, err := c.Do(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
	run := func(name string, one func(*testing.B)) {
		b.Run(name+"/1", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				one(b)
			}
		})
		b.Run(name+"/64", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					one(b)
				}
			})
		})
	}
	client := &http.Client{Timeout: saga.DefaultTimeout,
		Transport: &http.Transport{MaxIdleConnsPerHost: egress.DefaultMaxIdlePerHost,
			DisableCompression: true}}
	b.Cleanup(client.CloseIdleConnections)
	c := newCaller(b, Config{})
	run("net-http", func(b *testing.B) { plain(b, client) })
	run("httpstep", func(b *testing.B) { call(b, c, nil) })
	run("httpstep-resend", func(b *testing.B) { call(b, c, func(r *Request) { r.Resend = true }) })
	run("httpstep-fresh", func(b *testing.B) { call(b, c, func(r *Request) { r.Fresh = true }) })
}
