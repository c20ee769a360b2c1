package group

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tidwall/btree"

	"onced/kv"
)

// overlay holds written rows that are not in the engine yet, by table, in the order of
// their names: there are few.
type overlay []tableRows

type tableRows struct {
	id   kv.TableID
	rows *rows
}

// rows are those of a table. A btree because merged scans need order and a cheap copy;
// tidwall/btree because its Map copies in constant time, has no dependencies, and its
// values are not boxed.
type rows = btree.Map[string, row]

// row is a written row. Its value is never changed in place.
type row struct {
	value   []byte
	deleted bool
}

// table returns the rows of a table, or nil.
func (o overlay) table(id kv.TableID) *rows {
	for i := range o {
		if o[i].id == id {
			return o[i].rows
		}
	}
	return nil
}

// make returns the rows of a table, which it makes if need be.
func (o *overlay) make(id kv.TableID) *rows {
	if table := o.table(id); table != nil {
		return table
	}
	i, _ := slices.BinarySearchFunc(*o, id, func(t tableRows, id kv.TableID) int {
		return cmp.Compare(t.id, id)
	})
	*o = slices.Insert(*o, i, tableRows{id, &rows{}})
	return (*o)[i].rows
}

func (o overlay) get(t kv.TableID, key []byte) (row, bool) {
	if table := o.table(t); table != nil {
		return table.Get(string(key))
	}
	return row{}, false
}

// tables returns the rows of a table that b has written, and those that the batch
// before it has; nil when there are none.
func (b *batch) tables(t kv.TableID) (own, before *rows) {
	own = b.rows.table(t)
	if b.before != nil {
		before = b.before.rows.table(t)
	}
	return own, before
}

// get returns the row that b has written, or else the batch before it.
func (b *batch) get(t kv.TableID, key []byte) (r row, ok bool) {
	own, before := b.tables(t)
	if own == nil && before == nil {
		return row{}, false
	}
	k := string(key)
	if own != nil {
		r, ok = own.Get(k)
	}
	if !ok && before != nil {
		r, ok = before.Get(k)
	}
	return r, ok
}

// changes returns the rows in the order of table and key.
func (o overlay) changes() []Change {
	n := 0
	for _, t := range o {
		n += t.rows.Len()
	}
	if n == 0 {
		return nil
	}
	out := make([]Change, 0, n)
	for _, t := range o {
		t.rows.Scan(func(key string, r row) bool {
			out = append(out, Change{Table: t.id, Key: key, Value: r.value, Delete: r.deleted})
			return true
		})
	}
	return out
}

// layer is one ordered source of a merged scan.
type layer interface {
	// next moves to the next row; deleted rows are reported as such. The key is valid
	// until next is called again.
	next() (key, value []byte, deleted, ok bool)
}

// overlayLayer iterates over one table of an overlay that does not change
// while it is read.
type overlayLayer struct {
	*Iter[row]
	key []byte // of the present row
}

func (l *overlayLayer) next() (key, value []byte, deleted, ok bool) {
	if !l.Next() {
		return nil, nil, false, false
	}
	l.key = append(l.key[:0], l.Key()...)
	v := l.Value()
	return l.key, v.value, v.deleted, true
}

// engineLayer adapts the engine's cursor.
type engineLayer struct{ c Cursor }

func (l engineLayer) next() (key, value []byte, deleted, ok bool) {
	key, value, ok = l.c.Next()
	return key, value, false, ok
}

// merged is a scan over layers; of equal keys the first layer's row wins.
type merged struct {
	reverse bool
	layers  []head
}

type head struct {
	layer
	key, value  []byte
	deleted, ok bool
	fresh       bool // key and value hold the layer's present row
}

func (m *merged) next() (key, value []byte, ok bool) {
	for {
		best := m.best()
		if best < 0 {
			return nil, nil, false
		}
		h := &m.layers[best]
		key, value := h.key, h.value
		for i := range m.layers {
			if o := &m.layers[i]; o.ok && (i == best || bytes.Equal(o.key, key)) {
				o.fresh = false
			}
		}
		if !h.deleted {
			return key, value, true
		}
	}
}

// best returns the layer with the next key, or -1.
func (m *merged) best() int {
	best := -1
	for i := range m.layers {
		h := &m.layers[i]
		if !h.fresh {
			h.key, h.value, h.deleted, h.ok = h.next()
			h.fresh = true
		}
		if !h.ok {
			continue
		}
		if best < 0 {
			best = i
			continue
		}
		c := bytes.Compare(h.key, m.layers[best].key)
		if m.reverse {
			c = -c
		}
		if c < 0 {
			best = i
		}
	}
	return best
}
