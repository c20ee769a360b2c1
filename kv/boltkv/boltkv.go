// Package boltkv is the embedded store: one file, held by one process, through
// go.etcd.io/bbolt. Commits are grouped by kv/group.
//
// # What is guaranteed
//
// What package kv promises: a nil error means the change has been synced to
// the disk, and so have the names of the file and of the folders made for it. A
// crash at any moment leaves the state of some commit that had begun, and every
// commit that was acknowledged.
//
// A page of the file that the disk cannot read, or that is gone because the file
// was cut short, is [kv.ErrCorrupt] for the transaction that reads it; others go
// on. Met by a commit, it is a commit error.
//
// # What is not
//
// A disk that lies about syncing, and network file systems whose locks or
// syncs do not hold, are outside it. The file does not shrink by itself. Pages
// have no checksum: bytes that the disk changed in silence are seen only where
// bbolt or a row's own decoding stumbles over them. A page that cannot be read
// is a panic inside the closure; one that recovers from all panics hides it.
// After a commit error, while the free list is not in the file, bbolt visits all
// pages on a goroutine of its own: one that cannot be read then ends the process.
//
// # After a commit error
//
// The disk was full, or failed. Writes stop ([kv.ErrStopped]), reads go on,
// and reading a row of the failed group is [kv.ErrCommitUnknown] until the
// next start. Nothing that was acknowledged is lost.
//
// # The file
//
// Each table is a bucket. One more bucket, with a name longer than a table's
// may be, holds the application's id, the schema version and the epoch, which
// rises with every opening. The file grows in steps of an eighth of its size,
// 1 to 16 MiB. Before a migration a copy of it is written beside it.
//
// # What it costs
//
// NOTES.md has the figures and how to get them again. Ten million rows in 2.6
// GB open in 10 ms with a cold cache, with 1 MiB of memory of its own, 7 MiB
// under load; what is read stays in the system's cache. A lone insert writes
// some 30 KiB, a lone claim of kv/claim 77 KiB, an idle store nothing.
//
// The list of free pages is written with each commit while it is short, in files
// above 16 MiB. After a purge it can be long (5 MB); it is then kept out of the file
// until Close, as that of a small file always is. When the process is killed in that
// state, the next opening reads the file once in order to rebuild it: 8 s for 2.6 GB on
// a disk of 300 MB/s. It looks at all pages in use, and refuses the file as
// [kv.ErrCorrupt] when one of them is none.
package boltkv

import (
	"context"
	"fmt"
	"log/slog"
	"time"

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
	// Rerun runs every closure of Update twice, for tests; see [group.Options].
	Rerun bool
	// Observer is told of each commit; see [group.Options].
	Observer func(group.Commit)
	// Logger is told of what an operator should know; nil is silent.
	Logger *slog.Logger

	schema     uint64                            // 0 means schemaVersion; tests set others
	migrations map[uint64]migration              // nil means the built-in ones
	space      func(dir string) (uint64, error)  // nil means the file system's
	wrap       func(group.Backend) group.Backend // nil means none; tests look between group and engine
}

// Store is a [kv.Store] in one bbolt file.
type Store struct {
	*group.Store
	backend *backend
	path    string
}

// Path returns the path of the file, as given to Open.
func (s *Store) Path() string { return s.path }

// Open opens the store in the file path, making it and its folder if need be.
// Waiting for the lock is bounded by [Options.LockTimeout] and, except on Windows,
// by the context; the rest is not interrupted.
//
// Errors: [kv.ErrLocked] names the process that holds the file, [kv.ErrForeign]
// means that it is not a store of onced, [kv.ErrNewer] that a newer version
// wrote it, [kv.ErrCorrupt] that it is damaged or cut short; in each case the
// file is left as it was.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("boltkv: open %s: %w", path, context.Cause(ctx))
	}
	o := withDefaults(opts)
	f, err := openFile(ctx, path, o)
	if err != nil {
		return nil, err
	}
	b := newBackend(f, o.Logger)
	s, err := group.New(o.wrap(b), group.Options{Clock: o.Clock, Epoch: f.epoch, MaxCalls: o.MaxCalls,
		MaxBytes: o.MaxBytes, Admit: newSpaceGauge(path, o).admit, Observer: o.Observer, Logger: o.Logger,
		Rerun: o.Rerun})
	if err != nil {
		_ = b.Close()
		return nil, err
	}
	return &Store{Store: s, backend: b, path: path}, nil
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
	if o.wrap == nil {
		o.wrap = func(b group.Backend) group.Backend { return b }
	}
	if o.space == nil {
		o.space = freeSpace
	}
	return o
}
