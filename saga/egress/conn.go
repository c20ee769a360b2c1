package egress

import (
	"context"
	"net"
	"syscall"
)

// dial opens a connection. Each address that is about to be connected to is looked
// at, also when a name has several, and after every look-up of a name.
func (c *Client) dial(ctx context.Context, network, addr string, trust Trust) (net.Conn, error) {
	d := c.dialer
	if trust != Trusted {
		named := c.allow.named(addr)
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return c.allow.check(address, named)
		}
	}
	return d.DialContext(ctx, network, addr)
}
