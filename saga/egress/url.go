package egress

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// CheckURL reports what makes a URL one that nothing can be sent to: a scheme that
// is not http or https, no host, a port that is none, a user or password, a fragment.
// The error's text holds nothing of the URL, which may hold secrets.
func CheckURL(u *url.URL) error {
	switch {
	case u == nil:
		return errors.New("there is no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("the URL must begin with http:// or https://")
	case u.Opaque != "" || u.Hostname() == "":
		return errors.New("the URL has no host")
	case u.User != nil:
		return errors.New("the URL has a user or password; send them in a header")
	case u.Fragment != "" || u.RawFragment != "":
		return errors.New("the URL has a fragment (#), which is never sent; write %23 for a #")
	case strings.HasSuffix(u.Host, ":"):
		return errors.New("the URL has a colon but no port after the host")
	case !portIsOne(u.Port()):
		return errors.New("the URL has a port that is none; ports are 1 to 65535")
	}
	return nil
}

// portIsOne reports a port that can be connected to, or none, which is the scheme's.
func portIsOne(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// Check is [CheckURL], and tells of a guarded URL with an address for its host
// whether that could be reached, as *[BlockedError]. What a name resolves to is
// looked at when it is dialled only.
func (c *Client) Check(u *url.URL, t Trust) error {
	if err := CheckURL(u); err != nil {
		return err
	}
	if t == Trusted {
		return nil
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return c.allow.check(net.JoinHostPort(addr.String(), portOf(u)), false)
	}
	return nil
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// CheckMethod reports a method that cannot be sent: one that is not in capitals,
// CONNECT and TRACE.
func CheckMethod(method string) error {
	for _, c := range []byte(method) {
		if (c < 'A' || c > 'Z') && c != '-' {
			return errors.New("the method must be in capitals, for example POST")
		}
	}
	switch method {
	case "":
		return errors.New("there is no method")
	case http.MethodConnect, http.MethodTrace:
		return errors.New("the method " + method + " cannot be sent")
	}
	return nil
}
