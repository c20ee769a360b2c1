package cli

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/api/client"
)

// again starts "onced serve" once more in the folder of p, at its address, and returns
// when the port is open, with the instant.
func (p *process) again() (opened time.Time) {
	p.t.Helper()
	path, err := program()
	if err != nil {
		p.t.Fatal(err)
	}
	p.out, p.errs = new(buffer), new(buffer)
	p.cmd = exec.CommandContext(context.Background(), path, "serve", "--listen="+p.addr, "--store.min_free=0")
	p.cmd.Dir, p.cmd.Env = p.dir, []string{"HOME=" + p.dir}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.errs
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd := p.cmd
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for {
		c, err := new(net.Dialer).DialContext(p.t.Context(), "tcp", p.addr)
		if err == nil {
			_ = c.Close()
			return time.Now()
		}
		if p.t.Context().Err() != nil {
			p.t.Fatalf("it does not listen: %s", p.errs)
		}
		runtime.Gosched()
	}
}

// cli runs a command as a process beside the service.
func (p *process) cli(token string, words ...string) result {
	p.t.Helper()
	return run(p.t, append([]string{"ONCED_URL=http://" + p.addr, "ONCED_TOKEN=" + token}, words...)...)
}

// holdCharges makes c keep charges waiting until answer is called; arrived says when the
// first comes after that. Those kept waiting are heard too, their keys are of "held".
func holdCharges(c *callee) (answer func(), arrived <-chan time.Time) {
	c.heard = make(chan string, 1000)
	hold, first := make(chan struct{}), make(chan time.Time, 1)
	var once sync.Once
	inner := c.Config.Handler
	c.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/charges" {
			select {
			case <-hold:
				once.Do(func() { first <- time.Now() })
			default: // the process will be killed before the answer
				c.mu.Lock()
				c.keys["held"] = append(c.keys["held"], r.Header.Get("Idempotency-Key"))
				c.mu.Unlock()
				c.heard <- r.URL.Path
				<-hold
				return
			}
		}
		inner.ServeHTTP(w, r)
	})
	return func() { close(hold) }, first
}

// Runs that were under way when the process was killed go on at the next start by
// themselves, and at once; no effect happens twice.
func TestProcessGoesOnWithRunsAfterSIGKILL(t *testing.T) {
	const runs = 20
	c := newCallee(t)
	answer, arrived := holdCharges(c)
	text := strings.Replace(checkout(c.URL), "- name: charge\n", "- name: charge\n  repeatable: 24h\n"+
		"  settles_after: 10ms\n", 1)
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "checkout.yaml"), text)
	p := spawn(t, "sagas: {definitions: ["+folder+"]}\nsecrets: {shop: {value: hush-hush}}\n")
	token := regexp.MustCompile(`onced_[a-z0-9]+`).FindString(p.out.String())
	for i := range runs {
		p.cli(token, "saga", "start", "checkout", "order-"+strconv.Itoa(i), `--input={"order":"o"}`).
			want(t, ExitOK, "started: running")
	}
	for charged := 0; charged < runs; { // all have sent the charge
		if <-c.heard == "/charges" {
			charged++
		}
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	answer()
	killed := p.errs.String()
	for len(c.heard) > 0 {
		<-c.heard
	}

	opened := p.again()
	// Before anybody has asked for anything; it may come before our look at the port.
	took := (<-arrived).Sub(opened)
	t.Logf("the first call came %v after the port was open", took)
	if took > 10*time.Second { // milliseconds on an idle machine
		t.Errorf("the first call came %v after the port was open", took)
	}
	var page client.RunPage
	got := p.cli(token, "saga", "list", "--output=json")
	if err := json.Unmarshal([]byte(got.out), &page); err != nil || len(page.Runs) != runs {
		t.Fatalf("%v: %+v", err, got)
	}
	for _, r := range page.Runs {
		p.cli(token, "saga", "show", r.ID, "--wait=1m").want(t, ExitOK, "completed")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, calls := range map[string]int{"/points": runs, "/charges": runs, "/orders": runs} {
		distinct := map[string]bool{}
		for _, key := range c.keys[path] {
			distinct[key] = true
		}
		if len(distinct) != runs || len(c.keys[path]) != calls { // those that were held are not counted
			t.Errorf("%s was called %d times with %d keys, want %d runs", path, len(c.keys[path]),
				len(distinct), runs)
		}
	}
	slices.Sort(c.keys["held"])
	if slices.Sort(c.keys["/charges"]); !slices.Equal(c.keys["held"], c.keys["/charges"]) {
		t.Error("the charges were sent again with other keys")
	}
	if log := killed + p.errs.String(); strings.Contains(log, "hush") {
		t.Errorf("a secret is logged: %s", log)
	}
}
