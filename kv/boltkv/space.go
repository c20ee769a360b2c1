package boltkv

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"onced/kv"
)

// spaceEvery is how long a reading of the free space is believed.
const spaceEvery = time.Second

// spaceGauge answers whether new work may begin, from a reading of the file
// system that is at most spaceEvery old.
type spaceGauge struct {
	dir  string
	min  int64
	now  func() time.Time
	read func(dir string) (uint64, error)

	mu   sync.Mutex
	at   time.Time
	last error
}

func newSpaceGauge(path string, o Options) *spaceGauge {
	return &spaceGauge{dir: filepath.Dir(path), min: o.MinFree, now: o.Clock.Now, read: o.space}
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
	free, err := g.read(g.dir)
	if err != nil || free >= uint64(g.min) {
		return nil
	}
	return fmt.Errorf("%w (%d MiB free in %s, the mark is %d MiB)", kv.ErrNoSpace, free>>20, g.dir, g.min>>20)
}
