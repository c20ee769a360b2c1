package sendonce

import "time"

// take returns an idle connection that is alive, or nil.
func (t *Transport) take(at origin) *conn {
	for {
		c := t.pop(at)
		if c == nil || !c.over() {
			return c
		}
		c.close() // the other side has gone
	}
}

func (t *Transport) pop(at origin) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	conns := t.idle[at]
	if len(conns) == 0 {
		return nil
	}
	c := conns[len(conns)-1]
	conns[len(conns)-1] = nil
	t.idle[at] = conns[:len(conns)-1]
	t.count--
	return c
}

// put keeps a connection for the next request, or closes it.
func (t *Transport) put(c *conn) {
	t.mu.Lock()
	if t.closed || t.count >= t.cfg.MaxIdle || len(t.idle[c.at]) >= t.cfg.MaxIdlePerHost {
		t.mu.Unlock()
		c.close()
		return
	}
	c.idleAt = t.swept
	t.idle[c.at] = append(t.idle[c.at], c)
	t.count++
	if t.sweep == nil {
		t.sweep = time.AfterFunc(t.cfg.IdleTimeout/2, t.tick)
	}
	t.mu.Unlock()
}

// tick closes what has been idle for two sweeps, which are half an IdleTimeout apart: a
// connection is idle for no longer than that, and no clock is asked when it is used.
func (t *Transport) tick() {
	t.mu.Lock()
	t.swept++
	old := t.drop(func(c *conn) bool { return t.swept-c.idleAt >= 2 })
	t.sweep = nil
	if t.count > 0 {
		t.sweep = time.AfterFunc(t.cfg.IdleTimeout/2, t.tick)
	}
	t.mu.Unlock()
	closeAll(old)
}

// Close closes the idle connections, and those under way when they have their answer.
// Requests may still be sent; none of their connections is kept.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	all := t.drop(func(*conn) bool { return true })
	if t.sweep != nil {
		t.sweep.Stop()
		t.sweep = nil
	}
	t.mu.Unlock()
	closeAll(all)
}

// drop takes out the idle connections that are meant. Those of a host are in the order in
// which they were used, so that the old ones are first.
func (t *Transport) drop(meant func(*conn) bool) (out []*conn) {
	for at, conns := range t.idle {
		n := 0
		for n < len(conns) && meant(conns[n]) {
			n++
		}
		out = append(out, conns[:n]...)
		t.count -= n
		if n == len(conns) {
			delete(t.idle, at)
			continue
		}
		t.idle[at] = append([]*conn(nil), conns[n:]...)
	}
	return out
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.close()
	}
}
