package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNotRegular is a file that is a pipe, a device or a socket: to open or to read it
// could take for ever.
var ErrNotRegular = errors.New("is not a regular file")

// OpenFile opens a file for reading without waiting for anybody: a pipe that nobody
// writes to does not hold it up. What is neither a regular file nor a folder is
// refused with [ErrNotRegular] in an [*fs.PathError]; the empty device counts as an empty
// file. A file system that does not answer holds it
// up all the same.
func OpenFile(name string) (*os.File, error) {
	name = filepath.Clean(name)
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() && name != os.DevNull {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, err
	}
	return f, nil
}
