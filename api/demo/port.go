package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// PortError means that the demo's port is taken.
type PortError struct {
	Port int
	// Owner is who has it, as "name (process 123)"; empty when that cannot be seen.
	Owner string
	err   error
}

// Error says who has the port.
func (e *PortError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("port %d of localhost is taken", e.Port)
	}
	return fmt.Sprintf("port %d of localhost is taken by %s", e.Port, e.Owner)
}

// Remedy says what to do.
func (e *PortError) Remedy() string {
	other := 3001
	if e.Port == other {
		other++
	}
	if e.Owner == "" {
		return fmt.Sprintf("stop the program that has it, or use --port=%d", other)
	}
	return fmt.Sprintf("stop %s, or use --port=%d", e.Owner, other)
}

// Unwrap returns the system's error.
func (e *PortError) Unwrap() error { return e.err }

// listen opens the port at both addresses that localhost means, where the
// machine has both.
func listen(ctx context.Context, port int) (listeners []net.Listener, err error) {
	var lc net.ListenConfig
	first, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, portError(port, err)
	}
	if a, ok := first.Addr().(*net.TCPAddr); ok {
		port = a.Port
	}
	second, err := lc.Listen(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) { // curl may try it first, and reach somebody else
		_ = first.Close()
		return nil, portError(port, err)
	}
	listeners = []net.Listener{first}
	if err == nil { // otherwise this machine has no IPv6
		listeners = append(listeners, second)
	}
	return listeners, nil
}

func portError(port int, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("demo: port %d: %w", port, err)
	}
	return &PortError{Port: port, Owner: portOwner(port), err: err}
}
