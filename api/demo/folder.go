package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"onced/api/demo/book"
	"onced/kv"
)

// markFile says that a folder is a demo's, so that its content may be removed.
// It is the lock of the folder too.
const markFile = "onced-demo.lock"

// ErrFolder means that the data folder cannot be used.
var ErrFolder = errors.New("demo: the data folder cannot be used")

// inUseError is [ErrFolder] because of another demo, and kv.ErrLocked.
type inUseError struct{ name string }

// Error says what to do.
func (e *inUseError) Error() string {
	return fmt.Sprintf("%v: another demo works in %s; stop it, or use another one with --data", ErrFolder,
		e.name)
}

// Is makes it the errors that the type names.
func (e *inUseError) Is(target error) bool { return target == ErrFolder || target == kv.ErrLocked }

// openFolder makes the data folder or takes that of an earlier demo, and keeps
// others out of it until release.
func openFolder(name string) (release func(), err error) {
	entries, err := os.ReadDir(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	mark := filepath.Join(name, markFile)
	if _, err := os.Stat(mark); err != nil && len(entries) > 0 {
		return nil, fmt.Errorf("%w: %s holds something else than a demo; use another one with --data",
			ErrFolder, name)
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if err := lockFile(f); err != nil {
		_ = f.Close()
		return nil, &inUseError{name}
	}
	return func() { _ = f.Close() }, nil
}

// booksFolder makes the folder of the books of this kind of demo. Each kind has its
// own: what one charges says nothing about another.
func booksFolder(c Config) (string, error) {
	kind := "interactive"
	if c.Orders > 0 {
		kind = "load"
	}
	if c.Unprotected {
		kind += "-unprotected"
	}
	name := filepath.Join(c.Data, kind)
	if err := os.MkdirAll(name, 0o700); err != nil {
		return "", fmt.Errorf("%w: %w", ErrFolder, err)
	}
	return name, nil
}

// emptyFolder removes what a world has written, and nothing else.
func emptyFolder(name string) error {
	files := []string{ordersFile, configFile, definitionFile, portFile, tokenFile, serviceDir, logFile}
	for _, s := range book.Services() {
		files = append(files, s.File())
	}
	var errs []error
	for _, file := range files {
		errs = append(errs, os.RemoveAll(filepath.Join(name, file)))
	}
	return errors.Join(errs...)
}
