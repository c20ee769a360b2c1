package boltkv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"onced/kv"
)

// migration changes a file from one schema version to the next, in one
// transaction. It must be able to run again after a crash before its commit.
type migration func(*bolt.Tx) error

// builtinMigrations are keyed by the version they start from.
var builtinMigrations = map[uint64]migration{
	// Runs of sagas that go on are in a table of their own since 2. What is found in the
	// other one moves when it changes, so nothing is to be done here: the version keeps out
	// an older program, which would look for a run in vain, and say so to its callbacks.
	1: func(*bolt.Tx) error { return nil },
}

// migrate takes a snapshot beside the file and then steps the schema forward,
// one transaction a step. After a crash between two steps the next opening goes
// on from there.
func migrate(db *bolt.DB, version uint64, o Options) error {
	for v := version; v < o.schema; v++ {
		if o.migrations[v] == nil {
			return fmt.Errorf("no migration from schema %d; use an older version of onced first", v)
		}
	}
	backup, err := snapshotBeside(db, version)
	if err != nil {
		return fmt.Errorf("snapshot before migration (it needs as much free space as the file): %w", err)
	}
	for ; version < o.schema; version++ {
		err := db.Update(func(tx *bolt.Tx) error {
			if err := o.migrations[version](tx); err != nil {
				return err
			}
			return putUint(tx.Bucket(metaBucket), keySchema, version+1)
		})
		if err != nil {
			return fmt.Errorf("migrate from schema %d (the file before it is in %s): %w",
				version, backup, err)
		}
	}
	if o.Logger != nil {
		o.Logger.Info("store migrated", "schema", o.schema, "snapshot", backup)
	}
	return nil
}

// snapshotBeside writes a consistent copy of the file beside it, whole or not at
// all, and returns its path. The name carries the last transaction, so that a
// copy of this state from an earlier try is kept, and one of another is not
// taken for it.
func snapshotBeside(db *bolt.DB, version uint64) (path string, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		path = fmt.Sprintf("%s.schema%d.tx%d.bak", db.Path(), version, tx.ID())
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		part := path + ".part"
		err := errors.Join(tx.CopyFile(part, 0o600), syncFile(part))
		if err == nil {
			err = os.Rename(part, path)
		}
		if err != nil {
			return errors.Join(err, os.Remove(part))
		}
		return syncFolder(filepath.Dir(path))
	})
	return path, err
}

// readSchema returns the file's schema version, 0 for a new file.
func readSchema(db *bolt.DB) (version uint64, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(metaBucket)
		if b == nil {
			if name, _ := tx.Cursor().First(); name != nil {
				return fmt.Errorf("%w: it is a bbolt file of another program; name another file",
					kv.ErrForeign)
			}
			return nil
		}
		if app := string(b.Get(keyApp)); app != application {
			return fmt.Errorf("%w: its application id is %q; name another file", kv.ErrForeign, app)
		}
		if version = getUint(b, keySchema); version == 0 {
			return fmt.Errorf("%w: it has no schema version; restore it from a backup", kv.ErrCorrupt)
		}
		return nil
	})
	return version, err
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
