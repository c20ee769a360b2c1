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

// holdCharges makes c keep charges waiting until answer is called; arrived tells of each
// charge when it came. The keys of those that are kept waiting are those of "held".
func holdCharges(c *callee) (answer func(), arrived <-chan time.Time) {
	hold, came := make(chan struct{}), make(chan time.Time, 1000)
	inner := c.Config.Handler
	c.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/charges" {
			came <- time.Now()
			select {
			case <-hold:
			default: // the process will be killed before the answer
				c.mu.Lock()
				c.keys["held"] = append(c.keys["held"], r.Header.Get("Idempotency-Key"))
				c.mu.Unlock()
				<-hold
				return
			}
		}
		inner.ServeHTTP(w, r)
	})
	return func() { close(hold) }, came
}

// Runs that were under way when the process was killed go on at the next start by
// themselves, within a second of the opening of the port; no effect happens twice. The
// process is killed several times and the median is held against the second: a single
// start may be slowed by whatever else a machine of tests does.
func TestA2_17_A2_19_ProcessGoesOnWithRunsAfterSIGKILL(t *testing.T) {
	const runs, kills = 20, 5
	c := newCallee(t)
	answer, arrived := holdCharges(c)
	text := strings.Replace(checkout(c.URL), "- name: charge\n", "- name: charge\n  repeatable: 24h\n"+
		"  settles_after: 10ms\n", 1)
	text = strings.Replace(text, "retry: {attempts: 2,", "retry: {attempts: 100,", 1)
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "checkout.yaml"), text)
	p := spawn(t, "sagas: {definitions: ["+folder+"]}\nsecrets: {shop: {value: hush-hush}}\n")
	token := regexp.MustCompile(`onced_[a-z0-9]+`).FindString(p.out.String())
	for i := range runs {
		p.cli(token, "saga", "start", "checkout", "order-"+strconv.Itoa(i), `--input={"order":"o"}`,
			"--principal=shop").want(t, ExitOK, "started: running")
	}
	for range runs { // all have sent the charge
		<-arrived
	}
	log := ""
	var took []time.Duration
	for kill := range kills {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		log += p.errs.String()
		if kill == kills-1 {
			answer()
		}
		opened := p.again()
		// Before anybody has asked for anything; it may come before our look at the port.
		took = append(took, (<-arrived).Sub(opened))
		for range runs - 1 {
			<-arrived
		}
	}
	slices.Sort(took)
	t.Logf("the first call came %v after the port was open", took)
	if median := took[kills/2]; median > time.Second { // milliseconds on an idle machine
		t.Errorf("the first call came %v after the port was open, in the median of %v", median, took)
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
	held := slices.Compact(c.keys["held"])
	if slices.Sort(c.keys["/charges"]); !slices.Equal(held, c.keys["/charges"]) {
		t.Error("the charges were sent again with other keys")
	}
	if log += p.errs.String(); strings.Contains(log, "hush") {
		t.Errorf("a secret is logged: %s", log)
	}
}
