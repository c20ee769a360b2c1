package boltkv

import (
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"sync"
	"time"

	"onced/kv"
)

// spaceEvery is how long a reading of the free space is believed.
const spaceEvery = time.Second

// maxFile32 is how much bbolt can map where addresses have 32 bits.
const maxFile32 = 0x7FFFFFFF

// spaceGauge answers whether new work may begin, from a reading of the file
// system that is at most spaceEvery old.
type spaceGauge struct {
	path string
	max  int64 // of the file, 0 means no bound
	min  int64
	now  func() time.Time
	read func(dir string) (uint64, error)

	mu   sync.Mutex
	at   time.Time
	last error
}

func newSpaceGauge(path string, o Options) *spaceGauge {
	g := &spaceGauge{path: path, min: o.MinFree, now: o.Clock.Now, read: o.space}
	if bits.UintSize == 32 {
		g.max = maxFile32
	}
	return g
}

func (g *spaceGauge) admit() error {
	if g.min < 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.now(); g.at.IsZero() || now.Sub(g.at) >= spaceEvery {
		g.at = now
		g.last = g.measure()
	}
	return g.last
}

// measure lets work begin when the space cannot be told: the commit decides.
func (g *spaceGauge) measure() error {
	dir := filepath.Dir(g.path)
	if free, err := g.read(dir); err == nil && free < uint64(g.min) {
		return fmt.Errorf("%w (%d MiB free in %s, the mark is %d MiB)",
			kv.ErrNoSpace, free>>20, dir, g.min>>20)
	}
	if g.max == 0 {
		return nil
	}
	if info, err := os.Stat(g.path); err == nil && info.Size()+g.min > g.max {
		return fmt.Errorf("%w (%s has %d MiB, on this machine it can have %d MiB less the mark of %d MiB)",
			kv.ErrNoSpace, g.path, info.Size()>>20, g.max>>20, g.min>>20)
	}
	return nil
}
