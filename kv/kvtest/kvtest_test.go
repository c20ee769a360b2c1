package kvtest_test

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"

	"onced/kv"
	"onced/kv/group"
	"onced/kv/kvtest"
	"onced/kv/memkv"
)

// plain is the plainest engine there can be: every commit copies everything.
// It checks kv/group apart from any engine's cleverness, and has the hook.
type plain struct {
	hook func() error

	mu  sync.Mutex
	now *plainState
}

type plainState struct {
	version uint64
	rows    map[kv.TableID]map[string][]byte
}

func (p *plain) Snapshot() (group.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, nil
}

func (p *plain) Commit(changes []group.Change) (uint64, error) {
	if p.hook != nil {
		if err := p.hook(); err != nil {
			return 0, err
		}
	}
	for range 50 { // a commit takes its time, so that the next group gathers
		runtime.Gosched()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &plainState{version: p.now.version + 1, rows: map[kv.TableID]map[string][]byte{}}
	for t, rows := range p.now.rows {
		next.rows[t] = maps.Clone(rows)
	}
	for _, c := range changes {
		if next.rows[c.Table] == nil {
			next.rows[c.Table] = map[string][]byte{}
		}
		if c.Delete {
			delete(next.rows[c.Table], c.Key)
		} else {
			next.rows[c.Table][c.Key] = bytes.Clone(c.Value)
		}
	}
	p.now = next
	return next.version, nil
}

func (p *plain) Close() error { return nil }

func (s *plainState) Version() uint64 { return s.version }
func (s *plainState) Close()          {}

func (s *plainState) Get(t kv.TableID, key []byte) []byte {
	v, ok := s.rows[t][string(key)]
	if ok && v == nil {
		return []byte{}
	}
	return v
}

func (s *plainState) Cursor(t kv.TableID, r kv.Range) group.Cursor {
	c := &plainCursor{}
	for k := range s.rows[t] {
		if k >= string(r.From) && (r.To == nil || k < string(r.To)) {
			c.rows = append(c.rows, kv.Entry{Key: []byte(k), Value: s.Get(t, []byte(k))})
		}
	}
	slices.SortFunc(c.rows, func(a, b kv.Entry) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	if r.Reverse {
		slices.Reverse(c.rows)
	}
	return c
}

type plainCursor struct{ rows []kv.Entry }

func (c *plainCursor) Next() (key, value []byte, ok bool) {
	if len(c.rows) == 0 {
		return nil, nil, false
	}
	e := c.rows[0]
	c.rows = c.rows[1:]
	return e.Key, e.Value, true
}

func openPlain(t testing.TB, hook func() error, opt group.Options) kv.Store {
	t.Helper()
	s, err := group.New(&plain{hook: hook, now: &plainState{}}, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func plainCapabilities() kvtest.Capabilities {
	return kvtest.Capabilities{
		Rerun: func(t testing.TB) kv.Store { return openPlain(t, nil, group.Options{Rerun: true}) },
		Clock: func(t testing.TB, clock kv.Clock) kv.Store {
			return openPlain(t, nil, group.Options{Clock: clock})
		},
		Hook: func(t testing.TB, hook func() error) kv.Store {
			return openPlain(t, hook, group.Options{})
		},
	}
}

func TestGroupOverAPlainEngine(t *testing.T) {
	t.Parallel()
	open := func(t testing.TB) kv.Store { return openPlain(t, nil, group.Options{}) }
	kvtest.Run(t, open, plainCapabilities())
}

// Groups of few calls and bytes, so that they are full all the time.
func TestSmallGroupsOverAPlainEngine(t *testing.T) {
	t.Parallel()
	opt := group.Options{MaxCalls: 2, MaxBytes: 100}
	kvtest.Run(t, func(t testing.TB) kv.Store { return openPlain(t, nil, opt) }, kvtest.Capabilities{})
}

// Every closure of the whole suite runs twice: its answers must not change.
func TestXS07_ClosuresRunTwice(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(t testing.TB) kv.Store { return openPlain(t, nil, group.Options{Rerun: true}) },
		kvtest.Capabilities{})
}

// A program that keeps the rules has its outside effects once each, though
// every closure runs twice: the call stands between two transactions, and what
// wakes others runs after the commit.
func TestXS07_OutsideEffectsHappenOnce(t *testing.T) {
	t.Parallel()
	s := memkv.New(memkv.Options{Rerun: true})
	defer s.Close()
	ctx := context.Background()
	runs, charged, woken := 0, 0, 0
	var first bool
	err := s.Update(ctx, func(w kv.Writer) error {
		runs++
		was, err := w.Get("t", []byte("payment"))
		if err != nil {
			return err
		}
		if err := w.Put("t", []byte("payment"), []byte("intent")); err != nil {
			return err
		}
		w.OnCommit(func() { woken++ })
		first = was == nil // last, and from this run alone
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if first {
		charged++
	}
	err = s.Update(ctx, func(w kv.Writer) error {
		runs++
		w.OnCommit(func() { woken++ })
		return w.Put("t", []byte("payment"), []byte("done"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if runs != 4 {
		t.Errorf("closures ran %d times, want each of two twice", runs)
	}
	if charged != 1 || woken != 2 {
		t.Errorf("charged %d times and woken %d times, want 1 and 2", charged, woken)
	}
}

func FuzzModel(f *testing.F) {
	kvtest.FuzzModel(f, func(t testing.TB) kv.Store { return openPlain(t, nil, group.Options{}) },
		kvtest.Capabilities{})
}
