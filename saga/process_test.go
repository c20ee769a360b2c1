package saga

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"onced/kv/boltkv"
	"onced/kv/claim"
)

// childStore tells the test program to be the shop with its store in that file;
// childWay names how it settles an unknown effect.
const (
	childStore = "ONCED_SAGA_STORE"
	childWay   = "ONCED_SAGA_WAY"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childStore); path != "" {
		if err := shop(context.Background(), path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// line is the connection between the shop and the test, which is its gateway:
// the shop writes a line, and waits for the answer.
type line struct {
	mu  sync.Mutex
	in  *bufio.Scanner
	out io.Writer
}

func (l *line) ask(format string, args ...any) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := fmt.Fprintf(l.out, format+"\n", args...); err != nil {
		return "", err
	}
	if !l.in.Scan() {
		return "", errors.Join(io.ErrUnexpectedEOF, l.in.Err())
	}
	return l.in.Text(), nil
}

// shop is the child process: 100 racing calls for one order.
func shop(ctx context.Context, path string) error {
	store, err := boltkv.Open(ctx, path, &boltkv.Options{MinFree: -1})
	if err != nil {
		return err
	}
	claims, err := claim.New(ctx, store, claim.Config{})
	if err != nil {
		return err
	}
	l := &line{in: bufio.NewScanner(os.Stdin), out: os.Stdout}
	opts := []Option{Key(orderID), SettlesAfter(1)}
	switch os.Getenv(childWay) {
	case "check":
		opts = append(opts, Check(l.lookUp))
	case "repeatable":
		opts = append(opts, Repeatable(time.Hour))
	}
	charge := Idempotent(claims, "charge", l.pay, opts...)
	for _, end := range race(100, func() string {
		for {
			v, err := charge(ctx, theOrder)
			var unknown *UnknownError
			if errors.As(err, &unknown) && !unknown.Held {
				continue
			}
			if err != nil {
				return "error " + strings.ReplaceAll(err.Error(), "\n", " ")
			}
			return "result " + mustJSON(v)
		}
	}) {
		if _, err := l.ask("%s", end); err != nil {
			return err
		}
	}
	return store.Close()
}

func (l *line) pay(ctx context.Context, _ order) (r receipt, err error) {
	if _, err := l.ask("at claimed"); err != nil {
		return r, err
	}
	answer, err := l.ask("charge %s", DownstreamKey(ctx))
	if err != nil {
		return r, err
	}
	if _, err := l.ask("at charged"); err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(answer), &r)
}

func (l *line) lookUp(_ context.Context, _ order, d Doubt) (r receipt, found bool, err error) {
	answer, err := l.ask("look %s", d.DownstreamKey)
	if err != nil || answer == "absent" {
		return r, false, err
	}
	return r, true, json.Unmarshal([]byte(answer), &r)
}

// serve is the gateway of one shop process, which it kills at a point. It
// returns how the shop's calls ended.
func (g *gateway) serve(t *testing.T, path, way, killAt string) (ends map[string]int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childStore+"="+path, childWay+"="+way)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ends = map[string]int{}
	killed := false
	for lines := bufio.NewScanner(out); !killed && lines.Scan(); {
		text := lines.Text()
		verb, rest, _ := strings.Cut(text, " ")
		if text == killAt || verb == killAt {
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed = true
			break
		}
		fmt.Fprintln(in, g.serveLine(verb, rest, ends))
	}
	err = cmd.Wait()
	if killed != (err != nil) {
		t.Fatalf("killed %v, the shop ended with %v", killed, err)
	}
	return ends
}

func (g *gateway) serveLine(verb, rest string, ends map[string]int) string {
	switch verb {
	case "charge":
		return mustJSON(g.charge(theOrder, rest))
	case "look":
		if r, ok := g.find(rest); ok {
			return mustJSON(r)
		}
		return "absent"
	case "result", "error":
		ends[verb+" "+rest]++
	}
	return "go"
}

// killed is a shop that is killed at a point and then started again. ends are the
// answers after that.
func killed(t *testing.T, way, killAt string) (g *gateway, ends map[string]int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	g = &gateway{honoursKeys: way == "repeatable"}
	g.serve(t, path, way, killAt)
	return g, g.serve(t, path, way, "")
}

func wantAll(t *testing.T, g *gateway, ends map[string]int) {
	t.Helper()
	g.charges(t, 1)
	if want := "result " + mustJSON(g.ledger[0]); ends[want] != 100 {
		t.Errorf("want 100 of %s, got %v", want, ends)
	}
}

func TestIK02_HundredCallersInAProcess(t *testing.T) {
	t.Parallel()
	g := &gateway{}
	wantAll(t, g, g.serve(t, filepath.Join(t.TempDir(), "shop.db"), "plain", ""))
}

func TestIK07_SIGKILLBeforeTheEffect(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"check", "repeatable"} {
		g, ends := killed(t, way, "at claimed")
		wantAll(t, g, ends)
	}
}

func TestIK08_SIGKILLAfterTheEffect(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"check", "repeatable"} {
		for _, killAt := range []string{"at charged", "result"} {
			g, ends := killed(t, way, killAt)
			wantAll(t, g, ends)
		}
	}
}

func TestIK09_SIGKILLAndNoWayToFindOut(t *testing.T) {
	t.Parallel()
	for killAt, charges := range map[string]int{"at claimed": 0, "at charged": 1} {
		g, ends := killed(t, "plain", killAt)
		g.charges(t, charges)
		if len(ends) != 1 {
			t.Errorf("the calls ended with %v", ends)
		}
		for end, n := range ends {
			if !strings.HasPrefix(end, "error ") || !strings.Contains(end, "a person must find") || n != 100 {
				t.Errorf("%d times %s", n, end)
			}
		}
	}
	g, ends := killed(t, "plain", "result") // what is stored needs no finding out
	wantAll(t, g, ends)
}
