package trace

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"onced/api/problem"
	"onced/saga"
)

// errorTypes are the values of error.type for errors beside the codes of package
// problem, timeout and canceled. The first that an error wraps is its type.
var errorTypes = []struct {
	err error
	typ string
}{
	{saga.ErrUnknown, string(problem.OutcomeUnknown)},
	{saga.ErrMismatch, string(problem.Mismatch)},
	{saga.ErrInFlight, string(problem.InFlight)},
	{saga.ErrRefused, "refused"},
	{saga.ErrNotDone, "not_done"},
	{saga.ErrNoResult, "no_result"},
	{syscall.ECONNREFUSED, "connection_refused"},
	{syscall.ECONNRESET, "connection_broken"},
	{syscall.EPIPE, "connection_broken"},
	{io.ErrUnexpectedEOF, "connection_broken"},
	{io.EOF, "connection_broken"},
	{net.ErrClosed, "connection_broken"},
}

// errorType is the kind of an error, of a closed set: what is counted and grouped
// by must not grow with the errors of libraries, nor name the insides of onced.
func errorType(err error) string {
	var network net.Error
	var name *net.DNSError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.As(err, &name):
		return "name_not_resolved"
	case isTLS(err):
		return "tls"
	}
	for _, e := range errorTypes {
		if errors.Is(err, e.err) {
			return e.typ
		}
	}
	if code := problem.From(err).Code; code != problem.Internal {
		return string(code)
	}
	if network != nil {
		return "network"
	}
	return "_OTHER" // as OpenTelemetry has it
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var certificate *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &certificate) ||
		errors.As(err, &unknown) || errors.As(err, &host)
}
