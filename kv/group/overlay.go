package group

import (
	"bytes"
	"maps"
	"slices"

	"github.com/tidwall/btree"

	"onced/kv"
)

// overlay holds written rows that are not in the engine yet, by table. A btree
// because merged scans need order and a cheap copy; tidwall/btree because its
// Map copies in constant time, has no dependencies, and its values are not
// boxed.
type overlay map[kv.TableID]*rows

type rows = btree.Map[string, row]

// row is a written row. Its value is never changed in place.
type row struct {
	value   []byte
	deleted bool
}

func (o overlay) get(t kv.TableID, key []byte) (row, bool) {
	if table, ok := o[t]; ok {
		return table.Get(string(key))
	}
	return row{}, false
}

// changes returns the rows in the order of table and key.
func (o overlay) changes() []Change {
	n := 0
	for _, table := range o {
		n += table.Len()
	}
	if n == 0 {
		return nil
	}
	out := make([]Change, 0, n)
	for _, t := range slices.Sorted(maps.Keys(o)) {
		o[t].Scan(func(key string, r row) bool {
			out = append(out, Change{Table: t, Key: []byte(key), Value: r.value, Delete: r.deleted})
			return true
		})
	}
	return out
}

// layer is one ordered source of a merged scan.
type layer interface {
	// next moves to the next row; deleted rows are reported as such.
	next() (key, value []byte, deleted, ok bool)
}

// overlayLayer iterates over one table of an overlay that does not change
// while it is read.
type overlayLayer struct{ *Iter[row] }

func (l overlayLayer) next() (key, value []byte, deleted, ok bool) {
	if !l.Next() {
		return nil, nil, false, false
	}
	v := l.Value()
	return []byte(l.Key()), v.value, v.deleted, true
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
