package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"syscall"

	"onced/saga/egress/sendonce"
)

// Kind says what failed.
type Kind uint8

// The kinds.
const (
	// Failed: something else; the text of Err may hold what the callee sent.
	Failed Kind = iota
	// NotValid: the request cannot be sent as it is.
	NotValid
	// Blocked: the address is refused here, see [BlockedError].
	Blocked
	// NoName: the host's name does not resolve.
	NoName
	// NoConnection: no connection could be made.
	NoConnection
	// NoTLS: TLS failed; the callee's certificate is not accepted, for example.
	NoTLS
	// OurCertificate: the callee does not accept our certificate, or wants one.
	OurCertificate
	// TimedOut: a time limit passed.
	TimedOut
	// Canceled: the request's context was cancelled.
	Canceled
	// Broken: the connection broke.
	Broken
	// NotHTTP: what came is no answer, or its header is too large.
	NotHTTP
)

var kindTexts = [...]string{
	"the request failed",
	"the request cannot be sent",
	"the address is refused",
	"the name does not resolve",
	"no connection could be made",
	"TLS failed",
	"our certificate is not accepted",
	"there was no answer in time",
	"the request was cancelled",
	"the connection broke before the answer was there",
	"what came is not an HTTP answer, or its header is too large",
}

// String says it in a few words.
func (k Kind) String() string {
	if int(k) < len(kindTexts) {
		return kindTexts[k]
	}
	return kindTexts[Failed]
}

// Error is a request that has no answer, or none that is whole.
type Error struct {
	// Kind says what failed.
	Kind Kind
	// Host is the host, with the port if the URL has one.
	Host string
	// Sent is false when the callee certainly did not get the request, or said by TLS
	// that it takes none from us; and nothing more of it will be sent.
	Sent bool
	// Err is the error below. Its text may hold what the callee sent.
	Err error
}

// Error names the host and what failed. It holds nothing that the callee sent, and
// nothing of the request but the host.
func (e *Error) Error() string {
	s := e.Host + ": " + e.Kind.String()
	if detail := e.detail(); detail != "" {
		s += ": " + detail
	}
	return s
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports that a time limit passed.
func (e *Error) Timeout() bool { return e.Kind == TimedOut }

// detail is what is safe to show of the error below.
func (e *Error) detail() string {
	switch e.Kind {
	case NotValid:
		return e.Err.Error() // ours
	case Blocked:
		if b, ok := errors.AsType[*BlockedError](e.Err); ok {
			return b.Error()
		}
	case NoName:
		if d, ok := errors.AsType[*net.DNSError](e.Err); ok {
			return d.Err // the server that was asked is nobody's business
		}
	case NoConnection, Broken:
		if n, ok := errors.AsType[syscall.Errno](e.Err); ok {
			return n.Error()
		}
	case NoTLS, OurCertificate:
		if v, ok := errors.AsType[*tls.CertificateVerificationError](e.Err); ok {
			return v.Err.Error()
		}
		if o, ok := errors.AsType[*net.OpError](e.Err); ok && o.Op == remote {
			return o.Err.Error()
		}
	default: // the kind says it all
	}
	return ""
}

// newError makes the error of a request.
func newError(r *http.Request, fate sendonce.Fate, err error) *Error {
	sent := fate != sendonce.NotSent
	e := &Error{Kind: kindOf(err, sent), Host: r.URL.Host, Sent: sent, Err: err}
	if e.Kind == Failed && !sent && r.URL.Scheme == "https" {
		e.Kind = NoTLS // such as a server that speaks HTTP without it
	}
	if e.Kind == OurCertificate && fate == sendonce.Sent {
		// With TLS 1.3 our side is ready before theirs: the request is out when they
		// say so. They have not read it, for the handshake is not over for them. It is over
		// when the connection was used before, an answer began, they speak TLS 1.2, or never
		// asked for a certificate.
		e.Sent = false
	}
	return e
}

// remote is the Op of an alert that the other side sent.
const remote = "remote error"

func kindOf(err error, sent bool) Kind {
	var timeout net.Error
	var dns *net.DNSError
	var op *net.OpError
	var blocked *BlockedError
	isOp := errors.As(err, &op)
	switch {
	case errors.As(err, &blocked):
		return Blocked
	case errors.Is(err, sendonce.ErrRequest):
		return NotValid
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.As(err, &dns) && !dns.IsTimeout:
		return NoName
	case isOp && op.Op == remote && ourCertificate(op.Err):
		return OurCertificate
	case isTLS(err) || isOp && op.Op == remote && !sent:
		return NoTLS
	case errors.As(err, &timeout) && timeout.Timeout():
		return TimedOut
	case isOp && op.Op == "dial":
		return NoConnection
	case isBroken(err):
		if !sent {
			return NoConnection
		}
		return Broken
	case sent:
		return NotHTTP
	}
	return Failed
}

// ourCertificate reports the alerts of TLS by which a server says that it does not
// accept the client's certificate: bad, unsupported, revoked, expired, unknown,
// signed by nobody it knows, missing. Their type is not exported; it is a number.
func ourCertificate(alert error) bool {
	v := reflect.ValueOf(alert)
	if v.Kind() != reflect.Uint8 {
		return false
	}
	n := v.Uint()
	return n >= 42 && n <= 46 || n == 48 || n == 116
}

func isTLS(err error) bool {
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	if errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &authority) {
		return true
	}
	// Most errors of a handshake have no type; all have the prefix.
	return strings.HasPrefix(err.Error(), "tls: ")
}

func isBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
