package boltkv

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"os"

	bolt "go.etcd.io/bbolt"

	"onced/kv"
	"onced/kv/group"
)

// Figures behind these are in NOTES.md.
const (
	// smallFile is the largest file, in bytes, whose free list stays out of it, until
	// Close: an opening after a crash reads the file instead, and each commit writes one
	// page less, of about nine.
	smallFile = 16 << 20
	// maxList is the longest free list, in bytes, that each commit writes whole.
	// A longer one stays out of the file, until Close or until it is short.
	maxList = 64 << 10
	// lookAtList and tryList are how many commits pass between two looks at the
	// length of the list, and at the root, while the list may be in the file and while
	// it is too long.
	lookAtList = 64
	tryList    = 4096
	// appendFill fills pages whose rows only ever come after those before.
	appendFill = 0.9
)

// backend implements [group.Backend] over a bbolt file.
type backend struct {
	db   *bolt.DB
	file *os.File
	log  *slog.Logger // may be nil

	headroom int64 // the least size of the map

	commits int  // until the next look at the file
	long    bool // the free list is too long to be in the file
	split   bool // the root is to be made one page
	broken  bool // a commit failed: nothing more is written
}

func newBackend(f *opened, log *slog.Logger) *backend {
	b := &backend{db: f.db, file: f.file, log: log, headroom: f.headroom}
	b.look()
	return b
}

// Snapshot implements [group.Backend].
func (b *backend) Snapshot() (group.Snapshot, error) {
	tx, err := b.db.Begin(false)
	if err != nil {
		return nil, err
	}
	s := &snapshot{tx: tx}
	s.tables = s.room[:0]
	return s, nil
}

// Commit implements [group.Backend].
func (b *backend) Commit(changes []group.Change) (uint64, error) {
	b.broken = true // until it has ended well; it may panic too
	tx, err := b.db.Begin(true)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // of no effect after Commit
	b.db.AllocSize = growthStep(tx.Size())
	b.db.NoFreelistSync = b.long || tx.Size() <= smallFile
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].Table == changes[0].Table {
			n++
		}
		if err := applyTable(tx, changes[:n]); err != nil {
			return 0, err
		}
		changes = changes[n:]
	}
	if b.split {
		b.split = false
		if err := joinRoot(tx); err != nil {
			return 0, err
		}
	}
	version := uint64(tx.ID())
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	b.broken = false
	b.look()
	return version, nil
}

// applyTable makes changes to one table, sorted by key.
func applyTable(tx *bolt.Tx, changes []group.Change) error {
	bucket, err := tx.CreateBucketIfNotExists([]byte(changes[0].Table))
	if err != nil {
		return err
	}
	if last, _ := bucket.Cursor().Last(); string(last) < changes[len(changes)/2].Key {
		bucket.FillPercent = appendFill
	}
	var key []byte // bbolt copies it
	for _, c := range changes {
		key = append(key[:0], c.Key...)
		if c.Delete {
			err = bucket.Delete(key)
		} else {
			err = bucket.Put(key, c.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// growthStep is by how much a file of size bytes grows at a time: each step
// costs a sync, and what is not used yet is small beside the file.
func growthStep(size int64) int {
	return int(min(max(size/8, 1<<20), 16<<20))
}

// look decides now and then whether the next commits write the free list, and whether
// the next one joins the pages of the root. An error here will be met by the commit too.
func (b *backend) look() {
	b.commits--
	if b.commits > 0 {
		return
	}
	if b.long { // its length is known once it has been written
		b.commits, b.long = 1, false
		return
	}
	b.commits = lookAtList
	m, _, err := newestMeta(b.file)
	if err != nil {
		return
	}
	if split, err := rootIsSplit(b.file, m); err == nil {
		b.split = split
	}
	n, err := b.listBytes(m)
	if err != nil || n <= maxList {
		return
	}
	b.commits, b.long = tryList, true
	if b.log != nil {
		b.log.Debug("the free list is kept out of the file until the store is closed", "bytes", n)
	}
}

// listBytes returns the length of the free list as the last commit wrote it.
func (b *backend) listBytes(m meta) (int64, error) {
	if m.list == noList {
		return 0, nil
	}
	var head [pageHeader]byte
	if _, err := b.file.ReadAt(head[:], int64(m.list)*m.pageSize); err != nil {
		return 0, err
	}
	following := int64(binary.NativeEndian.Uint32(head[12:]))
	return (following + 1) * m.pageSize, nil
}

// Close implements [group.Backend]. A free list kept out of the file is written
// back, so that the next opening need not rebuild it.
func (b *backend) Close() error {
	if b.db.NoFreelistSync && !b.broken {
		err := guard(b.writeList)
		if err != nil && b.log != nil {
			b.log.Warn("the free list was not written; the next opening takes longer", "cause", err)
		}
	}
	return b.db.Close()
}

// writeList commits nothing but the free list.
func (b *backend) writeList() error {
	b.db.NoFreelistSync = false
	tx, err := b.db.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of no effect after Commit
	return tx.Commit()
}

// snapshot is a read transaction. It remembers the tables it has read, since finding
// one takes longer than finding a row.
type snapshot struct {
	tx     *bolt.Tx
	tables []table
	room   [2]table // for tables
}

// table is a table of a snapshot; bucket is nil when there is none.
type table struct {
	id     kv.TableID
	bucket *bolt.Bucket
	get    *bolt.Cursor // for single rows
}

// table returns a table of s, until the next call.
func (s *snapshot) table(id kv.TableID) *table {
	for i := range s.tables {
		if s.tables[i].id == id {
			return &s.tables[i]
		}
	}
	t := table{id: id, bucket: s.tx.Bucket([]byte(id))}
	if t.bucket != nil {
		t.get = t.bucket.Cursor()
	}
	s.tables = append(s.tables, t)
	return &s.tables[len(s.tables)-1]
}

// Version implements [group.Snapshot].
func (s *snapshot) Version() uint64 { return uint64(s.tx.ID()) }

// Get implements [group.Snapshot].
func (s *snapshot) Get(id kv.TableID, key []byte) []byte {
	t := s.table(id)
	if t.bucket == nil {
		return nil
	}
	k, v := t.get.Seek(key)
	if !bytes.Equal(k, key) {
		return nil
	}
	return v
}

// Cursor implements [group.Snapshot].
func (s *snapshot) Cursor(t kv.TableID, r kv.Range) group.Cursor {
	b := s.table(t).bucket
	if b == nil {
		return noRows{}
	}
	return &cursor{c: b.Cursor(), r: r}
}

// Close implements [group.Snapshot].
func (s *snapshot) Close() { _ = s.tx.Rollback() }

type noRows struct{}

// Next implements [group.Cursor].
func (noRows) Next() (key, value []byte, ok bool) { return nil, nil, false }

type cursor struct {
	c       *bolt.Cursor
	r       kv.Range
	started bool
}

// Next implements [group.Cursor].
func (c *cursor) Next() (key, value []byte, ok bool) {
	key, value = c.advance()
	if key == nil {
		return nil, nil, false
	}
	if c.r.Reverse && c.r.From != nil && string(key) < string(c.r.From) ||
		!c.r.Reverse && c.r.To != nil && string(key) >= string(c.r.To) {
		return nil, nil, false
	}
	return key, value, true
}

func (c *cursor) advance() (key, value []byte) {
	switch {
	case c.started && c.r.Reverse:
		return c.c.Prev()
	case c.started:
		return c.c.Next()
	}
	c.started = true
	switch {
	case !c.r.Reverse && c.r.From == nil:
		return c.c.First()
	case !c.r.Reverse:
		return c.c.Seek(c.r.From)
	case c.r.To == nil:
		return c.c.Last()
	}
	if key, _ := c.c.Seek(c.r.To); key == nil {
		return c.c.Last()
	}
	return c.c.Prev()
}
