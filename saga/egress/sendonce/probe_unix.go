//go:build unix

package sendonce

import (
	"net"
	"syscall"
)

// probe looks whether anything has come over an idle connection.
type probe struct {
	raw  syscall.RawConn
	read func(fd uintptr) bool
	dead *bool
}

// watch gives the connection its probe.
func (c *conn) watch(raw net.Conn) {
	s, ok := raw.(syscall.Conn)
	if !ok {
		return
	}
	rc, err := s.SyscallConn()
	if err != nil {
		return
	}
	dead := new(bool)
	c.look = probe{rc, func(fd uintptr) bool {
		var b [1]byte
		n, err := syscall.Read(int(fd), b[:]) // sockets of package net do not block
		*dead = n >= 0 || err != syscall.EAGAIN && err != syscall.EINTR
		return true
	}, dead}
}

// over reports that the other side has closed the connection or has sent something that
// nobody waits for.
func (p *probe) over() bool {
	if p.raw == nil {
		return false
	}
	return p.raw.Read(p.read) != nil || *p.dead
}
