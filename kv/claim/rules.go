package claim

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"onced/kv"
	"onced/kv/invariant"
)

// Rules returns what is true of the claims of a store at every commit.
func Rules() []invariant.Rule {
	return []invariant.Rule{
		{Name: "claim.record", Why: "a claim could be lost from sight, never expire, or expire too early",
			Check: invariant.Rows(recordTable, checkRecord)},
		{Name: "claim.open", Why: "a claim could be listed twice, or listed as open without being so",
			Check: checkIndex(openTable)},
		{Name: "claim.expiry", Why: "the sweep could work on claims that do not expire",
			Check: checkIndex(expiryTable)},
	}
}

func checkRecord(rd kv.Reader, e kv.Row[Record]) ([]string, error) {
	id, err := decodeRecordKey(e.Key)
	if err == nil {
		err = id.Validate()
	}
	if err != nil {
		return []string{"its key names no claim: " + err.Error()}, nil
	}
	r := &e.Value
	found := r.faults()
	table, key := indexRow(id, r)
	v, err := rd.Get(table, key)
	if err != nil {
		return nil, err
	}
	if v == nil {
		found = append(found, fmt.Sprintf("it is %s and has no row in %s", r.State, table))
	}
	return found, nil
}

// faults lists what contradicts itself in a record.
func (r *Record) faults() (out []string) {
	for _, f := range []struct {
		broken bool
		text   string
	}{
		{r.TokenSum == [32]byte{} || r.Try < 1 || r.Version == 0, "it lacks its token, try or version"},
		{r.FirstAt.IsZero() || r.CreatedAt.IsZero() || r.UpdatedAt.IsZero(), "it lacks an instant"},
		{r.State.Terminal() == r.ExpiresAt.IsZero(),
			"terminal claims have an end of retention, others none"},
		{r.State.Terminal() && len(r.Intent) > 0, "it is terminal and has an intent"},
		{r.State.Open() && (r.ResultSize > 0 || r.Result.Type != ""), "it is open and has a result"},
		{r.State == Unknown && r.UnknownSince.IsZero(), "it is unknown since never"},
		{r.State == Unknown && r.LastSendBefore.IsZero(), "it is unknown and its last send has no bound"},
		{r.State == Unknown && !r.Doubt && r.Cause != CauseLeaseEnded, "it is unknown without doubt"},
		{r.Owner.Local && r.Owner.Epoch == 0, "its owner is local and has no epoch"},
		{!r.Owner.Local && checkLease(r.Owner.Lease) != nil,
			"its owner is remote and its lease out of bounds"},
		{!r.Owner.Local && r.Owner.Deadline.IsZero(), "its owner is remote and has no deadline"},
	} {
		if f.broken {
			out = append(out, f.text)
		}
	}
	return out
}

// checkIndex finds index rows that are not the one row of their claim.
func checkIndex(t kv.TableID) func(context.Context, kv.Store) iter.Seq2[invariant.Violation, error] {
	return invariant.RawRows(t, func(rd kv.Reader, e kv.Entry) ([]string, error) {
		_, id, err := decodeIndexKey(e.Key)
		if err != nil {
			return []string{err.Error()}, nil
		}
		r, ok, err := recordTable.Get(rd, recordKey(id))
		if err != nil || !ok {
			return []string{"it points to no claim that can be read"}, ignoreDamage(err)
		}
		if table, key := indexRow(id, &r); table != t || !bytes.Equal(key, e.Key) {
			return []string{fmt.Sprintf("its claim is %s and belongs elsewhere", r.State)}, nil
		}
		return nil, nil
	})
}

// ignoreDamage: a row that cannot be decoded is reported by claim.record.
func ignoreDamage(err error) error {
	if isDamage(err) {
		return nil
	}
	return err
}
