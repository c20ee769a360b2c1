package demo

import (
	"encoding/binary"
	"hash/fnv"
	"strings"
	"time"
)

// plan decides which call meets which fault. It is a function of the seed and
// the call alone: the same order meets the same faults in each run.
type plan struct {
	seed uint64
	// of a hundred calls, how many meet a fault that is switched on.
	delay, duplicate, drop uint64
	declined               uint64
}

// newPlan makes every call meet every fault when a person plays with the
// switches, and a part of them under load.
func newPlan(seed uint64, load bool) plan {
	if load {
		return plan{seed: seed, delay: 15, duplicate: 30, drop: 15, declined: 3}
	}
	return plan{seed: seed, delay: 100, duplicate: 100, drop: 100}
}

// roll returns a number below n that looks random.
func (p plan) roll(what, reference string, attempt int, n uint64) uint64 {
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
func (p plan) between(what, reference string, a, b time.Duration) time.Duration {
	return a + time.Duration(p.roll(what, reference, 0, uint64(b-a)))
}

// slowness is how a delayed call goes.
type slowness int

const (
	prompt  slowness = iota
	tardy            // charged at once, the answer comes too late
	belated          // charged late, when a look-up has already found nothing
	lost             // neither charged nor answered
)

// lastDelayed is the last attempt that may be delayed, so that each order ends.
const lastDelayed = 2

// slow says how an attempt (from 1 on) goes while delays are on.
func (p plan) slow(reference string, attempt int) slowness {
	if attempt > lastDelayed || p.roll("delay", reference, attempt, 100) >= p.delay {
		return prompt
	}
	return []slowness{tardy, belated, belated, lost}[p.roll("kind", reference, attempt, 4)]
}

// copies is how often a callback is delivered while duplicates are on.
func (p plan) copies(reference string) int {
	if p.roll("duplicate", reference, 0, 100) >= p.duplicate {
		return 1
	}
	return 3 + int(p.roll("copies", reference, 0, 3))
}

func (p plan) drops(reference string) bool {
	return p.roll("drop", reference, 0, 100) < p.drop
}

// delaysCallback says whether a callback comes late while delays are on.
func (p plan) delaysCallback(reference string) bool {
	return p.roll("late callback", reference, 0, 100) < p.delay
}

// declines says whether the card is declined; of orders that are called so, always.
func (p plan) declines(reference string) bool {
	return strings.HasPrefix(reference, "declined") || p.roll("declined", reference, 0, 100) < p.declined
}
