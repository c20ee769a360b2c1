// Package memkv is a store in memory, for tests, demonstrations and quick
// starts. It shares the grouping of commits, and so its behaviour, with the
// durable engines through kv/group.
//
// Nothing survives the process. A [Disk] outlives a Store, so that a restart,
// or a crash, can be played: open the same Disk again, and the earlier Store
// can no longer commit, as if its process had died.
package memkv

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"onced/kv"
	"onced/kv/group"
)

// Options of a Store. The zero value works.
type Options struct {
	// Clock gives each transaction its instant; nil means the system's clock.
	Clock kv.Clock
	// Rerun runs every closure of Update twice, to catch closures that may not
	// be run again.
	Rerun bool
	// MaxCalls and MaxBytes bound a group of commits; 0 means the default.
	MaxCalls int
	MaxBytes int
	// Observer is told of each commit; see [group.Options].
	Observer func(group.Commit)
	// Admit is asked by [kv.AdmitIntent]; nil admits always.
	Admit func() error
}

// Disk holds the rows of stores opened on it one after the other. It is safe
// for concurrent use.
type Disk struct {
	mu    sync.Mutex
	epoch uint64
	owner *backend
	state *state
}

// NewDisk returns an empty Disk.
func NewDisk() *Disk {
	return &Disk{state: &state{}}
}

// Store is a [kv.Store] in memory.
type Store struct {
	*group.Store
}

// New opens a store on a Disk of its own.
func New(opt Options) *Store { return Open(NewDisk(), opt) }

// Open opens d with the next epoch. A store opened on it earlier can still
// read what it has, and no longer commit.
func Open(d *Disk, opt Options) *Store {
	d.mu.Lock()
	d.epoch++
	epoch := d.epoch
	b := &backend{disk: d}
	b.state.Store(d.state)
	d.owner = b
	d.mu.Unlock()
	s, err := group.New(b, group.Options{Clock: opt.Clock, Epoch: epoch, Rerun: opt.Rerun, Admit: opt.Admit,
		MaxCalls: opt.MaxCalls, MaxBytes: opt.MaxBytes, Observer: opt.Observer})
	if err != nil { // a snapshot in memory cannot fail
		panic(err)
	}
	return &Store{Store: s}
}

// state is one committed state; it never changes.
type state struct {
	version uint64
	tables  map[kv.TableID]*rows
}

type rows = btree.Map[string, []byte]

// errTakenOver is the commit error of a store whose Disk was opened again.
var errTakenOver = errors.New("memkv: the disk was opened again; this store is dead")

// backend keeps the state that its own store has seen: one whose Disk was opened
// again goes on to read what it had.
type backend struct {
	disk  *Disk
	state atomic.Pointer[state]
}

// Snapshot implements [group.Backend].
func (b *backend) Snapshot() (group.Snapshot, error) {
	return snapshot{b.state.Load()}, nil
}

// Commit implements [group.Backend].
func (b *backend) Commit(changes []group.Change) (uint64, error) {
	b.disk.mu.Lock()
	defer b.disk.mu.Unlock()
	if b.disk.owner != b {
		return 0, errTakenOver
	}
	old := b.disk.state
	next := &state{version: old.version + 1, tables: maps.Clone(old.tables)}
	if next.tables == nil {
		next.tables = map[kv.TableID]*rows{}
	}
	var table *rows
	for i, c := range changes {
		if i == 0 || c.Table != changes[i-1].Table {
			table = &rows{}
			if was := next.tables[c.Table]; was != nil {
				table = was.Copy()
			}
			next.tables[c.Table] = table
		}
		if c.Delete {
			table.Delete(c.Key)
		} else {
			table.Set(c.Key, c.Value)
		}
	}
	b.disk.state = next
	b.state.Store(next)
	return next.version, nil
}

// Close implements [group.Backend].
func (b *backend) Close() error {
	b.disk.mu.Lock()
	defer b.disk.mu.Unlock()
	if b.disk.owner == b {
		b.disk.owner = nil
	}
	return nil
}

type snapshot struct{ *state }

// Version implements [group.Snapshot].
func (s snapshot) Version() uint64 { return s.version }

// Get implements [group.Snapshot].
func (s snapshot) Get(t kv.TableID, key []byte) []byte {
	if table := s.tables[t]; table != nil {
		v, _ := table.Get(string(key))
		return v
	}
	return nil
}

// Cursor implements [group.Snapshot].
func (s snapshot) Cursor(t kv.TableID, r kv.Range) group.Cursor {
	table := s.tables[t]
	if table == nil {
		table = &rows{}
	}
	return &cursor{it: group.RangeIter(table, r)}
}

// Close implements [group.Snapshot].
func (s snapshot) Close() {}

type cursor struct{ it *group.Iter[[]byte] }

// Next implements [group.Cursor].
func (c *cursor) Next() (key, value []byte, ok bool) {
	if !c.it.Next() {
		return nil, nil, false
	}
	return []byte(c.it.Key()), c.it.Value(), true
}
