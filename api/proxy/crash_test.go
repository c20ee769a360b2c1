package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"onced/api/config"
	"onced/kv/boltkv"
	"onced/kv/claim"
)

// The test binary, started again with these, is a proxy over a store on disk.
const (
	childStore = "PROXY_TEST_STORE"
	childFile  = "PROXY_TEST_CONFIG"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childStore); path != "" {
		if err := serveChild(path, os.Getenv(childFile)); err != nil {
			fmt.Println("child failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serveChild(path, file string) error {
	ctx := context.Background()
	store, err := boltkv.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	book, err := claim.New(ctx, store, claim.Config{})
	if err != nil {
		return err
	}
	loaded, err := config.Load(config.Source{File: file})
	if err != nil {
		return err
	}
	p, err := New(Config{Claims: book, Routes: loaded.Config.Routes, Principal: bearer})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return (&http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}

// child is a proxy in a process of its own.
type child struct {
	*setup

	cmd *exec.Cmd
}

func startChild(t *testing.T, dir string) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childStore+"="+filepath.Join(dir, "onced.db"),
		childFile+"="+filepath.Join(dir, "onced.yaml"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://") {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return &child{cmd: cmd, setup: &setup{t: t, url: strings.TrimSpace(line),
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}}
}

func (c *child) kill() {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil { // SIGKILL
		c.t.Fatal(err)
	}
	if err := c.cmd.Wait(); err == nil {
		c.t.Fatal("the child was not killed")
	}
}

// killedAfterTheCharge leaves a store whose process was killed when the gateway had
// charged and not yet answered.
func killedAfterTheCharge(t *testing.T, yaml string, honoursKeys bool) (g *gateway, dir string) {
	t.Helper()
	dir = t.TempDir()
	g = newGateway(t)
	g.honoursKeys = honoursKeys
	charged := make(chan struct{})
	g.answer = func(n int, _ http.ResponseWriter, r *http.Request) bool {
		if n == 1 {
			close(charged)
			<-r.Context().Done() // until the proxy is gone
		}
		return n == 1
	}
	text := strings.ReplaceAll(yaml, "UPSTREAM", g.URL)
	if err := os.WriteFile(filepath.Join(dir, "onced.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, dir)
	failed := make(chan error)
	go func() {
		resp, err := c.try(t.Context(), "POST", "/charges", `{"amount":"10.00"}`, "Idempotency-Key", "k",
			"Content-Type", "application/json")
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-charged
	c.kill()
	if <-failed == nil {
		t.Fatal("the client got an answer")
	}
	g.charged(t, 1)
	return g, dir
}

func TestIK08_SIGKILLAfterTheCharge(t *testing.T) {
	t.Parallel()
	g, dir := killedAfterTheCharge(t, checked, false)
	c := startChild(t, dir)
	c.pays(201, `{"charge":"oc_`, true)
	c.kill()
	c = startChild(t, dir) // what was found is durable
	c.pays(201, `{"charge":"oc_`, true)
	c.kill()
	g.charged(t, 1)
	g.oneKey(t, 1)
}

func TestIK08_SIGKILLThenRepeat(t *testing.T) {
	t.Parallel()
	g, dir := killedAfterTheCharge(t, repeatable, true)
	c := startChild(t, dir)
	c.pays(201, `{"charges":1}`, false)
	c.pays(201, `{"charges":1}`, true)
	c.kill()
	g.charged(t, 1)
	g.oneKey(t, 2)
}

func TestIK09_SIGKILLThenNobodyCanTell(t *testing.T) {
	t.Parallel()
	g, dir := killedAfterTheCharge(t, plain, false)
	c := startChild(t, dir)
	for range 2 {
		c.pays(409, `"outcome_unknown"`, false)
	}
	c.kill()
	g.charged(t, 1)
	g.oneKey(t, 1)
}

// The key of a process that was killed before it sent anything is unknown too, and
// the look-up clears it.
func TestIK07_SIGKILLBeforeTheSend(t *testing.T) {
	t.Parallel()
	dir, g := t.TempDir(), newGateway(t)
	accepted := make(chan struct{})
	stuck := newWire(t, func(_ *wire, _ int, _ net.Conn, r *bufio.Reader) {
		close(accepted)
		_, _ = r.ReadByte() // the handshake's first byte, and no answer
		_, _ = r.WriteTo(discard{})
	})
	write := func(upstream string) {
		text := strings.ReplaceAll(checked, "UPSTREAM", upstream)
		if err := os.WriteFile(filepath.Join(dir, "onced.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("https://" + stuck.addr)
	c := startChild(t, dir)
	failed := make(chan error)
	go func() {
		resp, err := c.try(t.Context(), "POST", "/charges", `{"amount":"10.00"}`, "Idempotency-Key", "k",
			"Content-Type", "application/json")
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-accepted
	c.kill()
	<-failed
	write(g.URL)
	c = startChild(t, dir)
	resp, body := c.pay()
	for range 100 { // until a millisecond has passed since the start
		if resp.StatusCode != http.StatusConflict {
			break
		}
		resp, body = c.pay()
	}
	want(t, reply{resp, body}, 201, `{"charges":1}`, false)
	c.pays(201, `{"charges":1}`, true)
	c.kill()
	g.charged(t, 1)
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
