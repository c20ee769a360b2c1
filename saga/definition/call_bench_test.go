package definition

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"onced/saga"
	"onced/saga/egress"
	"onced/saga/httpstep"
)

// benched are a step with the plainest call there is, and one with all there is.
var benched = map[string]string{
	"plain": `
  call: {url: "http://HOST/ok", body: "${input}"}
`,
	"rich": `
  call:
    url: http://HOST/orders/${input.order}/charges?currency=EUR
    query: {cents: "${input.cents}"}
    headers: {Authorization: "Bearer ${secrets.gateway}", X-Shop: "7"}
    body: {order: "${input.order}", amount: {cents: "${input.cents}", note: "order ${input.order}"}}
    refused_if: "${reply.body.status == 'declined'}"
  output: {id: "${reply.body.id}"}
`,
}

// BenchmarkCall measures what the call of a step costs beside what net/http costs alone
// for the same request. The service is a loop that makes no garbage, so that all that is
// counted is the client's. Compare within one run only.
func BenchmarkCall(b *testing.B) {
	addr := benchedService(b)
	input := []byte(`{"order":"o-1234567890","cents":4999}`)
	b.Run("bare", func(b *testing.B) {
		t := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 10}
		defer t.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			bareCall(b, t, "http://"+addr+"/ok", input)
		}
	})
	deps := benchedDeps(b)
	for _, name := range sortedKeys(benched) {
		src := "name: benched\ninput: {order: string, cents: int}\nsteps:\n- name: " + name + "\n" +
			"  repeatable: 24h" + strings.ReplaceAll(benched[name], "HOST", addr)
		d, problems := Parse([]byte(src), Options{})
		if err := problems.Err(); err != nil {
			b.Fatal(err)
		}
		r := &runner{stepDef: d.defs[0], doc: d, target: Target{Version: "1", Origin: FromFile}, deps: deps}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := &saga.Call{Run: "r1", Definition: "benched", Version: "1", Key: "k1", Step: name, Try: 1,
					DownstreamKey: "key-1", ActionKey: "key-1", Input: input}
				ctx, cancel := context.WithTimeout(b.Context(), saga.DefaultTimeout)
				if out, err := r.act(ctx, c); err != nil || len(out) == 0 {
					b.Fatalf("%s, %v", out, err)
				}
				cancel()
			}
		})
	}
}

func bareCall(b *testing.B, t *http.Transport, url string, body []byte) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), saga.DefaultTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "key-1")
	req.Header.Set("User-Agent", "onced")
	resp, err := t.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		b.Fatal(err)
	}
	_ = resp.Body.Close() // it was read
}

// benchedService answers every request with the same bytes.
func benchedService(b *testing.B) (addr string) {
	b.Helper()
	l, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serveBenched(conn)
		}
	}()
	return l.Addr().String()
}

func serveBenched(conn net.Conn) {
	defer conn.Close()
	reply := []byte("HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 17:00:00 GMT\r\n" +
		"Content-Type: application/json\r\nContent-Length: 28\r\n\r\n" + `{"id":"pay_1","status":"ok"}`)
	length := []byte("Content-Length: ")
	for r := bufio.NewReader(conn); ; {
		size := 0
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if digits, ok := bytes.CutPrefix(line, length); ok {
				for _, c := range bytes.TrimSpace(digits) {
					size = size*10 + int(c-'0')
				}
			}
			if len(line) == 2 {
				break
			}
		}
		if _, err := r.Discard(size); err != nil {
			return
		}
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

func benchedDeps(b *testing.B) Deps {
	b.Helper()
	client, err := egress.New(egress.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	caller, err := httpstep.New(httpstep.Config{Client: client})
	if err != nil {
		b.Fatal(err)
	}
	return Deps{Caller: caller, Secret: func(context.Context, SecretUse) (string, error) {
		return "a-secret-of-the-gateway", nil
	}}
}

func BenchmarkPrepare(b *testing.B) {
	d, problems := Parse([]byte("name: a\ninput: {order: string, cents: int}\nsteps:\n- {name: b, call: "+
		"{url: 'http://h/'}}\n"), Options{})
	if err := problems.Err(); err != nil {
		b.Fatal(err)
	}
	req := saga.StartRequest{Key: "order-1234567890", Input: []byte(`{"order":"o-1234567890","cents":4999}`)}
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Prepare(&req); err != nil {
			b.Fatal(err)
		}
	}
}
