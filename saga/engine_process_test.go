package saga

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"onced/kv/boltkv"
	"onced/kv/feed"
	"onced/kv/invariant"
	"onced/kv/timer"
)

// childSaga tells the test program to be a process with sagas, its store and the
// ledger of its callees in that folder; childRefuses lets the last step be refused.
const (
	childSaga    = "ONCED_SAGA_DIR"
	childRefuses = "ONCED_SAGA_REFUSES"
)

// ledgerFile is what the callees of the child remember.
type ledgerFile struct {
	path string
	l    *line
}

func (f *ledgerFile) lines() []string {
	b, _ := os.ReadFile(f.path) // none yet is empty
	return strings.Fields(string(b))
}

// once writes a line if it is not there, between two points at which the process may
// be killed: the callee honours keys.
func (f *ledgerFile) once(text string) error {
	if _, err := f.l.ask("before %s", text); err != nil {
		return err
	}
	if !slices.Contains(f.lines(), text) {
		w, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, text)
		if err = errors.Join(err, w.Close()); err != nil {
			return err
		}
	}
	_, err := f.l.ask("after %s", text)
	return err
}

func (f *ledgerFile) definition(refuses bool) *Definition {
	d := New("checkout")
	for _, step := range []string{"a", "b", "c"} {
		act := func(ctx context.Context, _ order) (receipt, error) {
			if step == "c" && refuses {
				return receipt{}, Refused(errors.New("no"))
			}
			return receipt{}, f.once(step + ":" + DownstreamKey(ctx))
		}
		undo := func(ctx context.Context, _ order, _ receipt) error {
			return f.once("undo-" + step + ":" + DownstreamKey(ctx))
		}
		look := func(_ context.Context, _ order, d Doubt) (receipt, bool, error) {
			return receipt{}, slices.Contains(f.lines(), step+":"+d.DownstreamKey), nil
		}
		d.Step(step, act, undo, Check(look), SettlesAfter(time.Nanosecond), Backoff(time.Millisecond,
			time.Millisecond))
	}
	return d
}

// sagaChild is the child process: one order, to its end.
func sagaChild(t *testing.T, dir string) {
	store, err := boltkv.Open(t.Context(), filepath.Join(dir, "shop.db"), &boltkv.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	f := &ledgerFile{path: filepath.Join(dir, "ledger"), l: &line{in: bufio.NewScanner(os.Stdin),
		out: os.Stdout}}
	d := f.definition(os.Getenv(childRefuses) != "")
	timers := timer.New(store, timer.Config{})
	e, err := NewEngine(store, Config{Timers: timers, Feed: feed.New(feed.Config{})})
	if err == nil {
		err = e.Register(d)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = e.Serve(t.Context()) }()
	go func() { _ = timers.Run(t.Context()) }()
	v, err := e.Run(t.Context(), d, "order-1", theOrder)
	if v == nil {
		t.Fatal(err)
	}
	_, _ = f.l.ask("end %s", v.State.Status)
}

// sagaProcess runs a child that is killed at its nth point; end is how it ended
// otherwise.
func sagaProcess(t *testing.T, dir, refuses string, kill int) (end string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSG04_SG05_SIGKILL$")
	cmd.Env = append(os.Environ(), childSaga+"="+dir, childRefuses+"="+refuses)
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
	points := bufio.NewScanner(out)
	for n := 1; points.Scan(); n++ {
		text := points.Text()
		if status, ok := strings.CutPrefix(text, "end "); ok {
			end = status
		} else if !strings.Contains(text, ":") {
			continue // the test program's own words
		} else if n == kill {
			_ = cmd.Process.Kill()
			break
		}
		if _, err := fmt.Fprintln(in, "go on"); err != nil {
			break
		}
	}
	_ = cmd.Wait() // killed, or it has said how it ended
	return end
}

// TestSG04_SG05_SIGKILL kills a process at every point of its calls, and lets the
// next one end the order.
func TestSG04_SG05_SIGKILL(t *testing.T) {
	if dir := os.Getenv(childSaga); dir != "" {
		sagaChild(t, dir)
		return
	}
	t.Parallel()
	for _, c := range []struct{ refuses, status, ledger string }{
		{"", "completed", "a b c"},
		{"1", "compensated", "a b undo-b undo-a"},
	} {
		points := 0
		for kill, killed := 1, true; killed; kill++ {
			dir := t.TempDir()
			end := sagaProcess(t, dir, c.refuses, kill)
			if killed = end == ""; killed {
				points++
				end = sagaProcess(t, dir, c.refuses, 0)
			}
			var got []string
			for _, l := range (&ledgerFile{path: filepath.Join(dir, "ledger")}).lines() {
				step, _, _ := strings.Cut(l, ":")
				got = append(got, step)
			}
			if end != c.status || strings.Join(got, " ") != c.ledger {
				t.Fatalf("killed at %d: it is %q, the ledger %v; want %s, %s", kill, end, got, c.status,
					c.ledger)
			}
			s, err := boltkv.Open(t.Context(), filepath.Join(dir, "shop.db"), &boltkv.Options{MinFree: -1})
			if err != nil {
				t.Fatal(err)
			}
			invariant.RequireNow(t, s, RunRules()...)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if want := 2 * len(strings.Fields(c.ledger)); points != want {
			t.Errorf("%s: killed at %d points, want %d", c.status, points, want)
		}
	}
}
