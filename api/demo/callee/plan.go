package callee

import (
	"encoding/binary"
	"hash/fnv"
	"strings"
	"time"

	"onced/api/demo/book"
)

// Plan decides which call meets which fault. It is a function of the seed and the
// call alone: the same order meets the same faults in each run.
type Plan struct {
	seed uint64
	// of a hundred calls, how many meet a fault that is switched on.
	delay, lose, fail, duplicate, drop, early uint64
	refuse                                    map[book.Service]uint64
}

// NewPlan makes every call meet every fault when a person plays with the switches,
// and a part of them under load.
func NewPlan(seed uint64, load bool) Plan {
	if load {
		return Plan{seed: seed, delay: 6, lose: 5, fail: 5, duplicate: 30, drop: 12, early: 20,
			refuse: map[book.Service]uint64{book.Loyalty: 1, book.Voucher: 1, book.Charge: 3, book.Order: 3}}
	}
	p := Plan{seed: seed, delay: 100, lose: 100, fail: 100, duplicate: 100, drop: 100, early: 100,
		refuse: map[book.Service]uint64{}}
	for _, s := range book.Services() {
		p.refuse[s] = 100
	}
	return p
}

// roll returns a number below n that looks random.
func (p Plan) roll(what, reference string, attempt int, n uint64) uint64 {
	h := fnv.New64a()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], p.seed)
	binary.LittleEndian.PutUint64(b[8:], uint64(attempt))
	_, _ = h.Write(b[:])
	_, _ = h.Write([]byte(what + "\x00" + reference))
	x := h.Sum64() // fnv alone is weak in its upper bits
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x % n
}

// between returns a duration from a up to b.
func (p Plan) between(what, reference string, a, b time.Duration) time.Duration {
	return a + time.Duration(p.roll(what, reference, 0, uint64(b-a)))
}

// manner is how a call goes.
type manner int

const (
	prompt  manner = iota
	tardy          // done at once, answered too late
	belated        // done late, when a look-up has already found nothing
	lost           // neither done nor answered
	cut            // done, and the answer is lost
	failed         // done, and answered with 500
)

// lastFault is the last attempt that may meet a fault, so that each order ends.
const lastFault = 2

// manner says how an attempt (from 1 on) of an operation goes.
func (p Plan) manner(o *op, attempt int, on func(fault string) bool) manner {
	if attempt > lastFault {
		return prompt
	}
	what := string(o.service.name) + " " + o.name
	var met []string
	for _, f := range []struct {
		name string
		rate uint64
	}{{Delay, p.delay}, {Lose, p.lose}, {Fail, p.fail}} {
		if on(f.name) && p.roll(f.name+" "+what, o.Reference, attempt, 100) < f.rate {
			met = append(met, f.name)
		}
	}
	if len(met) == 0 {
		return prompt
	}
	switch met[(attempt-1)%len(met)] {
	case Lose:
		return cut
	case Fail:
		return failed
	}
	return []manner{tardy, belated, belated, lost}[p.roll("kind "+what, o.Reference, attempt, 4)]
}

// copies is how often a callback is delivered while duplicates are on.
func (p Plan) copies(reference string) int {
	if p.roll("duplicate", reference, 0, 100) >= p.duplicate {
		return 1
	}
	return 3 + int(p.roll("copies", reference, 0, 3))
}

// doubles says whether a call is delivered twice while duplicates are on.
func (p Plan) doubles(o *op) bool {
	return p.roll("double "+o.name, o.Reference, 0, 100) < p.duplicate
}

func (p Plan) drops(reference string) bool { return p.roll("drop", reference, 0, 100) < p.drop }

func (p Plan) isEarly(reference string) bool { return p.roll("early", reference, 0, 100) < p.early }

// delaysCallback says whether a callback comes late while delays are on.
func (p Plan) delaysCallback(reference string) bool {
	return p.roll("late callback", reference, 0, 100) < p.delay
}

// always are the beginnings of the names of orders that a service always refuses.
var always = map[book.Service]string{book.Loyalty: "nopoints", book.Voucher: "novoucher",
	book.Charge: "declined", book.Order: "nostock"}

// refuses says whether a service refuses an order.
func (p Plan) refuses(s book.Service, o *op, on bool) bool {
	return strings.HasPrefix(o.Order, always[s]) ||
		on && p.roll("refuse "+string(s), o.Reference, 0, 100) < p.refuse[s]
}
