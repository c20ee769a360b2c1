package group_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"onced/kv"
	"onced/kv/group"
)

const rows kv.TableID = "test.rows"

var errDisk = errors.New("the disk failed")

// disk is an engine whose commits a test holds back. Tests run in a bubble, so
// that "everything that can happen has happened" is synctest.Wait.
type disk struct {
	gate    chan error // when set, each commit takes its outcome from here
	publish bool       // a commit can be seen before it has passed the gate, as with bbolt
	during  func()     // when set, called in each commit
	before  func()     // when set, called before a snapshot is taken

	mu      sync.Mutex
	state   *state
	commits int
	open    int // snapshots
	closed  bool
}

type state struct {
	version uint64
	rows    map[string]string
}

func (d *disk) Snapshot() (group.Snapshot, error) {
	if d.before != nil {
		d.before()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		panic("a snapshot of a closed engine")
	}
	d.open++
	return &snapshot{state: d.state, disk: d}, nil
}

func (d *disk) Commit(changes []group.Change) (uint64, error) {
	d.mu.Lock()
	next := &state{version: d.state.version + 1, rows: maps.Clone(d.state.rows)}
	d.commits++
	for _, c := range changes {
		if c.Delete {
			delete(next.rows, c.Key)
		} else {
			next.rows[c.Key] = string(c.Value)
		}
	}
	if d.publish {
		d.state = next
	}
	d.mu.Unlock()
	if d.during != nil {
		d.during()
	}
	if d.gate != nil {
		if err := <-d.gate; err != nil {
			return 0, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		panic("the engine was closed under a commit")
	}
	d.state = next
	return next.version, nil
}

func (d *disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open != 0 {
		panic("the engine was closed before its snapshots")
	}
	d.closed = true
	return nil
}

type snapshot struct {
	*state
	disk *disk
}

func (s *snapshot) Version() uint64 { return s.version }

func (s *snapshot) Close() {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	s.disk.open--
}

func (s *snapshot) Get(_ kv.TableID, key []byte) []byte {
	if v, ok := s.rows[string(key)]; ok {
		return []byte(v)
	}
	return nil
}

func (s *snapshot) Cursor(_ kv.TableID, r kv.Range) group.Cursor {
	c := &cursor{}
	for k, v := range s.rows {
		if k >= string(r.From) && (r.To == nil || k < string(r.To)) {
			c.rows = append(c.rows, kv.Entry{Key: []byte(k), Value: []byte(v)})
		}
	}
	slices.SortFunc(c.rows, func(a, b kv.Entry) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	if r.Reverse {
		slices.Reverse(c.rows)
	}
	return c
}

type cursor struct{ rows []kv.Entry }

func (c *cursor) Next() (key, value []byte, ok bool) {
	if len(c.rows) == 0 {
		return nil, nil, false
	}
	e := c.rows[0]
	c.rows = c.rows[1:]
	return e.Key, e.Value, true
}

// fixture is a store over a disk, in a bubble.
type fixture struct {
	*group.Store
	t    *testing.T
	disk *disk
}

// start opens a store over d, which holds the given rows.
func start(t *testing.T, d *disk, opt group.Options, pairs ...string) *fixture {
	t.Helper()
	d.state = &state{version: 7, rows: map[string]string{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.state.rows[pairs[i]] = pairs[i+1]
	}
	s, err := group.New(d, opt)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{Store: s, t: t, disk: d}
}

// gated is start with commits that wait at a gate.
func gated(t *testing.T, opt group.Options, pairs ...string) *fixture {
	t.Helper()
	return start(t, &disk{gate: make(chan error)}, opt, pairs...)
}

// answer is a call on its own goroutine: its end, when it has come.
type answer struct {
	done  chan struct{}
	err   error
	panic any
	got   string // of get: the row that was read
}

// begin runs call on a goroutine and lets everything happen that can.
func (f *fixture) begin(call func(a *answer) error) *answer {
	a := &answer{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		defer func() { a.panic = recover() }()
		a.err = errors.New("the goroutine ended")
		a.err = call(a)
	}()
	synctest.Wait()
	return a
}

func (f *fixture) update(fn func(w kv.Writer) error) *answer {
	return f.begin(func(*answer) error { return f.Update(context.Background(), fn) })
}

// put begins to write a row.
func (f *fixture) put(key, value string) *answer {
	return f.update(func(w kv.Writer) error { return w.Put(rows, []byte(key), []byte(value)) })
}

// get begins to read a row in a View.
func (f *fixture) get(key string) *answer {
	return f.begin(func(a *answer) error {
		return f.View(context.Background(), func(r kv.Reader) error {
			v, err := r.Get(rows, []byte(key))
			a.got = string(v)
			return err
		})
	})
}

// pass lets the commit at the gate end with err.
func (f *fixture) pass(err error) {
	f.t.Helper()
	select {
	case f.disk.gate <- err:
	default:
		f.t.Fatal("no commit stands at the gate")
	}
	synctest.Wait()
}

func (a *answer) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// waits fails unless the calls have not been answered.
func (f *fixture) waits(what string, calls ...*answer) {
	f.t.Helper()
	for i, a := range calls {
		if a.ended() {
			f.t.Errorf("%s: call %d was answered (%v)", what, i, a.err)
		}
	}
}

// ends fails unless the call has been answered with want (nil: without error).
func (f *fixture) ends(what string, a *answer, want error) {
	f.t.Helper()
	switch {
	case !a.ended():
		f.t.Errorf("%s: not answered", what)
	case !errors.Is(a.err, want):
		f.t.Errorf("%s: %v, want %v", what, a.err, want)
	}
}

// close ends the store; commits pass from now on.
func (f *fixture) close() {
	f.t.Helper()
	c := f.begin(func(*answer) error { return f.Close() })
	for !c.ended() {
		f.pass(nil)
	}
	f.ends("Close", c, nil)
	if !f.disk.closed {
		f.t.Error("the engine was not closed")
	}
}
