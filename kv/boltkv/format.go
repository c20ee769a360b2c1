package boltkv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	bolterrors "go.etcd.io/bbolt/errors"

	"onced/kv"
)

// pageSize of a new file. The file system's own block, also where the kernel's
// pages are larger: a small commit writes a handful of pages.
const pageSize = 4096

// This much of bbolt's format is read here: the meta pages, so that a file that
// is not ours, or cut short, is refused before bbolt maps it (a read beyond its
// end would kill the process), the length of the free list, and the pages in use when
// that list is missing, see checkTree.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	pageHeader  = 16
	metaSize    = 64
	noList      = ^uint64(0) // the free list is not in the file
)

// meta is what a commit leaves in one of the first two pages.
type meta struct {
	pageSize int64
	root     uint64 // first page of the tree
	list     uint64 // first page of the free list, or noList
	pages    uint64 // pages in use, from the start of the file
	tx       uint64
}

// parseMeta reads a meta page; magic tells whether it is bbolt's at all.
func parseMeta(page []byte) (m meta, magic bool, err error) {
	if len(page) < pageHeader+metaSize {
		return m, false, bolterrors.ErrInvalid
	}
	b := page[pageHeader : pageHeader+metaSize]
	n := binary.NativeEndian
	if n.Uint32(b) != boltMagic {
		return m, false, bolterrors.ErrInvalid
	}
	if n.Uint32(b[4:]) != boltVersion {
		return m, true, bolterrors.ErrVersionMismatch
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSize-8])
	if n.Uint64(b[metaSize-8:]) != h.Sum64() {
		return m, true, bolterrors.ErrChecksum
	}
	return meta{pageSize: int64(n.Uint32(b[8:])), root: n.Uint64(b[16:]), list: n.Uint64(b[32:]),
		pages: n.Uint64(b[40:]), tx: n.Uint64(b[48:])}, true, nil
}

// newestMeta returns the state of the last commit. When no meta page is sound,
// magic tells whether the file is a damaged one of bbolt.
func newestMeta(f io.ReaderAt) (newest meta, magic bool, err error) {
	err = bolterrors.ErrInvalid
	offsets := []int64{0}
	for at := int64(1024); at <= 1024<<14; at <<= 1 { // the second page, whatever the page size
		offsets = append(offsets, at)
	}
	var buf [pageHeader + metaSize]byte
	for _, at := range offsets {
		n, readErr := f.ReadAt(buf[:], at)
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return meta{}, false, readErr
		}
		m, isBolt, parseErr := parseMeta(buf[:n])
		if at > 0 && parseErr == nil && m.pageSize != at {
			continue
		}
		magic = magic || isBolt
		if parseErr == nil && (err != nil || m.tx > newest.tx) {
			newest, err = m, nil
		} else if err != nil && isBolt {
			err = parseErr
		}
		if at > 0 && err == nil && newest.pageSize <= at {
			break
		}
	}
	return newest, magic, err
}

// inspect looks at a file that is not yet opened by bbolt. It reports a file to
// which nothing was ever committed as new, and empties it if we hold its lock.
func inspect(f *os.File, locked bool) (m meta, isNew bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return m, false, err
	}
	if !info.Mode().IsRegular() {
		return m, false, fmt.Errorf("%w: it is not a regular file; name another file", kv.ErrForeign)
	}
	if info.Size() == 0 {
		return m, true, nil
	}
	if locked && neverUsed(f, info.Size()) {
		return m, true, f.Truncate(0)
	}
	m, magic, err := newestMeta(f)
	switch {
	case err != nil && !magic:
		return m, false, fmt.Errorf("%w; name another file", kv.ErrForeign)
	case err != nil:
		return m, false, fmt.Errorf("%w (%w); restore it from a backup", kv.ErrCorrupt, err)
	case info.Size() < int64(m.pages)*m.pageSize:
		return m, false, fmt.Errorf("%w: the file is cut short (%d bytes of %d); restore it from a backup",
			kv.ErrCorrupt, info.Size(), int64(m.pages)*m.pageSize)
	}
	return m, false, nil
}

// neverUsed reports whether the file is what a crash leaves that came while it
// was made: of its four first pages each is zeroes or as bbolt makes it.
func neverUsed(f io.ReaderAt, size int64) bool {
	if size > 4*pageSize {
		return false
	}
	var buf [4 * pageSize]byte
	_, err := f.ReadAt(buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	for i := range 2 {
		page := buf[i*pageSize : (i+1)*pageSize]
		if m, _, err := parseMeta(page); err == nil && m.tx == uint64(i) {
			continue
		}
		if !zero(page) {
			return false
		}
	}
	return zero(buf[2*pageSize:]) || !zero(buf[:2*pageSize])
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
