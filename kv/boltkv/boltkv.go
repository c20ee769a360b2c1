// Package boltkv is the embedded store: one file, held by one process, through
// go.etcd.io/bbolt. Commits are grouped by kv/group.
//
// # What is guaranteed
//
// What package kv promises: a nil error means the change has been synced to
// the disk. A crash at any moment leaves the state of some commit that had
// begun, and every commit that was acknowledged.
//
// # What is not
//
// A disk that lies about syncing, and network file systems whose locks or
// syncs do not hold, are outside it. The file does not shrink by itself.
//
// # After a commit error
//
// The disk was full, or failed. Writes stop ([kv.ErrStopped]), reads go on,
// and reading a row of the failed group is [kv.ErrCommitUnknown] until the
// next start. Nothing that was acknowledged is lost.
//
// # The file
//
// Each table is a bucket. The bucket "_onced" holds the application's id, the
// schema version and the epoch, which rises with every opening.
package boltkv

import (
	"context"
	"log/slog"
	"time"

	bolt "go.etcd.io/bbolt"

	"onced/kv"
	"onced/kv/group"
)

// Options of Open. The zero value, and nil, work.
type Options struct {
	// Clock gives each transaction its instant; nil means the system's clock.
	Clock kv.Clock
	// LockTimeout is how long Open waits for another process to let go of the
	// file; 0 means one second.
	LockTimeout time.Duration
	// MinFree is the free-space mark in bytes: below it [kv.AdmitIntent] refuses
	// new work. 0 means 64 MiB; negative means no mark.
	MinFree int64
	// MaxCalls and MaxBytes bound a group of commits; 0 means the default.
	MaxCalls int
	MaxBytes int
	// Observer is told of each commit; see [group.Options].
	Observer func(group.Commit)
	// Logger is told of what an operator should know; nil is silent.
	Logger *slog.Logger

	schema     uint64                           // 0 means schemaVersion; tests set others
	migrations map[uint64]migration             // nil means the built-in ones
	space      func(dir string) (uint64, error) // nil means the file system's
}

// Store is a [kv.Store] in one bbolt file.
type Store struct {
	*group.Store
	backend *backend
}

// Path returns the path of the file.
func (s *Store) Path() string { return s.backend.db.Path() }

// Open opens the store in the file path, making it and its folder if need be.
// The context is looked at before the file is touched; waiting for the lock is
// bounded by [Options.LockTimeout].
//
// Errors: [kv.ErrLocked] names the process that holds the file, [kv.ErrForeign]
// means that it is not a store of onced, [kv.ErrNewer] that a newer version
// wrote it; in each case the file is left as it was.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o := withDefaults(opts)
	db, epoch, err := openFile(path, o)
	if err != nil {
		return nil, err
	}
	b := &backend{db: db}
	s, err := group.New(b, group.Options{Clock: o.Clock, Epoch: epoch, MaxCalls: o.MaxCalls, MaxBytes: o.MaxBytes,
		Admit: newSpaceGauge(path, o).admit, Observer: o.Observer, Logger: o.Logger})
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return &Store{Store: s, backend: b}, nil
}

func withDefaults(opts *Options) Options {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Clock == nil {
		o.Clock = kv.SystemClock()
	}
	if o.LockTimeout <= 0 {
		o.LockTimeout = time.Second
	}
	if o.MinFree == 0 {
		o.MinFree = 64 << 20
	}
	if o.schema == 0 {
		o.schema = schemaVersion
	}
	if o.migrations == nil {
		o.migrations = builtinMigrations
	}
	if o.space == nil {
		o.space = freeSpace
	}
	return o
}

type backend struct{ db *bolt.DB }

// Snapshot implements [group.Backend].
func (b *backend) Snapshot() (group.Snapshot, error) {
	tx, err := b.db.Begin(false)
	if err != nil {
		return nil, err
	}
	return &snapshot{tx: tx}, nil
}

// Commit implements [group.Backend].
func (b *backend) Commit(changes []group.Change) (uint64, error) {
	tx, err := b.db.Begin(true)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // of no effect after Commit
	var bucket *bolt.Bucket
	for i, c := range changes {
		if i == 0 || c.Table != changes[i-1].Table {
			if bucket, err = tx.CreateBucketIfNotExists([]byte(c.Table)); err != nil {
				return 0, err
			}
		}
		if c.Delete {
			err = bucket.Delete(c.Key)
		} else {
			err = bucket.Put(c.Key, c.Value)
		}
		if err != nil {
			return 0, err
		}
	}
	version := uint64(tx.ID())
	return version, tx.Commit()
}

// Close implements [group.Backend].
func (b *backend) Close() error { return b.db.Close() }

type snapshot struct{ tx *bolt.Tx }

// Version implements [group.Snapshot].
func (s *snapshot) Version() uint64 { return uint64(s.tx.ID()) }

// Get implements [group.Snapshot].
func (s *snapshot) Get(t kv.TableID, key []byte) []byte {
	if b := s.tx.Bucket([]byte(t)); b != nil {
		return b.Get(key)
	}
	return nil
}

// Cursor implements [group.Snapshot].
func (s *snapshot) Cursor(t kv.TableID, r kv.Range) group.Cursor {
	b := s.tx.Bucket([]byte(t))
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
