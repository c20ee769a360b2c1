package demo

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"onced/api/demo/callee"
)

// Child is the side of the demo that lives in the service's process. It changes
// nothing about the service but that it may stop at a point to be killed there.
//
// The parent writes lines of a number and the point that is armed, none when
// there is nothing after the number; the child answers ok and the number. By
// itself it says where it is ready, and at which point and order it has stopped.
type Child struct {
	out io.Writer

	mu    sync.Mutex
	armed string
}

// NewChild listens to the parent. When the parent has gone, in is closed, and
// exit ends the process: kill -9 of the parent leaves nobody behind.
func NewChild(in io.Reader, out io.Writer, exit func(code int)) *Child {
	c := &Child{out: out}
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			number, point, _ := strings.Cut(lines.Text(), " ")
			c.mu.Lock()
			c.armed = point
			c.mu.Unlock()
			_, _ = fmt.Fprintf(c.out, "ok %s\n", number)
		}
		exit(0)
	}()
	return c
}

// Ready tells the parent where the routes are.
func (c *Child) Ready(addr string) { _, _ = fmt.Fprintf(c.out, "ready %s\n", addr) }

// The headers of a call of the shop, which the service passes over. againHeader says
// that the shop has asked about the order before.
const (
	againHeader = "Demo-Again"
	orderHeader = callee.OrderHeader
)

// The paths of the service that the child looks at.
const (
	runsPath      = "/v1/runs"
	callbacksPath = "/v1/callbacks/"
)

// Wrap puts the points of the child around a handler. A call for an order that
// was asked about before is not at the first of them, nor at the last: neither is
// where the point says it is.
func (c *Child) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order := r.Header.Get(orderHeader)
		switch {
		case r.Method != http.MethodPost:
		case r.URL.Path == runsPath:
			if r.Header.Get(againHeader) == "" {
				c.pass(beforeIntent, order)
				o := &outcomeWriter{ResponseWriter: w, child: c, order: order, point: afterOutcome}
				defer o.flush()
				w = o
			}
		case strings.HasPrefix(r.URL.Path, callbacksPath):
			c.pass(beforeCallback, order)
			o := &outcomeWriter{ResponseWriter: w, child: c, order: order, point: afterCallback}
			defer o.flush()
			w = o
		}
		next.ServeHTTP(w, r)
	})
}

// pass never returns when the point is armed: the parent is told and kills.
func (c *Child) pass(point, order string) {
	c.mu.Lock()
	armed := c.armed == point
	c.mu.Unlock()
	if armed {
		_, _ = fmt.Fprintf(c.out, "at %s %s\n", point, order)
		select {}
	}
}

// endedRun finds in an answer that a run has ended.
var endedRun = regexp.MustCompile(`"(state|status)" ?: ?"(completed|compensated)"`)

// outcomeWriter stops before an answer that tells something new: it is in the store
// by then. The status waits for the body, which says whether a run has ended.
type outcomeWriter struct {
	http.ResponseWriter
	child  *Child
	order  string
	point  string
	status int
	sent   bool
}

// WriteHeader keeps the status until there is a body, or the end.
func (w *outcomeWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write writes a part of the body; without a status before it that is 200.
func (w *outcomeWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.status/100 == 2 && w.point == afterOutcome && endedRun.Match(p) {
		w.child.pass(w.point, w.order)
	}
	w.flush()
	return w.ResponseWriter.Write(p)
}

// flush sends the status, unless that is where to stop.
func (w *outcomeWriter) flush() {
	if w.sent || w.status == 0 {
		return
	}
	w.sent = true
	if w.status/100 == 2 && w.point == afterCallback {
		w.child.pass(w.point, w.order)
	}
	w.ResponseWriter.WriteHeader(w.status)
}

// Unwrap gives http.ResponseController the writer below.
func (w *outcomeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
