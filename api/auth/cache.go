package auth

import (
	"maps"
	"net/netip"
	"sync"
	"time"
)

// cache remembers live tokens. Only true tokens get in, so nobody outside can
// fill it.
type cache struct {
	size int

	mu  sync.Mutex
	gen uint64 // rises with every invalidation
	m   map[sum]cached
}

type cached struct {
	token Token
	until time.Time
}

// get returns a token that was looked up so lately that it need not be again.
func (c *cache) get(k sum, now time.Time) (t Token, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.m[k]
	return e.token, ok && now.Before(e.until)
}

func (c *cache) generation() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gen
}

// put stores what was read after generation before was asked for; what was read
// before an invalidation is not kept.
func (c *cache) put(k sum, e cached, before uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gen != before {
		return
	}
	if c.m == nil {
		c.m = map[sum]cached{}
	}
	if _, ok := c.m[k]; !ok && len(c.m) >= c.size {
		for other := range c.m { // any: a wrong choice costs one read
			delete(c.m, other)
			break
		}
	}
	c.m[k] = e
}

// touch notes the use of a token and reports whether the caller is the one to
// write it down.
func (c *cache) touch(k sum, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.m[k]
	if !ok || now.Sub(e.token.LastUsed) < usedEvery {
		return false
	}
	e.token.LastUsed = now
	c.m[k] = e
	return true
}

// drop forgets the token of an id.
func (c *cache) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen++
	maps.DeleteFunc(c.m, func(_ sum, e cached) bool { return e.token.ID == id })
}

// clear forgets everything.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen++
	c.m = nil
}

// limiter counts failures per address in a bounded table.
type limiter struct {
	limit  int
	window time.Duration
	size   int

	mu sync.Mutex
	m  map[netip.Addr]failures
}

type failures struct {
	n     int
	until time.Time
}

// sourceOf is what failures are counted under: an IPv4 address, or the network
// of an IPv6 address, for one subscriber has 2^64 of those.
func sourceOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}

// fail counts a failure and returns how long the address is to wait, or 0 as long
// as there are no more than the limit. A window begins with its first failure and
// is not drawn out by more.
func (l *limiter) fail(now time.Time, a netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := sourceOf(a)
	f, ok := l.m[key]
	if !ok || !now.Before(f.until) {
		f = failures{until: now.Add(l.window)}
	}
	f.n++
	if l.m == nil {
		l.m = map[netip.Addr]failures{}
	}
	if !ok && len(l.m) >= l.size {
		l.evict()
	}
	l.m[key] = f
	if f.n <= l.limit {
		return 0
	}
	return f.until.Sub(now)
}

// evict drops the oldest of a few. Looking at all would let an attacker with
// many addresses buy much work for little.
func (l *limiter) evict() {
	const sample = 16
	var oldest netip.Addr
	var until time.Time
	n := 0
	for a, f := range l.m {
		if n == 0 || f.until.Before(until) {
			oldest, until = a, f.until
		}
		if n++; n == sample {
			break
		}
	}
	delete(l.m, oldest)
}
