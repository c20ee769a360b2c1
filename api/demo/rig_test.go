package demo_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// program is the real binary, built once.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "onced-demo-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "onced")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", program, "onced")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	code := 1
	if err := build.Run(); err == nil {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// patience bounds every wait of a test.
const patience = 90 * time.Second

// stats is what the tests read of /stats.
type stats struct {
	DistinctOrders    int  `json:"distinctOrders"`
	RealCharges       int  `json:"realCharges"`
	ZeroDoubleCharges bool `json:"zeroDoubleCharges"`
	Proven            bool `json:"proven"`
	Protected         bool `json:"protected"`

	PaidOrders    int `json:"paidOrders"`
	FailedOrders  int `json:"failedOrders"`
	PendingOrders int `json:"pendingOrders"`

	OrdersWithChargesNot1 int `json:"ordersWithChargesNot1"`
	MostChargesOnOneOrder int `json:"mostChargesOnOneOrder"`
	MostEffectsOnOneOrder int `json:"mostEffectsOnOneOrder"`

	Ledgers map[string]struct {
		Effects, Undone, Standing, Refused, Most int
	} `json:"ledgers"`
	Findings struct {
		EffectsTwice          int `json:"effectsTwice"`
		UndosWithoutEffect    int `json:"undosWithoutEffect"`
		PaidWithoutEffect     int `json:"paidWithoutEffect"`
		FailedWithEffect      int `json:"failedWithEffect"`
		EffectsWithoutOrder   int `json:"effectsWithoutOrder"`
		EffectsOfWrongValue   int `json:"effectsOfWrongValue"`
		OrdersOfUnknownCharge int `json:"ordersOfUnknownCharge"`
		FailedWithoutRefusal  int `json:"failedWithoutRefusal"`
	} `json:"findings"`
	NeedPerson int `json:"needPerson"`

	OpenUnknowns   int `json:"openUnknowns"`
	OldestUnknowns []struct {
		OrderID string `json:"orderId"`
		AgeMS   int    `json:"ageMs"`
	} `json:"oldestUnknowns"`
	CallbacksSent int `json:"callbacksSent"`

	ServiceStarts int             `json:"serviceStarts"`
	ServicePid    int             `json:"servicePid"`
	Kills         map[string]int  `json:"kills"`
	Toggles       map[string]bool `json:"toggles"`
	WrongOrders   []struct {
		OrderID string `json:"orderId"`
		Charges int    `json:"charges"`
	} `json:"wrongOrders"`
}

// running is a demo in a process of its own.
type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	root string // the folder --data
	data string // the books in it
	url  string
	out  *bytes.Buffer // stdout and stderr; read it after the end
	end  chan struct{}
	err  error
}

var urlInLine = regexp.MustCompile(`http://localhost:\d+`)

// start runs the demo on a free port and returns when it says where it is.
func start(t *testing.T, data string, args ...string) *running {
	t.Helper()
	d := &running{t: t, root: data, data: booksOf(data, args),
		out: new(bytes.Buffer), end: make(chan struct{})}
	d.cmd = exec.CommandContext(context.Background(), program,
		append([]string{"demo", "--port=0", "--data", data}, args...)...)
	d.cmd.Env = append(os.Environ(), "ONCED_LISTEN=not an address") // must not reach the service
	r, w := io.Pipe()
	d.cmd.Stdout, d.cmd.Stderr = w, w
	found := make(chan string, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			d.out.WriteString(lines.Text() + "\n")
			if u := urlInLine.FindString(lines.Text()); u != "" {
				select {
				case found <- u:
				default:
				}
			}
		}
	})
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.err = d.cmd.Wait()
		_ = w.Close()
		reading.Wait()
		close(d.end)
	}()
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(d.data, "onced.log"))
			t.Logf("the demo said:\n%s\nits service:\n%s", d.out, log)
		}
	})
	select {
	case d.url = <-found:
	case <-d.end:
		t.Fatalf("the demo ended at its start: %v\n%s", d.err, d.out)
	case <-time.After(patience):
		t.Fatal("the demo does not start")
	}
	return d
}

// booksOf is where a demo with these flags keeps its books.
func booksOf(data string, args []string) string {
	kind, bare := "interactive", ""
	for _, a := range args {
		if strings.HasPrefix(a, "--orders") {
			kind = "load"
		}
		if a == "--unprotected" {
			bare = "-unprotected"
		}
	}
	return filepath.Join(data, kind+bare)
}

// stop interrupts the demo, as Ctrl-C does, and waits for its end.
func (d *running) stop() {
	_ = d.cmd.Process.Signal(os.Interrupt)
	d.wait()
}

func (d *running) wait() (code int) {
	d.t.Helper()
	select {
	case <-d.end:
	case <-time.After(patience):
		_ = d.cmd.Process.Kill()
		<-d.end
		d.t.Fatal("the demo does not end")
	}
	return d.cmd.ProcessState.ExitCode()
}

func (d *running) post(path, body string) (status int, answer map[string]any) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Errorf("POST %s: %v", path, err)
		return 0, nil
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		d.t.Errorf("POST %s: %s: %v", path, resp.Status, err)
	}
	return resp.StatusCode, answer
}

// order places an order, once, and returns its status.
func (d *running) order(id string) (code int, status string) {
	d.t.Helper()
	code, answer := d.post("/checkout", `{"orderId":"`+id+`"}`)
	status, _ = answer["status"].(string)
	return code, status
}

// set flips switches and checks what the answers say.
func (d *running) set(paths ...string) {
	d.t.Helper()
	for _, p := range paths {
		if code, answer := d.post("/toggle/"+p, ""); code != http.StatusOK || answer["value"] != true {
			d.t.Fatalf("toggle %s: %d %v", p, code, answer)
		}
	}
}

func (d *running) stats() (s stats) {
	d.t.Helper()
	_, text := d.get("/stats")
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		d.t.Fatal(err)
	}
	return s
}

func (d *running) get(path string) (status int, body string) {
	d.t.Helper()
	return d.request(http.MethodGet, path, "")
}

// request sends what a browser would, with pairs of names and values of headers,
// and follows no redirects.
func (d *running) request(method, path, body string, header ...string) (status int, text string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	if resp.Header.Get("Location") != "" {
		return resp.StatusCode, "to " + resp.Header.Get("Location")
	}
	policy := resp.Header.Get("Content-Security-Policy")
	if resp.StatusCode == http.StatusOK && policy != wantPolicy {
		d.t.Errorf("%s: the policy is %q", path, policy)
	}
	return resp.StatusCode, string(answer)
}

// wantPolicy lets the page load its own files and nothing else.
const wantPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// await reads the live stream, and the stats with each of its messages, until
// they are as wanted.
func (d *running) await(what string, wanted func(stats) bool) stats {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/events", http.NoBody)
	if err != nil {
		d.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if s := d.stats(); wanted(s) {
			return s
		}
	}
	d.t.Fatalf("waited in vain for: %s; stats: %+v", what, d.stats())
	return stats{}
}

// atRest waits until every order came to its end.
func (d *running) atRest(orders int) stats {
	d.t.Helper()
	return d.await(fmt.Sprintf("%d orders to end", orders), func(s stats) bool {
		return s.DistinctOrders == orders && s.PendingOrders == 0
	})
}

// once checks that all four steps of every order stand, once.
func (d *running) once(s stats, orders int) {
	d.t.Helper()
	if s.DistinctOrders != orders || s.RealCharges != orders || s.PaidOrders != orders ||
		!s.ZeroDoubleCharges || !s.Proven || s.MostChargesOnOneOrder > 1 {
		d.t.Errorf("not every one of %d orders was charged once: %+v", orders, s)
	}
	for name, l := range s.Ledgers {
		if l.Effects != orders || l.Standing != orders {
			d.t.Errorf("%s: %+v, want %d", name, l, orders)
		}
	}
}
