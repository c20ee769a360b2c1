package boltkv

import (
	"encoding/binary"
	"io"

	bolt "go.etcd.io/bbolt"
)

// The root lists the tables, with the rows of those that are small, and is written by
// every commit. In a new file all tables are small and then grow: their rows leave the
// root, which has two pages or three by then, and bbolt joins pages only when something
// is deleted in them. So it is done here.

// joined is the most that the root may take to be made one page, in parts of a page:
// what is small grows, and a root that is split again would be joined again.
const joined = 0.75

// rootIsSplit reports whether the root has several pages and would fit on one.
func rootIsSplit(f io.ReaderAt, m meta) (bool, error) {
	page := make([]byte, m.pageSize)
	if _, err := f.ReadAt(page, int64(m.root)*m.pageSize); err != nil {
		return false, err
	}
	n := binary.NativeEndian
	count := int64(n.Uint16(page[10:]))
	if n.Uint16(page[8:]) != branchPage || count > elementsOf(m) {
		return false, nil // a damaged page is found by who reads it
	}
	size := int64(pageHeader)
	for i := range count {
		below, err := element(m.root, page[pageHeader+i*elementSize:], true)
		if err != nil {
			return false, err
		}
		leaf, err := leafBytes(f, m, below)
		if err != nil {
			return false, err
		}
		if size += leaf; size > int64(joined*float64(m.pageSize)) {
			return false, nil
		}
	}
	return true, nil
}

// elementsOf is the most elements that a page has room for.
func elementsOf(m meta) int64 { return (m.pageSize - pageHeader) / elementSize }

// leafBytes returns what the rows of a leaf take; a page for one that is none, or has more.
func leafBytes(f io.ReaderAt, m meta, id uint64) (int64, error) {
	page := make([]byte, m.pageSize)
	if _, err := f.ReadAt(page, int64(id)*m.pageSize); err != nil {
		return 0, err
	}
	n := binary.NativeEndian
	last := int64(n.Uint16(page[10:])) - 1
	if n.Uint16(page[8:]) != leafPage || n.Uint32(page[12:]) > 0 || last < 0 || last >= elementsOf(m) {
		return m.pageSize, nil
	}
	at := last * elementSize
	e := page[pageHeader+at:]
	return at + int64(n.Uint32(e[4:])) + int64(n.Uint32(e[8:])) + int64(n.Uint32(e[12:])), nil
}

// passing is the name of a table that is made and deleted within one transaction. No
// table has such a name.
var passing = []byte{0}

// joinRoot has bbolt join the first page of the root with the next when tx is committed:
// it does so where something was deleted, if less than half of the fill percentage is used.
func joinRoot(tx *bolt.Tx) error {
	tx.Cursor().Bucket().FillPercent = 2
	if _, err := tx.CreateBucket(passing); err != nil {
		return err
	}
	return tx.DeleteBucket(passing)
}
