package boltkv

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"onced/kv"
)

// The file is read through a map. A page that the disk cannot read is a fault of
// the machine there, which ends the process unless the goroutine asks for a
// panic. All reading is done on the goroutine of the caller, commits too, so
// that it is enough to ask here. It costs some ten nanoseconds a transaction,
// see NOTES.md.

// View implements [kv.Store].
func (s *Store) View(ctx context.Context, fn func(kv.Reader) error) (err error) {
	defer s.faults(debug.SetPanicOnFault(true), &err)
	return s.Store.View(ctx, fn)
}

// Update implements [kv.Store].
func (s *Store) Update(ctx context.Context, fn func(kv.Writer) error) (err error) {
	defer s.faults(debug.SetPanicOnFault(true), &err)
	return s.Store.Update(ctx, fn)
}

// faults, deferred, turns a fault in the map into an error. Other panics are the
// caller's and go on. asked is whether faults were panics before.
func (s *Store) faults(asked bool, err *error) {
	p := recover()
	debug.SetPanicOnFault(asked)
	if p == nil { // it returned, or the goroutine is ending, see runtime.Goexit
		return
	}
	if at, ok := p.(faultError); !ok || !s.backend.maps(at.Addr()) {
		panic(p)
	}
	*err = fmt.Errorf("boltkv: %s: %w: a page of the file cannot be read; check the disk, "+
		"and restore the file from a backup", s.path, kv.ErrCorrupt)
}

// faultError is how the runtime reports a fault at an address.
type faultError interface {
	runtime.Error
	Addr() uintptr
}

// maps reports whether the address is in the map of the file. The map is not
// smaller than what was asked for.
func (b *backend) maps(at uintptr) bool {
	info, err := b.file.Stat()
	if err != nil {
		return false
	}
	start := b.db.Info().Data
	return at >= start && uint64(at-start) < uint64(max(b.headroom, info.Size()))
}
