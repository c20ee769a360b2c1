package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programDir is where the built binary is, empty when no test needed it.
var programDir string

// program is the built binary, made once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "onced-test")
	if err != nil {
		return "", err
	}
	programDir = dir
	path := filepath.Join(dir, "onced")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", path, "onced")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if programDir != "" {
		os.RemoveAll(programDir)
	}
	os.Exit(code)
}

// process is the binary as a child.
type process struct {
	t         *testing.T
	cmd       *exec.Cmd
	dir, addr string
	out, errs *buffer
}

// spawn starts "onced serve" in a folder of its own, and waits until it serves.
func spawn(t *testing.T, file string) *process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, dir: t.TempDir(), out: new(buffer), errs: new(buffer)}
	p.write(file)
	p.cmd = exec.CommandContext(context.Background(), path, "serve", "--listen=127.0.0.1:0",
		"--store.min_free=0")
	p.cmd.Dir, p.cmd.Env = p.dir, []string{"HOME=" + p.dir}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.errs
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	text := await(t, p.out, "Keep it")
	p.addr = regexp.MustCompile(`http://(\S+)`).FindStringSubmatch(text)[1]
	return p
}

func (p *process) write(file string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "onced.yaml"), []byte(file), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the end and returns the exit code.
func (p *process) wait() int {
	p.t.Helper()
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// half sends a request whose body is not complete, and returns after the server
// has begun to read it. finish sends the rest.
func (p *process) half(body string) (c net.Conn, in *bufio.Reader, finish func()) {
	p.t.Helper()
	token := regexp.MustCompile(`onced_[a-z0-9]+`).FindString(p.out.String())
	c, err := new(net.Dialer).DialContext(p.t.Context(), "tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	_, _ = fmt.Fprintf(c, "POST /v1/claims HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", token,
		len(body))
	in = bufio.NewReader(c)
	line, err := in.ReadString('\n')
	if err != nil || !strings.Contains(line, "100 Continue") {
		p.t.Fatalf("%q %v", line, err)
	}
	_, _ = in.ReadString('\n')
	_, _ = io.WriteString(c, body[:5])
	return c, in, func() { _, _ = io.WriteString(c, body[5:]) }
}

func (p *process) refused() {
	p.t.Helper()
	for {
		c, err := new(net.Dialer).DialContext(p.t.Context(), "tcp", p.addr)
		if err != nil {
			return
		}
		c.Close()
		if p.t.Context().Err() != nil {
			p.t.Fatal("still listening")
		}
		runtime.Gosched()
	}
}

const claimBody = `{"operation":"charge","key":"k","token":"0123456789abcdef0123","payload":"x","lease_s":60}`

func TestProcessDrainsOnSIGTERM(t *testing.T) {
	p := spawn(t, "")
	_, in, finish := p.half(claimBody)
	p.signal(syscall.SIGTERM)
	p.refused()
	finish()
	if status, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(status, "HTTP/1.1 20") {
		t.Errorf("the request under way: %q %v", status, err)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("code %d: %s", code, p.errs)
	}
	if !strings.Contains(p.errs.String(), `"msg":"stopped"`) {
		t.Errorf("log: %s", p.errs)
	}
}

func TestProcessQuitsOnTheSecondSignal(t *testing.T) {
	p := spawn(t, "http: {drain_timeout: 10m, read_timeout: 10m}\n")
	c, _, _ := p.half(claimBody)
	p.signal(syscall.SIGINT)
	p.refused()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != ExitFailure {
		t.Errorf("code %d", code)
	}
	if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection: %v", err)
	}
}

func TestProcessReloadsOnSIGHUP(t *testing.T) {
	p := spawn(t, "log: {level: info}\n")
	p.write("log: {level: warn}\ndata: elsewhere\n")
	p.signal(syscall.SIGHUP)
	await(t, p.errs, `"key":"data"`)
	p.write("log: {level: loud}\n")
	p.signal(syscall.SIGHUP)
	text := await(t, p.errs, "was not reloaded")
	if !strings.Contains(text, `onced.yaml:1:14: log.level: \"loud\" is not known`) {
		t.Errorf("log: %s", text)
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("code %d", code)
	}
}

func TestA2_18_ASecondProcessOnTheSameDataIsRefusedInTime(t *testing.T) {
	p := spawn(t, "")
	path, _ := program()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "serve", "--listen=127.0.0.1:0")
	cmd.Dir, cmd.Env = p.dir, []string{"HOME=" + p.dir}
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(begin)
	if cmd.ProcessState.ExitCode() != ExitStore ||
		!strings.Contains(string(out), fmt.Sprintf("process %d", p.cmd.Process.Pid)) {
		t.Errorf("%v: %s", err, out)
	}
	if took > time.Minute { // about a second on an idle machine; not in time would be never
		t.Errorf("it took %v", took)
	}
}

func TestProcessSurvivesSIGKILL(t *testing.T) {
	p := spawn(t, "")
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	path, _ := program()
	cmd := exec.CommandContext(t.Context(), path, "token", "list")
	cmd.Dir, cmd.Env = p.dir, []string{"HOME=" + p.dir}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "admin") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestBashCompletion(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	script := `source <(onced completion bash)
		complete_it() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _onced 2>/dev/null; echo "${COMPREPLY[@]}"; }
		complete_it onced serv
		complete_it onced config ""
		complete_it onced serve --http.max_b`
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Env = []string{"PATH=" + filepath.Dir(path) + ":" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if want := "serve\ninit check show help\n--http.max_body=\n"; err != nil || string(out) != want {
		t.Errorf("%v: %s", err, out)
	}
}
