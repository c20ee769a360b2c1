package saga

import (
	"slices"
	"sync"
)

// slot is what a call takes up: one of the engine's, of its definition's and of its
// host's.
type slot struct{ def, host string }

// slots bounds the calls under way. Who finds none waits in a queue per slot; the
// queues are served in turn.
type slots struct {
	total, perDef, perHost int

	mu      sync.Mutex
	closed  bool // nothing is granted
	used    int
	defs    map[string]int
	hosts   map[string]int
	waiting map[slot][]*ticket
	turn    []slot // queues that are not empty, the next one first
}

// ticket is a place in a queue.
type ticket struct {
	slot  slot
	grant func()
}

func newSlots(total, perDef, perHost int) *slots {
	if perDef <= 0 {
		perDef = total
	}
	if perHost <= 0 {
		perHost = max(total*3/4, 1)
	}
	return &slots{total: total, perDef: perDef, perHost: perHost, closed: true, defs: map[string]int{},
		hosts: map[string]int{}, waiting: map[slot][]*ticket{}}
}

func (s *slots) fits(x slot) bool {
	return !s.closed && s.used < s.total && s.defs[x.def] < s.perDef && s.hostFits(x.host)
}

func (s *slots) hostFits(host string) bool { return host == "" || s.hosts[host] < s.perHost }

func (s *slots) add(x slot, n int) {
	s.used += n
	count(s.defs, x.def, n)
	count(s.hosts, x.host, n)
}

// count keeps no rows of zero: names come and go.
func count(m map[string]int, name string, n int) {
	if m[name] += n; m[name] == 0 {
		delete(m, name)
	}
}

// try takes a slot if one is free and nobody waits for it.
func (s *slots) try(x slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting[x]) > 0 || !s.fits(x) {
		return false
	}
	s.add(x, 1)
	return true
}

// acquire calls grant, on another goroutine, when it has taken a slot for it.
func (s *slots) acquire(x slot, grant func()) *ticket {
	t := &ticket{x, grant}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting[x]) == 0 {
		s.turn = append(s.turn, x)
	}
	s.waiting[x] = append(s.waiting[x], t)
	s.grant()
	return t
}

// withdraw takes a ticket out of its queue, and reports whether it was there still.
func (s *slots) withdraw(t *ticket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.waiting[t.slot]
	i := slices.Index(queue, t)
	if i < 0 {
		return false
	}
	if queue = slices.Delete(queue, i, i+1); len(queue) > 0 {
		s.waiting[t.slot] = queue
		return true
	}
	delete(s.waiting, t.slot)
	i = slices.Index(s.turn, t.slot)
	s.turn = slices.Delete(s.turn, i, i+1)
	return true
}

func (s *slots) release(x slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(x, -1)
	s.grant()
}

// tryHost takes the host's part of a slot for who holds one of another host.
func (s *slots) tryHost(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.hostFits(host) {
		return false
	}
	count(s.hosts, host, 1)
	return true
}

func (s *slots) releaseHost(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count(s.hosts, host, -1)
	s.grant()
}

// grant serves queues until no slot fits. The caller has the lock.
func (s *slots) grant() {
	for i := 0; i < len(s.turn) && s.used < s.total; {
		x := s.turn[i]
		if !s.fits(x) {
			i++
			continue
		}
		queue := s.waiting[x]
		next := queue[0]
		queue[0] = nil
		s.turn = append(s.turn[:i], s.turn[i+1:]...)
		if len(queue) > 1 {
			s.waiting[x] = queue[1:]
			s.turn = append(s.turn, x)
		} else {
			delete(s.waiting, x)
		}
		s.add(x, 1)
		go next.grant()
	}
}

func (s *slots) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = false
	s.grant()
}

// shut grants nothing more and forgets who waits.
func (s *slots) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.turn = nil
	clear(s.waiting)
}
