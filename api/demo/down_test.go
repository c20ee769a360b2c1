package demo_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"onced/api/demo"
)

// gated is a demo whose service waits at a gate whenever it starts.
type gated struct {
	*running
	gate   string
	broken string // when this file is there, the service ends at its start, after the gate once
	ended  chan error
}

func startGated(t *testing.T) *gated {
	t.Helper()
	dir := t.TempDir()
	g := &gated{gate: filepath.Join(dir, "gate"), broken: filepath.Join(dir, "broken"),
		ended: make(chan error, 1)}
	if err := syscall.Mkfifo(g.gate, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan string, 1)
	var out bytes.Buffer
	c := demo.Config{Data: filepath.Join(dir, "data"), Clients: 1, Limit: time.Minute, Environ: os.Environ(),
		Service: []string{"sh", "-c", `test -e "$1" && { mkdir "$1.once" && read x <"$0"; exit 1; }; ` +
			`read x <"$0"; ` +
			`exec "$2" __demo-service --config "$3"`, g.gate, g.broken, program},
		Stdout: &out, Ready: func(url string) { ready <- url }}
	go func() { g.ended <- demo.Run(ctx, c) }()
	t.Cleanup(func() {
		cancel()
		g.ended <- <-g.ended
	})
	g.open(t)
	select {
	case url := <-ready:
		g.running = &running{t: t, url: url}
	case <-time.After(patience):
		t.Fatal("the demo does not start")
	}
	return g
}

// open lets one start of the service through.
func (g *gated) open(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(g.gate, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
}

func (g *gated) kill(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(g.stats().ServicePid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	g.await("the service to be down", func(s stats) bool { return s.ServicePid == 0 })
}

// checkout returns the status and when to ask again.
func (g *gated) checkout(id, prefer string) (status int, retryAfter string) {
	req, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, g.url+"/checkout",
		strings.NewReader(`{"orderId":"`+id+`"}`))
	if err != nil {
		g.t.Error(err)
		return 0, ""
	}
	req.Header.Set("Content-Type", "application/json")
	if prefer != "" {
		req.Header.Set("Prefer", prefer)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		g.t.Error(err)
		return 0, ""
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

// While the service starts, whoever does not want to wait is told 503 and when to
// ask again; the order is kept.
func TestSlowStartIsSeen(t *testing.T) {
	t.Parallel()
	g := startGated(t)
	if code, _ := g.checkout("ord_up", "respond-async, wait=0"); code != http.StatusAccepted {
		t.Errorf("while it is up: %d, want 202", code)
	}
	g.atRest(1)
	g.kill(t)
	for _, prefer := range []string{"wait=0", "wait=1"} {
		code, after := g.checkout("ord_down", prefer)
		if code != http.StatusServiceUnavailable || after != "1" {
			t.Errorf("while it is down, %s: %d, Retry-After %q", prefer, code, after)
		}
	}
	if code, _ := g.checkout("ord_up", "wait=0"); code != http.StatusOK {
		t.Errorf("an order that is paid: %d", code)
	}
	g.open(t)
	g.once(g.atRest(2), 2)
}

// Whoever waits when it turns out that the service does not start is answered,
// not cut off.
func TestServiceThatDoesNotStart(t *testing.T) {
	t.Parallel()
	g := startGated(t)
	if err := os.WriteFile(g.broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g.kill(t)
	var client sync.WaitGroup
	client.Go(func() {
		if code, after := g.checkout("ord_A", ""); code != http.StatusServiceUnavailable || after == "" {
			t.Errorf("answered %d, Retry-After %q", code, after)
		}
	})
	g.await("the order", func(s stats) bool { return s.DistinctOrders == 1 })
	g.open(t)
	client.Wait()
	err := <-g.ended
	g.ended <- err
	if err == nil || !strings.Contains(err.Error(), "does not start") {
		t.Errorf("the demo ended with %v", err)
	}
}
