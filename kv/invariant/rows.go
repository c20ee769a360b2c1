package invariant

import (
	"context"
	"fmt"
	"iter"

	"onced/kv"
)

// pageRows is how many rows are judged in one View: few enough that the View
// is short even when each row asks for further reads.
const pageRows = 200

// Rows makes a rule's Check that judges every row of a table. check returns
// what is wrong with the row, one text per violation; it may read other rows
// through rd, which is the snapshot that the row was read from. A row that
// cannot be decoded is a violation too, and the check goes on behind it.
func Rows[T any](
	t kv.Table[T], check func(rd kv.Reader, row kv.Row[T]) ([]string, error),
) func(context.Context, kv.Store) iter.Seq2[Violation, error] {
	return RawRows(t.ID(), func(rd kv.Reader, e kv.Entry) ([]string, error) {
		one := func(yield func(kv.Entry, error) bool) { yield(e, nil) }
		for row, err := range t.Decode(one) {
			if err != nil {
				return []string{"the row cannot be decoded: " + err.Error()}, nil
			}
			return check(rd, row)
		}
		return nil, nil
	})
}

// RawRows is [Rows] for a table that is not a kv.Table.
func RawRows(
	t kv.TableID, check func(rd kv.Reader, e kv.Entry) ([]string, error),
) func(context.Context, kv.Store) iter.Seq2[Violation, error] {
	return func(ctx context.Context, s kv.Store) iter.Seq2[Violation, error] {
		return func(yield func(Violation, error) bool) {
			var from []byte
			for {
				found, next, err := judgePage(ctx, s, t, from, check)
				for _, v := range found {
					if !yield(v, nil) {
						return
					}
				}
				if err != nil {
					yield(Violation{}, err)
					return
				}
				if next == nil {
					return
				}
				from = next
			}
		}
	}
}

// judgePage judges one page in one View; next is nil at the end of the table.
func judgePage(
	ctx context.Context, s kv.Store, t kv.TableID, from []byte,
	check func(kv.Reader, kv.Entry) ([]string, error),
) (found []Violation, next []byte, err error) {
	err = s.View(ctx, func(rd kv.Reader) error {
		var got []Violation
		var last []byte
		n := 0
		for e, err := range rd.Scan(t, kv.Range{From: from, Limit: pageRows}) {
			if err != nil {
				return err
			}
			texts, err := check(rd, e)
			if err != nil {
				return err
			}
			for _, text := range texts {
				got = append(got, Violation{Subject: fmt.Sprintf("%s row %x", t, e.Key), Detail: text})
			}
			n, last = n+1, e.Key
		}
		found, next = got, nil
		if n == pageRows {
			next = append(last, 0)
		}
		return nil
	})
	return found, next, err
}
