package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"onced/api/cli"
)

// patience is how long a test waits for what must happen. Nothing depends on it
// while all is well.
const patience = 90 * time.Second

// programEnv makes this test binary the program. It is what main.go is, and a
// result of a test is remembered only while nothing of the program has changed; a
// binary that the test builds would not be missed. With -race the program has the
// race detector too.
const programEnv = "E2E_PROGRAM"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(programEnv) != "":
		os.Exit(cli.Main(context.Background(), cli.OS()))
	case os.Getenv(skeletonEnv) != "":
		serveSkeleton()
	default:
		os.Exit(m.Run())
	}
}

// lines collects what a process says.
type lines struct {
	mu  sync.Mutex
	b   bytes.Buffer
	new chan struct{} // closed by the next write
}

func newLines() *lines { return &lines{new: make(chan struct{})} }

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.new)
	l.new = make(chan struct{})
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// await waits until text has been said n times.
func (l *lines) await(t testing.TB, text string, n int) string {
	t.Helper()
	limit := time.After(patience)
	for {
		l.mu.Lock()
		now, changed := l.b.String(), l.new
		l.mu.Unlock()
		if strings.Count(now, text) >= n {
			return now
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%q was not said %d times:\n%s", text, n, now)
		}
	}
}

// service is "onced serve" as a child.
type service struct {
	t         testing.TB
	cmd       *exec.Cmd
	dir, addr string
	admin     string // token
	client    string // token of the principal shop
	out, log  *lines
	logFile   string   // in place of log, in a benchmark
	secrets   []string // what no log and no error may hold
	*http.Client
}

// start starts the child with a configuration, in which UPSTREAM stands for the
// address of g.
func start(t testing.TB, g *gateway, yaml string) *service {
	t.Helper()
	return startWith(t, g, yaml, nil)
}

// startWith is start with definitions of sagas in the folder sagas, by name.
func startWith(t testing.TB, g *gateway, yaml string, definitions map[string]string) *service {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, dir: t.TempDir(), out: newLines(), log: newLines(),
		Client: &http.Client{Timeout: patience, Transport: &http.Transport{DisableCompression: true,
			MaxIdleConnsPerHost: 64},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	s.write(strings.ReplaceAll(yaml, "UPSTREAM", "http://"+g.addr))
	for name, text := range definitions {
		s.writeFile("sagas/"+name+".yaml", strings.ReplaceAll(text, "UPSTREAM", "http://"+g.addr))
	}
	s.cmd = exec.CommandContext(context.Background(), self, "serve", "--listen=127.0.0.1:0",
		"--store.min_free=0", "--log.format=json")
	s.cmd.Dir, s.cmd.Env = s.dir, []string{programEnv + "=1", "HOME=" + s.dir, "GATEWAY_TOKEN=sesame-gateway"}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.log
	if b, ok := t.(*testing.B); ok { // whoever measures does not read along
		s.logFile = filepath.Join(s.dir, "onced.log")
		f, err := os.Create(s.logFile)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		s.cmd.Stderr = f
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.secrets = []string{"sesame", g.addr, s.dir, "goroutine ", ".go:"}
	t.Cleanup(s.stop)
	text := s.out.await(t, "Keep it", 1)
	s.addr = regexp.MustCompile(`http://(\S+)`).FindStringSubmatch(text)[1]
	s.admin = regexp.MustCompile(`onced_[a-z0-9]+`).FindString(text)
	s.secrets = append([]string{s.admin}, s.secrets...)
	s.client = s.newToken("shop", "client")
	return s
}

// newToken makes a token for a principal of the same name.
func (s *service) newToken(name, role string) string {
	s.t.Helper()
	resp, body := s.send("POST", "/v1/tokens", fmt.Sprintf(`{"name":%q,"role":%q,"principal":%q}`, name,
		role, name),
		"Authorization", "Bearer "+s.admin, "Content-Type", "application/json")
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(body), &made); err != nil || resp.StatusCode != 201 {
		s.t.Fatalf("token: %d %s", resp.StatusCode, body)
	}
	s.secrets = append(s.secrets, made.Secret)
	return made.Secret
}

func (s *service) write(yaml string) {
	s.t.Helper()
	s.writeFile("onced.yaml", yaml)
}

func (s *service) writeFile(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// stop ends the child in order, and looks at what it has logged.
func (s *service) stop() {
	if s.addr != "" {
		s.alive()
	}
	s.Client.CloseIdleConnections()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	ended := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	err := s.cmd.Wait()
	ended.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Error(err)
	}
	s.checkLog()
}

// checkLog holds the log to its promise: one JSON object a line, no secret.
func (s *service) checkLog() {
	text := s.log.String()
	if s.logFile != "" {
		b, err := os.ReadFile(s.logFile)
		if err != nil {
			s.t.Error(err)
		}
		text = string(b)
	}
	for line := range strings.Lines(text) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			s.t.Errorf("a line of the log is no JSON object: %q", line)
		}
		for _, secret := range []string{"onced_", "sesame", `"panic"`} {
			if strings.Contains(line, secret) {
				s.t.Errorf("the log holds %q: %s", secret, line)
			}
		}
	}
}

// alive asks for /livez, as somebody who attacks nobody.
func (s *service) alive() {
	s.t.Helper()
	if resp, body := s.send("GET", "/livez", ""); resp.StatusCode != 200 {
		s.t.Errorf("livez: %d %s", resp.StatusCode, body)
	}
}

// request makes a request; headers are names and values in turn.
func (s *service) request(method, path, body string, headers ...string) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, "http://"+s.addr+path,
		strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// send sends one request and returns the whole answer.
func (s *service) send(method, path, body string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	resp, err := s.Do(s.request(method, path, body, headers...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	s.checkError(resp, string(got))
	return resp, string(got)
}

// pay sends a request with a key to /charges.
func (s *service) pay(key string) (*http.Response, string) {
	s.t.Helper()
	return s.send("POST", "/charges", `{"cents":100}`, "Idempotency-Key", key, "Authorization",
		"Bearer "+s.client)
}

// checkError holds an answer to its promise: an error is a problem that tells
// nothing of what is inside.
func (s *service) checkError(resp *http.Response, body string) {
	s.t.Helper()
	if resp.StatusCode < 400 {
		return
	}
	text := fmt.Sprint(body, resp.Header)
	for _, secret := range s.secrets {
		if strings.Contains(text, secret) {
			s.t.Errorf("an error holds %q: %d %s", secret, resp.StatusCode, text)
		}
	}
}

// answer is one answer that came over a raw connection.
type answer struct {
	*http.Response
	body string
}

// dial opens a raw connection that gives up after a while.
func (s *service) dial() net.Conn {
	s.t.Helper()
	c, err := new(net.Dialer).DialContext(context.Background(), "tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	s.t.Cleanup(func() { c.Close() })
	return c
}

// raw sends bytes and reads answers until the service has closed the connection,
// which it does only when the bytes ask for it or are wrong. The first answers in
// the order of methods; GET when there are none left.
func (s *service) raw(request string, methods ...string) []answer {
	s.t.Helper()
	c := s.dial()
	go func() { _, _ = io.WriteString(c, request) }() // it may be refused before it is whole
	in := bufio.NewReader(c)
	var out []answer
	for {
		method := "POST"
		if len(methods) > len(out) {
			method = methods[len(out)]
		}
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
				s.t.Errorf("%.200q: the connection was left open after %d answers", request, len(out))
			}
			return out
		}
		if resp.StatusCode == 100 {
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		s.checkError(resp, string(body))
		out = append(out, answer{resp, string(body)})
	}
}

// one is raw for a request that has one answer.
func (s *service) one(request string) answer {
	s.t.Helper()
	got := s.raw(request)
	if len(got) != 1 {
		s.t.Fatalf("%.200q: %d answers", request, len(got))
	}
	return got[0]
}

// hup asks for a reload, and waits for the n-th line that says msg.
func (s *service) hup(msg string, n int) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	s.log.await(s.t, msg, n)
}
