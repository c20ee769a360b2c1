package group

import (
	"github.com/tidwall/btree"

	"onced/kv"
)

// Iter iterates over the rows of a btree within a range, in either direction.
// The btree must not change meanwhile.
type Iter[V any] struct {
	it      btree.MapIter[string, V]
	r       kv.Range
	started bool
}

// RangeIter returns an iterator before the first row of r; Limit is ignored.
func RangeIter[V any](m *btree.Map[string, V], r kv.Range) *Iter[V] {
	return &Iter[V]{it: m.Iter(), r: r}
}

// Key returns the present key.
func (i *Iter[V]) Key() string { return i.it.Key() }

// Value returns the present value.
func (i *Iter[V]) Value() V { return i.it.Value() }

// Next moves to the next row and reports whether there is one.
func (i *Iter[V]) Next() bool {
	if !i.advance() {
		return false
	}
	if i.r.Reverse {
		return i.r.From == nil || i.it.Key() >= string(i.r.From)
	}
	return i.r.To == nil || i.it.Key() < string(i.r.To)
}

func (i *Iter[V]) advance() bool {
	if i.started {
		if i.r.Reverse {
			return i.it.Prev()
		}
		return i.it.Next()
	}
	i.started = true
	switch {
	case !i.r.Reverse && i.r.From == nil:
		return i.it.First()
	case !i.r.Reverse:
		return i.it.Seek(string(i.r.From))
	case i.r.To == nil:
		return i.it.Last()
	case i.it.Seek(string(i.r.To)):
		return i.it.Prev()
	}
	return i.it.Last()
}
