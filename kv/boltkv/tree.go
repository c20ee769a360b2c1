package boltkv

import (
	"encoding/binary"
	"fmt"
	"io"

	"onced/kv"
)

// What of bbolt's pages is read here, see [checkTree].
const (
	branchPage  = 1
	leafPage    = 2
	elementSize = 16
	bucketEntry = 1  // a flag of an element of a leaf
	bucketSize  = 16 // what the value of such an element begins with
)

// checkTree visits the pages in use as bbolt does to rebuild the free list, and returns
// kv.ErrCorrupt for the first that would make it panic or read beyond its file. bbolt does
// that on a goroutine of its own, where nobody can recover: the process would end.
func checkTree(f io.ReaderAt, m meta) error {
	t := tree{file: f, meta: m, seen: make([]uint64, m.pages/64+1)}
	return t.visit(m.root, 0)
}

type tree struct {
	file io.ReaderAt
	meta meta
	seen []uint64 // a bit for each page
	room [][]byte // for a page of each depth
}

func damaged(id uint64, problem string) error {
	return fmt.Errorf("%w (page %d %s); restore it from a backup", kv.ErrCorrupt, id, problem)
}

// visit checks a page and those below it.
func (t *tree) visit(id uint64, depth int) error {
	if depth == len(t.room) {
		t.room = append(t.room, make([]byte, t.meta.pageSize))
	}
	page, err := t.read(id, t.room[depth])
	if err != nil {
		return err
	}
	n := binary.NativeEndian
	count := int(n.Uint16(page[10:]))
	branch := n.Uint16(page[8:]) == branchPage
	if len(page) < pageHeader+count*elementSize || branch && count == 0 {
		return damaged(id, "has no room for its rows")
	}
	for i := range count {
		below, err := element(id, page[pageHeader+i*elementSize:], branch)
		if err == nil && below != 0 {
			err = t.visit(below, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read returns a page, with those that it is continued on. room is for one.
func (t *tree) read(id uint64, room []byte) (page []byte, err error) {
	if id < 2 || id >= t.meta.pages {
		return nil, damaged(id, "is not in the file")
	}
	page = room
	at := int64(id) * t.meta.pageSize
	if _, err := t.file.ReadAt(page, at); err != nil {
		return nil, err
	}
	n := binary.NativeEndian
	more := uint64(n.Uint32(page[12:]))
	switch kind := n.Uint16(page[8:]); {
	case n.Uint64(page) != id || kind != branchPage && kind != leafPage:
		return nil, damaged(id, "is none of its rows")
	case more >= t.meta.pages-id:
		return nil, damaged(id, "is not in the file")
	}
	for p := id; p <= id+more; p++ {
		if t.seen[p/64]>>(p%64)&1 == 1 {
			return nil, damaged(p, "is there twice")
		}
		t.seen[p/64] |= 1 << (p % 64)
	}
	if more > 0 {
		page = make([]byte, int64(more+1)*t.meta.pageSize)
		if _, err := t.file.ReadAt(page, at); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// element checks an element of a page and returns the page below it, 0 when there is none.
// rest is the page from the element on, from where its row is counted.
func element(id uint64, rest []byte, branch bool) (below uint64, err error) {
	n := binary.NativeEndian
	var start, keySize, valueSize uint64
	if branch {
		start, keySize, below = uint64(n.Uint32(rest)), uint64(n.Uint32(rest[4:])), n.Uint64(rest[8:])
	} else {
		start, keySize = uint64(n.Uint32(rest[4:])), uint64(n.Uint32(rest[8:]))
		valueSize = uint64(n.Uint32(rest[12:]))
	}
	size := uint64(len(rest))
	if start+keySize+valueSize > size {
		return 0, damaged(id, "has a row that ends beyond it")
	}
	if branch {
		if below == 0 {
			return 0, damaged(id, "leads nowhere")
		}
		return below, nil
	}
	if n.Uint32(rest)&bucketEntry == 0 {
		return 0, nil
	}
	value := rest[start+keySize:][:valueSize]
	if len(value) < bucketSize {
		return 0, damaged(id, "has a table that is none")
	}
	if below = n.Uint64(value); below == 0 && len(value) < bucketSize+pageHeader {
		return 0, damaged(id, "has a table that is none")
	}
	return below, nil
}
