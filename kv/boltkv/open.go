package boltkv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"onced/kv"
)

// schemaVersion is the version of the file's layout this program writes.
const schemaVersion = 2

// application is the id in the file's own bucket.
const application = "onced"

var (
	// metaBucket is longer than any table's name may be.
	metaBucket = []byte("onced: about this file (application, schema, epoch); not a table of rows")
	keyApp     = []byte("application")
	keySchema  = []byte("schema")
	keyEpoch   = []byte("epoch")
)

// mapHeadroom is the address space kept for the file to grow into, so that a
// long read does not make a writer wait for a larger map. It costs no memory.
func mapHeadroom(size int64) int {
	if runtime.GOOS == "windows" {
		return 0 // the file would be made as large as the map
	}
	if bits.UintSize == 32 {
		return int(min(max(256<<20, 2*size), 1<<30))
	}
	return int(max(16<<30, 2*size))
}

// engineOptions returns bbolt's options with a map of so many bytes at least.
func engineOptions(headroom int) *bolt.Options {
	return &bolt.Options{
		FreelistType:    bolt.FreelistMapType,
		InitialMmapSize: headroom,
		PageSize:        pageSize,
		NoStatistics:    true,
	}
}

// opened is an open file.
type opened struct {
	db    *bolt.DB
	file  *os.File // bbolt's; read here only
	isNew bool
	epoch uint64

	headroom int64 // the least size of the map
}

// openFile opens or makes the file, checks that it is ours, migrates it, and
// starts a new epoch.
func openFile(ctx context.Context, path string, o Options) (f *opened, err error) {
	dir := filepath.Dir(path)
	base := existing(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, openError(path, fmt.Errorf("make its folder: %w", err))
	}
	var size int64
	if info, err := os.Stat(path); err == nil {
		if size = info.Size(); info.IsDir() {
			return nil, fmt.Errorf("boltkv: open %s: %w: it is a folder; name a file in it",
				path, kv.ErrForeign)
		}
	}
	for headroom := mapHeadroom(size); ; headroom /= 4 {
		f, err = openEngine(ctx, path, headroom, o)
		if headroom < 1<<20 || !errors.Is(err, syscall.ENOMEM) {
			break // else address space is limited: with a smaller map it may do
		}
	}
	if err != nil {
		return nil, openError(path, err)
	}
	if f.isNew {
		// Before the first commit: a file that has one was found after a crash only
		// if its name is on the disk, and so is not looked at here again.
		err = syncFolders(dir, base)
	}
	if err == nil {
		err = guard(func() (err error) {
			f.epoch, err = start(f.db, o)
			return err
		})
	}
	if err != nil {
		_ = f.db.Close()
		return nil, openError(path, err)
	}
	return f, nil
}

// existing returns dir or the first folder above it that exists.
func existing(dir string) string {
	for {
		_, err := os.Stat(dir)
		up := parent(dir)
		if err == nil || up == dir {
			return dir
		}
		dir = up
	}
}

// parent returns the folder above dir, dir itself when there is none.
func parent(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Dir(dir)
}

// syncFolders makes the name of a new file in dir durable, and the names of all
// folders above it. Those from base on were made here, and their names must not
// be lost. So may those above have been, by a process that was killed before it
// came to this; but others made most of them and may keep us from opening them,
// which is no reason to refuse.
func syncFolders(dir, base string) error {
	made := true
	for {
		if err := syncFolder(dir); err != nil && made {
			return fmt.Errorf("make the folder %s durable: %w", dir, err)
		}
		made = made && dir != base
		up := parent(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// openEngine locks the file, looks at it, and lets bbolt open it.
func openEngine(ctx context.Context, path string, headroom int, o Options) (*opened, error) {
	opt := engineOptions(headroom)
	opt.Timeout = o.LockTimeout
	// Or opening might write the list, also into a file that is then refused.
	// The first commit decides.
	opt.NoFreelistSync = true
	f := &opened{headroom: int64(headroom)}
	opt.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		file, err := os.OpenFile(name, flag, mode)
		if err != nil || f.file != nil { // the second is bbolt copying the file
			return file, err
		}
		if err := f.prepare(ctx, file, o); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		f.file = file
		return file, nil
	}
	err := guard(func() (err error) {
		f.db, err = bolt.Open(path, 0o600, opt)
		return err
	})
	if err != nil && f.file != nil {
		unlockFile(f.file) // when bbolt panics it leaves the file open, locked and mapped
		_ = f.file.Close()
	}
	return f, err
}

// prepare locks and inspects the file before bbolt touches it.
func (f *opened) prepare(ctx context.Context, file *os.File, o Options) error {
	locked, err := lockFile(ctx, file, o.LockTimeout)
	if err != nil {
		return err
	}
	m, isNew, err := inspect(file, locked)
	if err != nil {
		return err
	}
	f.isNew = isNew
	if isNew || m.list != noList {
		return nil
	}
	// The last process was killed while it kept the free list out of the file, as that
	// of a small one always is: bbolt will visit all pages in use. In the order of the
	// file this is read many times faster than in theirs.
	if o.Logger != nil && int64(m.pages)*m.pageSize > smallFile {
		o.Logger.Info("rebuilding the free list; the store was not closed", "pages", m.pages)
	}
	_, err = io.Copy(io.Discard, io.NewSectionReader(file, 0, int64(m.pages)*m.pageSize))
	if err != nil {
		return err
	}
	return checkTree(file, m)
}

// guard turns a panic of bbolt, which is its way to report damage, and a fault
// in the mapped file into an error.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w (%v); restore it from a backup", kv.ErrCorrupt, p)
		}
	}()
	return fn()
}

func openError(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("boltkv: open %s: %w%s; stop it, or use another data folder",
			path, kv.ErrLocked, lockHolder(path))
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("boltkv: open %s: %w; the store needs to be writable: change its owner or mode, "+
			"or use another data folder", path, err)
	}
	return fmt.Errorf("boltkv: open %s: %w", path, err)
}

// start checks and migrates the schema and begins the next epoch.
func start(db *bolt.DB, o Options) (epoch uint64, err error) {
	version, err := readSchema(db)
	if err != nil {
		return 0, err
	}
	if version > o.schema {
		return 0, fmt.Errorf("%w (schema %d, known up to %d)", kv.ErrNewer, version, o.schema)
	}
	db.NoFreelistSync = false
	db.AllocSize = growthStep(0)
	if version > 0 && version < o.schema {
		if err := migrate(db, version, o); err != nil {
			return 0, err
		}
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		epoch = getUint(b, keyEpoch) + 1
		return errors.Join(b.Put(keyApp, []byte(application)), putUint(b, keySchema, o.schema),
			putUint(b, keyEpoch, epoch))
	})
	return epoch, err
}

func getUint(b *bolt.Bucket, key []byte) uint64 {
	if v := b.Get(key); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func putUint(b *bolt.Bucket, key []byte, n uint64) error {
	return b.Put(key, binary.BigEndian.AppendUint64(nil, n))
}
