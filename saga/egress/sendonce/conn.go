package sendonce

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// conn is a connection, used for one request at a time by its goroutine, and by the one
// that writes a long body.
type conn struct {
	net.Conn // what is spoken over: TLS, or wire

	transport *Transport
	at        origin
	wire      *wire
	in        *bufio.Reader
	left      int64   // bytes of the answer's header that may still come
	got       bool    // a byte of the answer is there
	used      bool    // it has carried a request before
	asked     bool    // the callee wanted to see our certificate
	failed    error   // of a write
	one       [1]byte // see over
	idleAt    uint64  // Transport.swept when it became idle
}

// reader reads from a connection as long as the header is not too large.
type reader conn

var errHeader = errors.New("sendonce: the header of the answer is too large")

// Read implements [io.Reader].
func (r *reader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errHeader
	}
	n, err := r.Conn.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	r.got = r.got || n > 0
	return n, err
}

// writer writes to a connection and keeps the error, which net/http hides.
type writer conn

// Write implements [io.Writer].
func (w *writer) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err != nil {
		w.failed = err
	}
	return n, err
}

// writers are buffers that hold a request whose body is written at once.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, InlineBody+4<<10) }}

// write writes r. Its error is that of the connection, if that failed.
func (c *conn) write(r *http.Request) error {
	out, _ := writers.Get().(*bufio.Writer)
	out.Reset((*writer)(c))
	err := r.Write(out)
	if err == nil {
		err = out.Flush()
	}
	out.Reset(nil)
	writers.Put(out)
	if c.failed != nil {
		return c.failed
	}
	return err
}

// over reports that the other side has closed an idle connection, or has sent something
// that nobody waits for. It looks into what TLS has taken in, too, and does not wait.
func (c *conn) over() bool {
	c.wire.idle = true
	n, err := c.Conn.Read(c.one[:])
	c.wire.idle = false
	return n > 0 || !errors.Is(err, errNothing)
}

// close does not say goodbye by TLS: that could wait for one who does not read.
func (c *conn) close() { _ = c.wire.Close() } // nothing is lost

// exchange sends r and returns its answer. The connection is closed, or goes back to the
// idle ones, when the answer's body is read or closed, and with an error at once.
func (c *conn) exchange(ctx context.Context, r *http.Request) (*http.Response, Fate, error) {
	x := &exchange{conn: c, ctx: ctx, keep: !closes(r)}
	reused, before := c.used, c.wire.taken
	c.used, c.got, c.failed, c.left = true, false, nil, c.transport.cfg.MaxHeader
	x.stop = context.AfterFunc(ctx, c.close)
	err := x.write(r)
	var resp *http.Response
	if err == nil {
		resp, err = x.answer(r)
	}
	if err == nil {
		return resp, Sent, nil
	}
	x.end(cut)
	ours := x.failed != nil && c.failed == nil // the request itself cannot be written
	if ours {
		err = x.failed
	}
	switch {
	case c.wire.taken == before:
		return nil, NotSent, endOf(ctx, err)
	case c.got || c.spoke(err):
		return nil, Answered, endOf(ctx, err)
	case reused && !ours && ctx.Err() == nil:
		return nil, Broke, err
	}
	return nil, Sent, endOf(ctx, err)
}

// spoke reports that err is an alert of the callee's that is not about the greeting. With
// TLS 1.3 this side is ready first: the other has still to look at our certificate, if it
// has asked for one.
func (c *conn) spoke(err error) bool {
	op, alert := errors.AsType[*net.OpError](err)
	over, isTLS := c.Conn.(*tls.Conn)
	return alert && op.Op == "remote error" && isTLS &&
		(!c.asked || over.ConnectionState().Version < tls.VersionTLS13)
}

// closes reports that r asks for its connection to be closed.
func closes(r *http.Request) bool {
	return r.Close || httpguts.HeaderValuesContainsToken(r.Header["Connection"], "close")
}

// exchange is one request and its answer. It is the body of the answer, too.
type exchange struct {
	conn   *conn
	ctx    context.Context
	stop   func() bool   // that the end of ctx closes the connection
	keep   bool          // the connection may be used again
	wrote  chan struct{} // is closed when a long body is written; nil of others
	failed error         // of writing the request, once it is written
	body   io.ReadCloser
	ended  atomic.Int32 // how; 0 is not yet
}

// How an exchange has ended.
const (
	whole = iota + 1 // the answer was read to its end
	cut              // it was not
)

// write writes r, or begins to.
func (x *exchange) write(r *http.Request) error {
	if r.ContentLength <= InlineBody {
		x.failed = x.conn.write(r)
		return x.failed
	}
	x.wrote = make(chan struct{})
	go func() {
		defer close(x.wrote)
		x.failed = x.conn.write(r)
		switch {
		case x.failed == nil:
		case x.conn.failed == nil:
			x.conn.close() // the callee waits for the rest of the body, and we for the callee
		default: // an answer that came early is read; more does not come
			time.AfterFunc(linger, x.conn.close)
		}
	}()
	return nil
}

// linger is how long a long body may still be written when its answer has been read, for
// the callee has read it all before this side has heard so, and how long an answer may still
// be read when that writing has failed.
const linger = 50 * time.Millisecond

// written reports that the request has gone out whole.
func (x *exchange) written() bool {
	if x.wrote == nil {
		return true
	}
	late := time.NewTimer(linger)
	defer late.Stop()
	select {
	case <-x.wrote:
		return x.failed == nil
	case <-late.C: // the callee answered before it had read the request
		return false
	}
}

// answer reads the answer's header, and those of informational answers before it.
func (x *exchange) answer(r *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(x.conn.in, r)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF) && !x.conn.got:
			return nil, io.EOF
		case err != nil && x.conn.left <= 0:
			return nil, errHeader
		case err != nil:
			return nil, err
		case resp.StatusCode < 100:
			return nil, fmt.Errorf("sendonce: the status %d is none", resp.StatusCode)
		case resp.StatusCode == http.StatusSwitchingProtocols:
			resp.Body = http.NoBody
			x.end(cut)
			return resp, nil
		case resp.StatusCode < 200:
			continue
		}
		x.conn.left = math.MaxInt64
		x.keep = x.keep && !resp.Close && !unlikely(resp)
		if resp.Body == http.NoBody {
			x.end(whole)
			return resp, nil
		}
		x.body, resp.Body = resp.Body, x
		return resp, nil
	}
}

// unlikely reports an answer that has no body and announces one: it may come all the same.
func unlikely(resp *http.Response) bool {
	if resp.StatusCode != http.StatusNoContent {
		return false
	}
	length := resp.Header.Get("Content-Length")
	return length != "" && length != "0" || len(resp.TransferEncoding) > 0
}

// Read implements [io.Reader].
func (x *exchange) Read(p []byte) (int, error) {
	if x.ended.Load() == cut {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := x.body.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		x.end(whole)
	default:
		x.end(cut)
		err = endOf(x.ctx, err)
	}
	return n, err
}

// Close implements [io.Closer]. What was not read is not waited for.
func (x *exchange) Close() error {
	x.end(cut)
	return nil
}

// end gives the connection back or closes it. It may be called from several goroutines,
// of which one has its way. After it nobody reads the request's body.
func (x *exchange) end(how int32) {
	if !x.ended.CompareAndSwap(0, how) {
		return
	}
	keep := how == whole && x.keep && x.written()
	if x.stop() && keep && x.conn.in.Buffered() == 0 {
		x.conn.transport.put(x.conn)
		return
	}
	x.conn.close()
	if x.wrote != nil {
		<-x.wrote
	}
}
