package claim

import (
	"errors"
	"fmt"
	"time"

	"onced/kv"
	"onced/kv/wire"
)

// The tables of claims.
var (
	// recordTable has one row per claim, under (scope, key). It has a codec since
	// every request reads and writes one.
	recordTable = kv.NewTable("claim.record", 2, kv.TableOptions[Record]{
		Codec: &kv.Codec[Record]{Append: appendRecord, Read: readRecord},
	})
	// openTable has one empty row per claim that waits for its outcome, under
	// (since, scope, key): ordered by time, so that inserts stay on few pages and
	// the oldest comes first.
	openTable = kv.TableID("claim.open")
	// expiryTable has one empty row per terminal claim, under (expiry, scope, key).
	expiryTable = kv.TableID("claim.expiry")
)

// The flags of a stored record.
const (
	flagLocal = 1 << iota
	flagDoubt
	flagOmitted
	allFlags = 1<<iota - 1
)

// appendRecord appends the stored form of r. Its counterpart is readRecord.
func appendRecord(dst []byte, r *Record) []byte {
	e := wire.Encoder{Bytes: dst}
	created := kv.UnixNano(r.CreatedAt)
	e.Int(created)
	e.Base = created
	e.Uint(uint64(r.State))
	e.Uint(wire.Flags(r.Owner.Local, r.Doubt, r.Omitted))
	if r.Owner.Local {
		e.Uint(r.Owner.Epoch)
	} else {
		e.Int(int64(r.Owner.Lease))
		e.Time(r.Owner.Deadline)
	}
	e.Uint(uint64(r.Try))
	e.Uint(r.Version)
	e.Raw(r.TokenSum[:])
	e.Raw(r.Fingerprint[:])
	for _, at := range []time.Time{r.FirstAt, r.UpdatedAt, r.UnknownSince, r.LastSendBefore, r.ExpiresAt} {
		e.Time(at)
	}
	e.Blob(r.Intent)
	for _, text := range []string{r.Result.Type, string(r.Cause), r.Reason, r.Actor} {
		e.Text(text)
	}
	if r.Omitted {
		e.Uint(uint64(r.ResultSize))
		e.Raw(r.ResultSum[:])
	} else {
		e.Raw(r.Result.Data)
	}
	return e.Bytes
}

// readRecord reads the stored form.
func readRecord(body []byte, r *Record) error {
	d := wire.NewDecoder(body)
	d.Base = d.Int()
	r.CreatedAt = time.Unix(0, d.Base).UTC()
	r.State = State(d.UpTo(uint64(Unknown)))
	flags := d.UpTo(allFlags)
	r.Owner.Local, r.Doubt, r.Omitted = flags&flagLocal != 0, flags&flagDoubt != 0, flags&flagOmitted != 0
	if r.Owner.Local {
		r.Owner.Epoch = d.Uint()
	} else {
		r.Owner.Lease, r.Owner.Deadline = time.Duration(d.Int()), d.Time()
	}
	r.Try, r.Version = d.Count(), d.Uint()
	d.Fill(r.TokenSum[:])
	d.Fill(r.Fingerprint[:])
	r.FirstAt, r.UpdatedAt, r.UnknownSince = d.Time(), d.Time(), d.Time()
	r.LastSendBefore, r.ExpiresAt = d.Time(), d.Time()
	r.Intent, r.Result.Type, r.Cause = d.Blob(), d.Text(), Cause(d.Text())
	r.Reason, r.Actor = d.Text(), d.Text()
	if r.Omitted {
		r.ResultSize = int64(d.UpTo(1 << 62))
		d.Fill(r.ResultSum[:])
	} else if n := d.Len(); n > 0 {
		r.Result.Data, r.ResultSize = d.Take(uint64(n)), int64(n)
	}
	if r.State == Absent {
		d.Fail() // no row says that there is none
	}
	return d.End()
}

func recordKey(id ID) kv.Key { return kv.Key{}.String(id.Scope).String(id.Key) }

func indexKey(at time.Time, id ID) kv.Key { return kv.Key{}.Time(at).String(id.Scope).String(id.Key) }

func decodeRecordKey(k []byte) (ID, error) {
	d := kv.DecodeKey(k)
	id := ID{Scope: d.String(), Key: d.String()}
	if err := d.End(); err != nil {
		return ID{}, fmt.Errorf("claim: row %x: %w: %w", k, kv.ErrCorrupt, err)
	}
	return id, nil
}

func decodeIndexKey(k []byte) (time.Time, ID, error) {
	d := kv.DecodeKey(k)
	at := d.Time()
	id := ID{Scope: d.String(), Key: d.String()}
	if err := d.End(); err != nil {
		return time.Time{}, ID{}, fmt.Errorf("claim: index row %x: %w: %w", k, kv.ErrCorrupt, err)
	}
	return at, id, nil
}

// isDamage reports whether err is about one row that cannot be read.
func isDamage(err error) bool { return errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNewer) }

// load reads the record of id, or nil when it is absent.
func load(rd kv.Reader, id ID) (*Record, error) {
	r, err := recordTable.Load(rd, recordKey(id))
	if err != nil {
		return nil, fmt.Errorf("claim: scope %q, key %q: %w", id.Scope, id.Key, err)
	}
	return r, nil
}

// save carries out a step: the record, and its one row in an index.
func save(w kv.Writer, id ID, old *Record, s Step) error {
	var next *Record
	switch s.Write {
	case Keep:
		return nil
	case Put:
		next = &s.Record
		if err := recordTable.Put(w, recordKey(id), *next); err != nil {
			return err
		}
	case Remove:
		if err := recordTable.Delete(w, recordKey(id)); err != nil {
			return err
		}
	}
	oldTable, oldKey := indexRow(id, old)
	newTable, newKey := indexRow(id, next)
	if oldTable == newTable && string(oldKey) == string(newKey) {
		return nil
	}
	if oldKey != nil {
		if err := w.Delete(oldTable, oldKey); err != nil {
			return err
		}
	}
	if newKey != nil {
		return w.Put(newTable, newKey, []byte{})
	}
	return nil
}

// indexRow returns the one index row a record has.
func indexRow(id ID, r *Record) (kv.TableID, kv.Key) {
	switch {
	case r == nil:
		return "", nil
	case r.State.Open():
		return openTable, indexKey(r.openSince(), id)
	default:
		return expiryTable, indexKey(r.ExpiresAt, id)
	}
}
