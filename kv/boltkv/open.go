package boltkv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"onced/kv"
)

// schemaVersion is the version of the file's layout this program writes.
const schemaVersion = 1

// application is the id in the file's own bucket.
const application = "onced"

var (
	metaBucket = []byte("_onced")
	keyApp     = []byte("application")
	keySchema  = []byte("schema")
	keyEpoch   = []byte("epoch")
)

// migration changes a file from one schema version to the next, in one
// transaction. It must be able to run again after a crash before its commit.
type migration func(*bolt.Tx) error

// builtinMigrations are keyed by the version they start from.
var builtinMigrations = map[uint64]migration{}

// mapHeadroom is the address space kept for the file to grow into, so that a
// long read does not make a writer wait for a larger map. It costs no memory.
func mapHeadroom(size int64) int {
	headroom := int64(16 << 30)
	if bits.UintSize == 32 {
		headroom = 256 << 20
	}
	return int(max(headroom, min(2*size, int64(bits.UintSize)<<25)))
}

// engineOptions returns the options for a file of size bytes.
func engineOptions(size int64) *bolt.Options {
	return &bolt.Options{
		FreelistType:    bolt.FreelistMapType,
		InitialMmapSize: mapHeadroom(size),
		NoStatistics:    true,
	}
}

// openFile opens or makes the file, checks that it is ours, migrates it, and
// starts a new epoch.
func openFile(path string, o Options) (*bolt.DB, uint64, error) {
	size, err := precheck(path)
	if err != nil {
		return nil, 0, err
	}
	opt := engineOptions(size)
	opt.Timeout = o.LockTimeout
	db, err := bolt.Open(path, 0o600, opt)
	if err != nil {
		return nil, 0, openError(path, err)
	}
	epoch, err := start(db, o)
	if err == nil && size == 0 {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		_ = db.Close()
		return nil, 0, fmt.Errorf("boltkv: open %s: %w", path, err)
	}
	return db, epoch, nil
}

// boltMagic is at byte 16 of each of the first two pages of a bbolt file.
const boltMagic = 0xED0CDAED

// precheck makes the folder, and refuses a file that bbolt would overwrite or
// misread. It returns the file's size, 0 when it is to be made.
func precheck(path string) (int64, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return 0, fmt.Errorf("boltkv: make the folder of %s: %w", path, err)
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("boltkv: open %s: %w", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("boltkv: open %s: %w", path, err)
	}
	if info.IsDir() {
		return 0, fmt.Errorf("boltkv: open %s: %w: it is a folder; name a file in it", path, kv.ErrForeign)
	}
	if info.Size() == 0 {
		return 0, nil
	}
	var head [20]byte
	if _, err := io.ReadFull(f, head[:]); err != nil || binary.NativeEndian.Uint32(head[16:]) != boltMagic {
		return 0, fmt.Errorf("boltkv: open %s: %w; name another file", path, kv.ErrForeign)
	}
	return info.Size(), nil
}

func openError(path string, err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("boltkv: open %s: %w%s; stop it, or use another data folder",
			path, kv.ErrLocked, lockHolder(path))
	}
	if errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrVersionMismatch) ||
		errors.Is(err, bolterrors.ErrChecksum) {
		return fmt.Errorf("boltkv: open %s: %w (%w); restore it from a backup", path, kv.ErrCorrupt, err)
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
		return errors.Join(b.Put(keyApp, []byte(application)), putUint(b, keySchema, o.schema), putUint(b, keyEpoch, epoch))
	})
	return epoch, err
}

// readSchema returns the file's schema version, 0 for a new file.
func readSchema(db *bolt.DB) (version uint64, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(metaBucket)
		if b == nil {
			if name, _ := tx.Cursor().First(); name != nil {
				return fmt.Errorf("%w: it is a bbolt file of another program; name another file", kv.ErrForeign)
			}
			return nil
		}
		if app := string(b.Get(keyApp)); app != application {
			return fmt.Errorf("%w: its application id is %q; name another file", kv.ErrForeign, app)
		}
		if version = getUint(b, keySchema); version == 0 {
			return fmt.Errorf("%w: it has no schema version", kv.ErrCorrupt)
		}
		return nil
	})
	return version, err
}

// migrate takes a snapshot beside the file and then steps the schema forward,
// one transaction a step.
func migrate(db *bolt.DB, version uint64, o Options) error {
	backup := fmt.Sprintf("%s.schema%d.bak", db.Path(), version)
	if err := snapshotTo(db, backup); err != nil {
		return fmt.Errorf("snapshot before migration: %w", err)
	}
	for ; version < o.schema; version++ {
		step := o.migrations[version]
		if step == nil {
			return fmt.Errorf("%w: no migration from schema %d", kv.ErrCorrupt, version)
		}
		err := db.Update(func(tx *bolt.Tx) error {
			if err := step(tx); err != nil {
				return err
			}
			return putUint(tx.Bucket(metaBucket), keySchema, version+1)
		})
		if err != nil {
			return fmt.Errorf("migrate from schema %d (the file before it is in %s): %w", version, backup, err)
		}
	}
	if o.Logger != nil {
		o.Logger.Info("store migrated", "schema", o.schema, "snapshot", backup)
	}
	return nil
}

// snapshotTo writes a consistent copy of the file to path, whole or not at all.
// A complete copy from an earlier try is kept.
func snapshotTo(db *bolt.DB, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	part := path + ".part"
	err := db.View(func(tx *bolt.Tx) error { return tx.CopyFile(part, 0o600) })
	if err != nil {
		return err
	}
	if err := syncFile(part); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncFolder makes a new name in a folder durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
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
