package saga

import (
	"encoding/json"

	"onced/kv"
	"onced/kv/claim"
	"onced/kv/invariant"
)

// Rules returns what is true of this package's rows at every commit.
func Rules() []invariant.Rule {
	return []invariant.Rule{
		{Name: "saga.once", Why: "an id that should expire would be kept for ever",
			Check: invariant.Rows(onceTable, checkOnce)},
		{Name: "saga.once_expiry", Why: "the sweep could work on ids that do not expire",
			Check: invariant.RawRows(onceExpiryTable, checkOnceExpiry)},
	}
}

func checkOnce(rd kv.Reader, e kv.Row[onceRow]) ([]string, error) {
	d := kv.DecodeKey(e.Key)
	id := claim.ID{Scope: d.String(), Key: d.String()}
	if err := d.End(); err != nil {
		return []string{"its key names no id: " + err.Error()}, nil
	}
	if !json.Valid(e.Value.Result) {
		return []string{"its result is no JSON"}, nil
	}
	if e.Value.Expires == 0 {
		return nil, nil
	}
	v, err := rd.Get(onceExpiryTable, onceExpiryKey(e.Value.Expires, id))
	if err == nil && v == nil {
		return []string{"it expires and is not listed for that"}, nil
	}
	return nil, err
}

func checkOnceExpiry(rd kv.Reader, e kv.Entry) ([]string, error) {
	expires, id, err := decodeOnceExpiry(e.Key)
	if err != nil {
		return []string{err.Error()}, nil
	}
	row, ok, err := onceTable.Get(rd, onceKey(id))
	if err == nil && (!ok || row.Expires != expires) {
		return []string{"it is not the expiry of any id"}, nil
	}
	return nil, err
}
