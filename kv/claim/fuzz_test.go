package claim

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"onced/kv"
)

func FuzzRecordDecode(f *testing.F) {
	m := Machine{Epoch: 3, Opened: start, Retention: time.Hour, MaxResult: 10}
	pending, _ := m.Begin(nil, start, ask("A"))
	away, _ := m.Begin(nil, start, ask("A", remote(time.Minute)))
	unknown, _ := m.Unknown(&pending.Record, start, token("A"), "no \"answer\"")
	done, _ := m.Done(&unknown.Record, start, token("A"), text("paid"))
	omitted, _ := m.Refused(&away.Record, start, token("A"), text("more than ten bytes"))
	for _, s := range []Step{pending, away, unknown, done, omitted} {
		raw, err := recordTable.Encode(s.Record)
		if err != nil || s.Write != Put {
			f.Fatal(s, err)
		}
		f.Add(raw)
	}
	f.Add([]byte("\x01\x02{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := decodeRecord(raw)
		if err != nil {
			return
		}
		// what can be read can be written, and reads the same
		again, err := recordTable.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodeRecord(again)
		if err != nil || !reflect.DeepEqual(normal(r), normal(back)) {
			t.Errorf("%+v\n%+v\n%v", r, back, err)
		}
		_ = r.faults()
		_ = m.Effective(r, start)
	})
}

func decodeRecord(raw []byte) (r Record, err error) {
	one := func(yield func(kv.Entry, error) bool) { yield(kv.Entry{Value: raw}, nil) }
	for row, err := range recordTable.Decode(one) {
		if err != nil {
			return Record{}, err
		}
		return row.Value, nil
	}
	return Record{}, nil
}

// normal takes nil and empty bytes for the same.
func normal(r Record) Record {
	if len(r.Intent) == 0 {
		r.Intent = nil
	}
	if len(r.Result.Data) == 0 {
		r.Result.Data = nil
	}
	return r
}

func FuzzScope(f *testing.F) {
	f.Add("shop", "pay", "shop", "refund")
	f.Add("a/b", "c", "a", "b/c")
	f.Add("a%2F", "c", "a/", "c")
	f.Add("", "", "", "/")
	f.Fuzz(func(t *testing.T, p1, o1, p2, o2 string) {
		same := p1 == p2 && o1 == o2
		if (ScopeOf(p1, o1) == ScopeOf(p2, o2)) != same {
			t.Errorf("ScopeOf(%q, %q) and (%q, %q)", p1, o1, p2, o2)
		}
		if (EventScopeOf(p1, o1) == EventScopeOf(p2, o2)) != same {
			t.Errorf("EventScopeOf(%q, %q) and (%q, %q)", p1, o1, p2, o2)
		}
		if ScopeOf(p1, o1) == EventScopeOf(p2, o2) {
			t.Errorf("an event and an operation share a scope: %q %q, %q %q", p1, o1, p2, o2)
		}
		if (RouteScopeOf(p1, o1) == RouteScopeOf(p2, o2)) != same {
			t.Errorf("RouteScopeOf(%q, %q) and (%q, %q)", p1, o1, p2, o2)
		}
		if r := RouteScopeOf(p1, o1); r == ScopeOf(p2, o2) || r == EventScopeOf(p2, o2) {
			t.Errorf("a route shares a scope: %q %q, %q %q", p1, o1, p2, o2)
		}
		if (DownstreamKey(p1, o1) == DownstreamKey(p2, o2)) != same {
			t.Errorf("DownstreamKey(%q, %q) and (%q, %q)", p1, o1, p2, o2)
		}
		if !strings.HasPrefix(ScopeOf(p1, o1), ScopePrefix(p1)) ||
			p1 != p2 && strings.HasPrefix(ScopeOf(p1, o1), ScopePrefix(p2)) {
			t.Errorf("ScopePrefix(%q) and %q", p2, p1)
		}
	})
}

func FuzzIndexKey(f *testing.F) {
	f.Add([]byte(indexKey(start, theID)), "s", "k", int64(1))
	f.Add([]byte{}, "", "\x00", int64(-1))
	f.Fuzz(func(t *testing.T, raw []byte, scope, key string, at int64) {
		_, _, _ = decodeIndexKey(raw)
		_, _ = decodeRecordKey(raw)
		id := ID{scope, key}
		gotAt, got, err := decodeIndexKey(indexKey(time.Unix(0, at), id))
		if err != nil || got != id || gotAt.UnixNano() != at {
			t.Errorf("%v %v %v", gotAt, got, err)
		}
		if got, err := decodeRecordKey(recordKey(id)); err != nil || got != id {
			t.Errorf("%v %v", got, err)
		}
	})
}
