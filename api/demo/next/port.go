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
	// Free is the next port that was free; 0, which takes any, when none is near.
	Free int
	err  error
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
	if e.Owner == "" {
		return fmt.Sprintf("stop the program that has it, or use --port=%d", e.Free)
	}
	return fmt.Sprintf("stop %s, or use --port=%d", e.Owner, e.Free)
}

// Unwrap returns the system's error.
func (e *PortError) Unwrap() error { return e.err }

// listen opens the port at both addresses that localhost means, where the
// machine has both.
func listen(ctx context.Context, port int) (listeners []net.Listener, err error) {
	var lc net.ListenConfig
	first, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, portError(ctx, port, err)
	}
	if a, ok := first.Addr().(*net.TCPAddr); ok {
		port = a.Port
	}
	second, err := lc.Listen(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) { // curl may try it first, and reach somebody else
		_ = first.Close()
		return nil, portError(ctx, port, err)
	}
	listeners = []net.Listener{first}
	if err == nil { // otherwise this machine has no IPv6
		listeners = append(listeners, second)
	}
	return listeners, nil
}

// nearPorts is how many ports after one that is taken are tried.
const nearPorts = 20

// freePort returns a free port after the one that is taken.
func freePort(ctx context.Context, taken int) int {
	var lc net.ListenConfig
	for port := taken + 1; port <= min(taken+nearPorts, 65535); port++ {
		l, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	return 0
}

func portError(ctx context.Context, port int, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("demo: port %d: %w", port, err)
	}
	return &PortError{Port: port, Owner: portOwner(port), Free: freePort(ctx, port), err: err}
}
