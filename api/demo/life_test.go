package demo_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestUnprotectedRunIsNoProof(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir(), "--orders=100", "--faults=all", "--seed=7", "--unprotected")
	if code := d.wait(); code != 4 {
		t.Errorf("exit code %d, want 4: a check found problems", code)
	}
	s := proofOf(t, d)
	if s.ZeroDoubleCharges || s.Proven || s.Protected || s.MostChargesOnOneOrder < 2 ||
		s.RealCharges <= s.PaidOrders || s.Findings.EffectsTwice == 0 || s.Findings.FailedWithEffect == 0 {
		t.Errorf("without onced nobody paid twice, so with it nothing is shown: %+v", s)
	}
	if s.ServiceStarts != 0 {
		t.Error("the service ran")
	}
	if !strings.Contains(d.out.String(), "the proof FAILED") || !strings.Contains(d.out.String(), "WRONG") {
		t.Error("the table does not say so")
	}
}

// Callbacks that come often are enough to do harm without onced; what cannot do
// any is refused, not proven.
func TestUnprotectedRunCannotBeProven(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir(), "--orders=60", "--faults=duplicate", "--seed=7", "--unprotected")
	if code := d.wait(); code != 4 {
		t.Errorf("exit code %d, want 4", code)
	}
	s := proofOf(t, d)
	if s.Proven || s.MostChargesOnOneOrder != 1 || s.MostEffectsOnOneOrder < 3 {
		t.Errorf("each order was charged once and shipped for every callback: %+v", s)
	}
	for _, faults := range []string{"none", "keys", "refuse", "early,keys"} {
		code, text := runDemo(t, "--orders=5", "--unprotected", "--faults="+faults,
			"--data", filepath.Join(t.TempDir(), "demo"))
		if code != 2 || !strings.Contains(text, "--faults=all") {
			t.Errorf("--faults=%s: exit code %d:\n%s", faults, code, text)
		}
	}
}

// What is up to the seed is the same in each run, whatever the order of events:
// which cards are declined, which callbacks are dropped.
func TestSameSeedSameFaults(t *testing.T) {
	t.Parallel()
	run := func(seed int) stats {
		d := start(t, t.TempDir(), "--orders=120", "--clients=60", "--faults=drop,duplicate,refuse",
			fmt.Sprintf("--seed=%d", seed))
		if code := d.wait(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		return proofOf(t, d)
	}
	a, b, other := run(3), run(3), run(4)
	if a.FailedOrders != b.FailedOrders || a.Ledgers["charge"] != b.Ledgers["charge"] {
		t.Errorf("two runs with one seed differ:\n%+v\n%+v", a, b)
	}
	if a.FailedOrders == other.FailedOrders && a.Ledgers["charge"] == other.Ledgers["charge"] {
		t.Error("another seed changed nothing")
	}
}

func TestLimitEndsARun(t *testing.T) {
	t.Parallel()
	began := time.Now()
	d := start(t, t.TempDir(), "--orders=20000", "--clients=10", "--faults=delay", "--limit=2s")
	if code := d.wait(); code != 4 {
		t.Errorf("exit code %d, want 4", code)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("a limit of 2 s ended after %s", took)
	}
	if s := proofOf(t, d); !s.ZeroDoubleCharges {
		t.Errorf("cut off, and charged twice: %+v", s)
	}
}

func TestKilledParentLeavesNobody(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	d := start(t, data)
	d.order("ord_A")
	pid := d.stats().ServicePid
	if pid == 0 {
		t.Fatal("the service has no process")
	}
	d.set("delay") // and some that are under way
	const flying = 5
	for i := range flying {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/checkout",
			strings.NewReader(fmt.Sprintf(`{"orderId":"ord_%d"}`, i)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Prefer", "wait=0")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("an order that is under way: %s", resp.Status)
		}
	}
	d.await("runs that are half done", func(s stats) bool {
		return s.PendingOrders > 0 && s.Ledgers["loyalty"].Effects > s.Ledgers["order"].Effects
	})
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-d.end
	gone(t, pid)

	again := start(t, data) // nobody holds the folder or the store
	if code, status := again.order("ord_A"); code != http.StatusOK || status != "paid" {
		t.Errorf("the same order after a restart: %d %s", code, status)
	}
	again.once(again.atRest(1+flying), 1+flying)
}

// gone waits until a process has ended. It is not a child of this one, so there
// is nothing but to look.
func gone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		if fields := strings.Fields(string(stat)); len(fields) > 2 && fields[2] == "Z" {
			return // ended; whoever has inherited it has not looked yet
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("process %d lives on", pid)
		}
	}
}

func TestInterruptEndsEverything(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	d.order("ord_A")
	pid := d.stats().ServicePid
	d.stop()
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	gone(t, pid)
	var dialer net.Dialer
	if c, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(d.url, "http://")); err == nil {
		_ = c.Close()
		t.Error("somebody still answers")
	}
	entries, err := os.ReadDir(d.data)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"checkout.yaml", "gateway-ledger.jsonl", "loyalty-ledger.jsonl", "onced-data",
		"onced.log", "onced.yaml", "order-ledger.jsonl", "services.port", "shop-orders.jsonl", "shop.token",
		"voucher-ledger.jsonl"}
	if !slices.Equal(names, want) {
		t.Errorf("the folder holds %v, want %v", names, want)
	}
}

// A service that was killed from outside is started again, and what was under
// way comes to its end.
func TestServiceComesBack(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	d.order("ord_A")
	pid := d.stats().ServicePid
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code, status := d.order("ord_B"); code != http.StatusOK || status != "paid" {
		t.Errorf("checkout: %d %s", code, status)
	}
	s := d.atRest(2)
	d.once(s, 2)
	if s.ServicePid == pid || s.ServiceStarts != 2 {
		t.Errorf("the service was not started again: %+v", s)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	d.set("drop", "keys", "crash")
	d.order("ord_A")
	d.set("reset")
	s := d.stats()
	if s.DistinctOrders != 0 || s.RealCharges != 0 {
		t.Errorf("the books are not empty: %+v", s)
	}
	for name, on := range s.Toggles {
		if on {
			t.Errorf("%s is still on", name)
		}
	}
	// The service has forgotten the key too, or this would be a replay.
	if code, status := d.order("ord_A"); code != http.StatusOK || status != "paid" {
		t.Errorf("checkout: %d %s", code, status)
	}
	d.once(d.atRest(1), 1)
}

func TestProofHoldsWhenTheGatewayHonoursKeys(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir(), "--orders=80", "--faults=all,keys", "--seed=5")
	if code := d.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s := proofOf(t, d)
	if !s.Proven || !s.Toggles["keys"] || s.Ledgers["charge"].Standing != s.PaidOrders {
		t.Errorf("the proof: %+v", s)
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "demo")
	code, text := runDemo(t, "--port="+port, "--data", data)
	if code != 1 || !strings.Contains(text, fmt.Sprintf("(process %d)", os.Getpid())) ||
		!strings.Contains(text, ", or use --port=") || strings.Contains(text, "--port="+port) {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Error("a start that failed left a folder behind")
	}
}

// runDemo runs a demo that ends by itself.
func runDemo(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, append([]string{"demo"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func TestFolderOfSomethingElse(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	file := filepath.Join(data, "onced.db")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, text := runDemo(t, "--port=0", "--data", data, "--orders=1")
	if code != 1 || !strings.Contains(text, "--data") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "precious" {
		t.Errorf("the file of somebody else: %q, %v", kept, err)
	}
}

func TestFolderInUse(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	code, text := runDemo(t, "--port=0", "--data", d.root)
	if code != 3 || !strings.Contains(text, "another demo works in "+d.root) {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	d.order("ord_A") // and the first one goes on
	d.once(d.atRest(1), 1)
}

func TestWrongFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"--faults=earthquake", "earthquake"},
		{"--orders=-1", "--orders"},
		{"--clients=0", "--clients"},
		{"--orders=5 --limit=1ms", "--limit"},
		{"--clients=5000", "--clients"},
		{"--port=70000", "--port"},
	} {
		args := append(strings.Fields(c.args), "--data", filepath.Join(t.TempDir(), "demo"))
		code, text := runDemo(t, args...)
		if code != 2 || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit code %d:\n%s", c.args, code, text)
		}
	}
}

// Ctrl-C in the middle of a run prints what there is, and calls it no proof.
func TestInterruptedRun(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir(), "--orders=20000", "--clients=10", "--faults=delay")
	d.await("an order that is paid", func(s stats) bool { return s.PaidOrders > 0 })
	d.stop()
	if code := d.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if s := proofOf(t, d); s.PaidOrders == 0 || !s.ZeroDoubleCharges {
		t.Errorf("the books so far: %+v", s)
	}
	text := d.out.String()
	for part, want := range map[string]bool{"stopped; the books so far": true,
		"was stopped before its end": true,
		"context canceled":           false, "proven:": false, "ended with an error": false} {
		if strings.Contains(text, part) != want {
			t.Errorf("it says %q: %v, want %v", part, !want, want)
		}
	}
}
