package claim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"onced/kv"
)

// The tables of claims.
var (
	// recordTable has one row per claim, under (scope, key).
	recordTable = kv.NewTable("claim.record", 1, kv.TableOptions[row]{
		Blob: func(r *row) *[]byte { return &r.Result },
	})
	// openTable has one empty row per claim that waits for its outcome, under
	// (since, scope, key): ordered by time, so that inserts stay on few pages and
	// the oldest comes first.
	openTable = kv.TableID("claim.open")
	// expiryTable has one empty row per terminal claim, under (expiry, scope, key).
	expiryTable = kv.TableID("claim.expiry")
)

// row is the stored form of a Record. Instants are ns since 1970, 0 when unset.
type row struct {
	State       string `json:"state"`
	Epoch       uint64 `json:"epoch,omitempty"` // of a local owner
	Lease       int64  `json:"lease,omitempty"` // ns, of a remote owner
	Deadline    int64  `json:"deadline,omitempty"`
	Try         int    `json:"try"`
	TokenSum    []byte `json:"token"`
	Fingerprint []byte `json:"fp"`
	Intent      []byte `json:"intent,omitempty"`
	ResultType  string `json:"rtype,omitempty"`
	ResultSize  int64  `json:"rsize,omitempty"` // of an omitted result
	ResultSum   []byte `json:"rsum,omitempty"`  // of an omitted result
	Doubt       bool   `json:"doubt,omitempty"`
	FirstAt     int64  `json:"first"`
	CreatedAt   int64  `json:"created"`
	UpdatedAt   int64  `json:"updated"`
	Unknown     int64  `json:"unknown,omitempty"`
	LastSend    int64  `json:"sent,omitempty"`
	Cause       Cause  `json:"cause,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Actor       string `json:"actor,omitempty"`
	Expires     int64  `json:"expires,omitempty"`
	Version     uint64 `json:"v"`
	Result      []byte `json:"-"`
}

func toRow(r *Record) row {
	out := row{State: r.State.String(), Try: r.Try, TokenSum: r.TokenSum[:], Fingerprint: r.Fingerprint[:],
		Intent: r.Intent, ResultType: r.Result.Type, Doubt: r.Doubt,
		FirstAt: toNano(r.FirstAt), CreatedAt: toNano(r.CreatedAt), UpdatedAt: toNano(r.UpdatedAt),
		Unknown: toNano(r.UnknownSince), LastSend: toNano(r.LastSendBefore), Cause: r.Cause,
		Reason: r.Reason, Actor: r.Actor, Expires: toNano(r.ExpiresAt), Version: r.Version,
		Result: r.Result.Data}
	if r.Owner.Local {
		out.Epoch = r.Owner.Epoch
	} else {
		out.Lease, out.Deadline = int64(r.Owner.Lease), toNano(r.Owner.Deadline)
	}
	if r.Omitted {
		out.ResultSize, out.ResultSum = r.ResultSize, r.ResultSum[:]
	}
	return out
}

func (o *row) record() (Record, error) {
	state := slices.Index(stateNames[:], o.State)
	if state <= int(Absent) {
		return Record{}, fmt.Errorf("%w: a claim is in the state %.20q", kv.ErrCorrupt, o.State)
	}
	r := Record{State: State(state), Try: o.Try, Intent: o.Intent,
		Result: Result{Type: o.ResultType, Data: o.Result}, ResultSize: int64(len(o.Result)),
		Doubt: o.Doubt, FirstAt: fromNano(o.FirstAt), CreatedAt: fromNano(o.CreatedAt),
		UpdatedAt: fromNano(o.UpdatedAt), UnknownSince: fromNano(o.Unknown),
		LastSendBefore: fromNano(o.LastSend), Cause: o.Cause, Reason: o.Reason, Actor: o.Actor,
		ExpiresAt: fromNano(o.Expires), Version: o.Version}
	if o.Lease != 0 {
		r.Owner = Owner{Lease: time.Duration(o.Lease), Deadline: fromNano(o.Deadline)}
	} else {
		r.Owner = Owner{Local: true, Epoch: o.Epoch}
	}
	if len(o.Fingerprint) != len(r.Fingerprint) || len(o.TokenSum) != len(r.TokenSum) {
		return Record{}, fmt.Errorf("%w: a fingerprint has %d bytes, a token's sum %d",
			kv.ErrCorrupt, len(o.Fingerprint), len(o.TokenSum))
	}
	copy(r.Fingerprint[:], o.Fingerprint)
	copy(r.TokenSum[:], o.TokenSum)
	if len(o.ResultSum) > 0 {
		if len(o.ResultSum) != len(r.ResultSum) || len(o.Result) > 0 {
			return Record{}, fmt.Errorf("%w: a claim's omitted result does not fit", kv.ErrCorrupt)
		}
		r.Omitted, r.ResultSize = true, o.ResultSize
		copy(r.ResultSum[:], o.ResultSum)
	}
	return r, nil
}

func toNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return kv.UnixNano(t)
}

func fromNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
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
	raw, ok, err := recordTable.Get(rd, recordKey(id))
	if err != nil {
		return nil, fmt.Errorf("claim: scope %q, key %q: %w", id.Scope, id.Key, err)
	}
	if !ok {
		return nil, nil
	}
	r, err := raw.record()
	if err != nil {
		return nil, fmt.Errorf("claim: scope %q, key %q: %w", id.Scope, id.Key, err)
	}
	return &r, nil
}

// save carries out a step: the record, and its one row in an index.
func save(w kv.Writer, id ID, old *Record, s Step) error {
	var next *Record
	switch s.Write {
	case Keep:
		return nil
	case Put:
		next = &s.Record
		if err := recordTable.Put(w, recordKey(id), toRow(next)); err != nil {
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
