package sendonce

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
)

// conn is a connection, used for one request at a time by its goroutine alone.
type conn struct {
	net.Conn // what is spoken over: TLS, or wire

	transport *Transport
	at        origin
	wire      *counted
	look      probe

	in     *bufio.Reader
	out    *bufio.Writer
	left   int64  // bytes of the answer's header that may still come
	got    bool   // a byte of the answer is there
	used   bool   // it has carried a request before
	idleAt uint64 // Transport.swept when it became idle
}

func (c *conn) buffers() {
	c.in, c.out = bufio.NewReader((*reader)(c)), bufio.NewWriter(c.Conn)
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

// exchange sends r and returns its answer. The connection is closed, or goes back to the
// idle ones, when the answer's body is read or closed, and with an error at once.
func (c *conn) exchange(ctx context.Context, r *http.Request) (*http.Response, Fate, error) {
	x := &exchange{conn: c, ctx: ctx, keep: !r.Close}
	reused, before := c.used, c.wire.taken
	c.used, c.got, c.left = true, false, c.transport.cfg.MaxHeader
	x.stop = context.AfterFunc(ctx, func() { _ = c.wire.Close() })
	err := x.write(r)
	var resp *http.Response
	if err == nil {
		resp, err = x.answer(r)
	}
	if err == nil {
		return resp, Sent, nil
	}
	x.end(false)
	if x.writing != nil { // it ends, for the connection is closed
		if failed := <-x.writing; failed != nil && !c.got {
			err = failed
		}
	}
	switch {
	case c.wire.taken == before:
		return nil, NotSent, endOf(ctx, err)
	case reused && !c.got && ctx.Err() == nil:
		return nil, Broke, err
	}
	return nil, Sent, endOf(ctx, err)
}

// exchange is one request and its answer. It is the body of the answer, too.
type exchange struct {
	conn    *conn
	ctx     context.Context
	stop    func() bool // that the end of ctx closes the connection
	keep    bool        // the connection may be used again
	writing chan error  // of a body that is still being written
	body    io.ReadCloser
	ended   bool
}

// write writes r, or begins to.
func (x *exchange) write(r *http.Request) error {
	if r.ContentLength <= InlineBody {
		return x.conn.write(r)
	}
	x.writing = make(chan error, 1)
	go func() { x.writing <- x.conn.write(r) }()
	return nil
}

func (c *conn) write(r *http.Request) error {
	err := r.Write(c.out)
	if err == nil {
		err = c.out.Flush()
	}
	if err != nil && c.wire.failed != nil {
		return c.wire.failed // net/http hides it
	}
	return err
}

// answer reads the answer's header, and those of informational answers before it.
func (x *exchange) answer(r *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(x.conn.in, r)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF) && !x.conn.got:
			return nil, io.EOF
		case err != nil:
			return nil, err
		case resp.StatusCode < 100:
			return nil, fmt.Errorf("sendonce: the status %d is none", resp.StatusCode)
		case resp.StatusCode == http.StatusSwitchingProtocols:
			resp.Body = http.NoBody
			x.end(false)
			return resp, nil
		case resp.StatusCode < 200:
			continue
		}
		x.conn.left = math.MaxInt64
		x.keep = x.keep && !resp.Close
		if resp.Body == http.NoBody {
			x.end(true)
			return resp, nil
		}
		x.body, resp.Body = resp.Body, x
		return resp, nil
	}
}

// Read implements [io.Reader].
func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.body.Read(p)
	switch {
	case err == nil || x.ended:
	case errors.Is(err, io.EOF):
		x.end(true)
	default:
		x.end(false)
		err = endOf(x.ctx, err)
	}
	return n, err
}

// Close implements [io.Closer]. What was not read is not waited for.
func (x *exchange) Close() error {
	x.end(false)
	return nil
}

// end gives the connection back; whole says that the answer was read to its end.
func (x *exchange) end(whole bool) {
	if x.ended {
		return
	}
	x.ended = true
	if x.writing != nil && whole {
		select {
		case err := <-x.writing:
			whole = err == nil
		default: // the callee answered before it had read the request
			whole = false
		}
	}
	if x.stop() && whole && x.keep && x.conn.in.Buffered() == 0 {
		x.conn.transport.put(x.conn)
		return
	}
	x.conn.close()
}

// close does not say goodbye by TLS: that could wait for one who does not read.
func (c *conn) close() { _ = c.wire.Close() } // nothing is lost
