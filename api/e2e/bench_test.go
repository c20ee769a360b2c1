package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"onced/kv/boltkv/baretest"
)

// skeletonEnv makes this test binary a skeleton: it holds the address of the
// service behind and, after a blank, the folder for the file.
const skeletonEnv = "E2E_SKELETON"

// serveSkeleton does for each request what it costs at the very least: commits of
// rows of 300 bytes, and a call of the service behind between each two. For a claim
// (/) those are two and one, for a saga of three steps (/saga) four and three, and
// when its third step is refused and two are undone (/undone) six and five. It reads
// no key, stores no answer and guards nothing.
func serveSkeleton() {
	upstream, dir, _ := strings.Cut(os.Getenv(skeletonEnv), " ")
	g, err := baretest.Open(filepath.Join(dir, "bare.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: 600, MaxIdleConnsPerHost: 600}}
	call := func() error {
		req, err := http.NewRequestWithContext(context.Background(), "POST", upstream+"/charges",
			strings.NewReader(payload))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return nil
	}
	work := func(key string, calls int) error {
		for i := range calls {
			if err := g.Put([]byte(key+"-"+strconv.Itoa(i)), make([]byte, 300)); err != nil {
				return err
			}
			if err := call(); err != nil {
				return err
			}
		}
		return g.Put([]byte(key+"-last"), make([]byte, 300))
	}
	calls := map[string]int{"/": 1, "/saga": 3, "/undone": 5}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("http://%s\n", l.Addr())
	server := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if err := work(r.Header.Get("Idempotency-Key"), calls[r.URL.Path]); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(w, `{"state":"done"}`)
		})}
	fmt.Println(server.Serve(l))
}

const (
	payload = `{"order":"o-1234567890","cents":4999,"currency":"EUR"}`
	// oneRound is how long one contender is measured in one round.
	oneRound = 700 * time.Millisecond
)

// benched is a service with its contenders.
type benched struct {
	*service
	skeleton string // URL
	keys     atomic.Int64
}

const benchYAML = `
sagas: {definitions: [sagas]}
routes:
- {path: /charges, name: repeatable, upstream: UPSTREAM, repeatable: true}
- path: /b/charges
  name: check
  strip_prefix: /b
  upstream: UPSTREAM
  check: {path: "/charges/{downstream_key}", done: {status: [200]}, absent: {status: [404]}}
- {path: /c/charges, name: neither, strip_prefix: /c, upstream: UPSTREAM}
`

func newBenched(b *testing.B) *benched {
	g := newGateway(b)
	g.mu.Lock()
	g.answer = func(w http.ResponseWriter, r *http.Request) bool {
		g.got0()
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/declined" {
			w.WriteHeader(http.StatusPaymentRequired)
		}
		_, _ = io.WriteString(w, `{"ok":true}`)
		return true
	}
	g.mu.Unlock()
	s := &benched{service: startWith(b, g, benchYAML, map[string]string{
		"good": sagaOf("good", "/orders"), "bad": sagaOf("bad", "/declined")})}
	said := newLines()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), self)
	cmd.Env = []string{skeletonEnv + "=http://" + g.addr + " " + b.TempDir()}
	cmd.Stdout = said
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s.skeleton = regexp.MustCompile(`http://\S+`).FindString(said.await(b, "\n", 1))
	return s
}

// got0 forgets what was sent: a benchmark keeps no ledger.
func (g *gateway) got0() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sends = g.sends[:0]
}

// measured is what one contender did in one round.
type measured struct {
	rate     float64 // requests a second
	p50, p99 time.Duration
}

// load sends what next makes, from clients that each wait for their answer, for
// one round.
func load(b *testing.B, clients int, next func() *http.Request) measured {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConns: clients,
		MaxIdleConnsPerHost: clients, DisableCompression: true}}
	defer client.CloseIdleConnections()
	took := make([][]time.Duration, clients)
	var all sync.WaitGroup
	begin := time.Now()
	for c := range clients {
		all.Go(func() {
			for time.Since(begin) < oneRound {
				sent := time.Now()
				resp, err := client.Do(next())
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode/100 != 2 {
					b.Error(resp.Status)
					return
				}
				took[c] = append(took[c], time.Since(sent))
			}
		})
	}
	all.Wait()
	whole := time.Since(begin)
	sorted := slices.Sorted(slices.Values(slices.Concat(took...)))
	if len(sorted) == 0 {
		return measured{}
	}
	return measured{rate: float64(len(sorted)) / whole.Seconds(), p50: sorted[len(sorted)/2],
		p99: sorted[(len(sorted)-1)*99/100]}
}

// contender makes the requests of one side of a comparison.
type contender struct {
	name string
	next func() *http.Request
}

// compare measures all contenders in each round, another one first each time, and
// reports medians, and the ratio of each to the first in the same round.
func compare(b *testing.B, clients int, all ...contender) {
	got := make([][]measured, len(all))
	for round := 0; b.Loop(); round++ {
		for i := range all {
			i = (i + round) % len(all)
			got[i] = append(got[i], load(b, clients, all[i].next))
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, c := range all {
		var rates, ratios, tails, halves []float64
		for round, m := range got[i] {
			rates = append(rates, m.rate)
			ratios = append(ratios, m.rate/got[0][round].rate)
			tails = append(tails, float64(m.p99)/float64(max(m.p50, 1)))
			halves = append(halves, m.p50.Seconds()*1000)
		}
		b.ReportMetric(median(rates), c.name+"/s")
		b.ReportMetric(median(halves), c.name+"-p50-ms")
		b.ReportMetric(median(tails), c.name+"-p99/p50")
		if i > 0 {
			b.ReportMetric(median(ratios), c.name+"-of-"+all[0].name)
		}
	}
}

func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

// fresh makes requests with a key of their own to a URL.
func (s *benched) fresh(url string) func() *http.Request {
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	return func() *http.Request { return s.to(url, run+"-"+strconv.FormatInt(s.keys.Add(1), 10)) }
}

func (s *benched) to(url, key string) *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), "POST", url, strings.NewReader(payload))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.client)
	r.Header.Set("Idempotency-Key", key)
	return r
}

// BenchmarkOnce measures a claim, a call of the service behind and the stored
// result, by 1 to 256 clients, through routes whose service behind honours keys,
// can be asked, and neither. Choose the number of rounds with -benchtime=5x.
func BenchmarkOnce(b *testing.B) {
	s := newBenched(b)
	for _, clients := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			compare(b, clients, contender{"skeleton", s.fresh(s.skeleton)},
				contender{"repeatable", s.fresh("http://" + s.addr + "/charges")},
				contender{"check", s.fresh("http://" + s.addr + "/b/charges")},
				contender{"neither", s.fresh("http://" + s.addr + "/c/charges")})
		})
	}
}

// BenchmarkReplay measures replays of one finished key, against the most trivial
// answer of the same server.
func BenchmarkReplay(b *testing.B) {
	s := newBenched(b)
	url := "http://" + s.addr
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			compare(b, clients, contender{"livez", func() *http.Request {
				r, err := http.NewRequestWithContext(context.Background(), "GET", url+"/livez", http.NoBody)
				if err != nil {
					panic(err)
				}
				return r
			}}, contender{"replay", func() *http.Request { return s.to(url+"/charges", "finished") }})
		})
	}
}
