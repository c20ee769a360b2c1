package demo

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"onced/saga/idemhttp"
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

// againHeader is the header of a call for an order that the shop has asked about before.
// The service passes it over.
const againHeader = "Demo-Again"

// Wrap puts the points of the child around a handler. A call for an order that
// was asked about before is not at the first of them, and an answer that the
// service had written down before is not at the last: neither is where the point
// says it is.
func (c *Child) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == chargesPath {
			key := r.Header.Get("Idempotency-Key")
			if r.Header.Get(againHeader) == "" {
				c.pass(beforeIntent, key)
			}
			w = &outcomeWriter{ResponseWriter: w, child: c, key: key}
		}
		next.ServeHTTP(w, r)
	})
}

// pass never returns when the point is armed: the parent is told and kills.
func (c *Child) pass(point, key string) {
	c.mu.Lock()
	armed := c.armed == point
	c.mu.Unlock()
	if armed {
		_, _ = fmt.Fprintf(c.out, "at %s %s\n", point, key)
		select {}
	}
}

// outcomeWriter stops before an answer that tells a new outcome: it is in the
// store by then.
type outcomeWriter struct {
	http.ResponseWriter
	child *Child
	key   string
	wrote bool
}

// WriteHeader sends the status, unless that is where to stop.
func (w *outcomeWriter) WriteHeader(status int) {
	w.wrote = true
	replayed := w.Header().Get(idemhttp.ReplayedHeader) != ""
	if !replayed && (status/100 == 2 || status == http.StatusPaymentRequired) {
		w.child.pass(afterOutcome, w.key)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body; without a status before it that is 200.
func (w *outcomeWriter) Write(p []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController the writer below.
func (w *outcomeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
