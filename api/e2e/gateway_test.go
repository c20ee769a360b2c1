package e2e

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// seen is a request that reached the gateway.
type seen struct {
	method, target, host, body string
	header                     http.Header
	length                     int64
	encoding                   []string
}

// gateway is the service behind, with a ledger.
type gateway struct {
	addr string

	mu     sync.Mutex
	sends  []seen
	answer func(w http.ResponseWriter, r *http.Request) bool // true: it has answered
}

func newGateway(t testing.TB) *gateway {
	g := &gateway{}
	server := httptest.NewUnstartedServer(g)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	g.addr = server.Listener.Addr().String()
	return g
}

// ServeHTTP charges, whatever is asked.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g.mu.Lock()
	g.sends = append(g.sends, seen{r.Method, r.RequestURI, r.Host, string(body), r.Header.Clone(),
		r.ContentLength, r.TransferEncoding})
	n, answer := len(g.sends), g.answer
	g.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"charge":%d}`, n)
}

// got returns what has been sent so far, and forgets it.
func (g *gateway) got() []seen {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.sends
	g.sends = nil
	return out
}

// nothing fails when anything has reached the gateway.
func (g *gateway) nothing(t testing.TB, what string) {
	t.Helper()
	for _, r := range g.got() {
		t.Errorf("%.200q reached the service behind: %s %.200s", what, r.method, r.target)
	}
}

// newWire is a service behind that answers every request with bytes, and then
// does what then says, which may be nothing.
func newWire(t testing.TB, then func(net.Conn), answer string) *gateway {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{addr: l.Addr().String()}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				body, _ := io.ReadAll(r.Body)
				g.mu.Lock()
				g.sends = append(g.sends, seen{method: r.Method, target: r.RequestURI, body: string(body)})
				g.mu.Unlock()
				if _, err := io.WriteString(c, answer); err == nil && then != nil {
					then(c)
				}
			})
		}
	})
	return g
}

// memory is what the child has in memory, in bytes, where the system tells; else
// 0, which is below every limit.
func (s *service) memory() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kib << 10
}
