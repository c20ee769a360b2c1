package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"onced/api/auth"
	"onced/kv/boltkv"
	"onced/kv/feed"
	kvgroup "onced/kv/group"
)

// openStore opens the store of a configuration. The observer may be nil.
func openStore(ctx context.Context, o Options, observer func(kvgroup.Commit)) (*boltkv.Store, error) {
	c := o.Loaded.Config
	minFree := int64(c.Store.MinFree)
	if minFree == 0 {
		minFree = -1 // no mark
	}
	return boltkv.Open(ctx, filepath.Join(c.Data, storeFile),
		&boltkv.Options{Clock: o.Clock, MinFree: minFree, Logger: o.Logger, Observer: observer})
}

// isNoStore reports whether there is no store yet where one will be opened.
func isNoStore(o Options) bool {
	_, err := os.Stat(filepath.Join(o.Loaded.Config.Data, storeFile))
	return errors.Is(err, fs.ErrNotExist)
}

// ErrNoStore means that there is no store in the folder of the data.
var ErrNoStore = errors.New("app: there is no store")

// Offline works on the tokens of a store that no process holds, for whoever has
// the folder of the data and no token. It makes none: [ErrNoStore] means that
// there is nothing in the folder, and [kv.ErrLocked] that a process holds it. fn's
// error is returned.
func Offline(ctx context.Context, o Options, fn func(*auth.Service) error) (err error) {
	o = o.withDefaults()
	if isNoStore(o) {
		return fmt.Errorf("%w at %s", ErrNoStore, filepath.Join(o.Loaded.Config.Data, storeFile))
	}
	store, err := openStore(ctx, o, nil)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := store.Close(); err == nil {
			err = cerr
		}
	}()
	tokens, err := auth.New(store, auth.Config{Feed: feed.New(feed.Config{Rand: o.Rand}), Clock: o.Clock,
		Rand: o.Rand, Logger: o.Logger})
	if err != nil {
		return err
	}
	return fn(tokens)
}
