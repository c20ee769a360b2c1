package timer

import (
	"fmt"
	"time"

	"onced/kv"
	"onced/kv/invariant"
)

// Rules returns what is true of the timers of a store at every commit, and that
// no timer has been due for longer than grace: 0 in a test whose runner has come
// to rest, minutes for a live store.
func Rules(grace time.Duration) []invariant.Rule {
	return []invariant.Rule{
		{Name: "timer.fired", Why: "A timer that is due and does not fire leaves its owner asleep for ever.",
			Check: invariant.Rows(dueTable, func(rd kv.Reader, row kv.Row[row]) ([]string, error) {
				return judge(rd, row, func(t Timer) string {
					if late := rd.Now().Sub(t.position()); late >= max(grace, 0) {
						return fmt.Sprintf("kind %s, owner %s: due for %s and not fired",
							t.Kind, t.Owner, late)
					}
					return ""
				}), nil
			})},
		{Name: "timer.moved", Why: "A failed timer that its owner cannot find fires after it was removed.",
			Check: invariant.Rows(dueTable, judgeMoved)},
		{Name: "timer.index", Why: "An index row without its timer makes a removal hit nothing.",
			Check: invariant.Rows(movedTable, judgeIndex)},
	}
}

func judge(_ kv.Reader, r kv.Row[row], fn func(Timer) string) []string {
	t, err := decode(r.Key, r.Value)
	if err != nil {
		return []string{err.Error()}
	}
	if text := fn(t); text != "" {
		return []string{text}
	}
	return nil
}

// judgeMoved: a timer that failed has an index row that points at it.
func judgeMoved(rd kv.Reader, r kv.Row[row]) ([]string, error) {
	var failed error
	texts := judge(rd, r, func(t Timer) string {
		if err := t.check(); err != nil {
			return err.Error()
		}
		if t.Attempts == 0 {
			return ""
		}
		at, ok, err := movedTable.Get(rd, key(t.Kind, t.Due, t.Owner))
		failed = err
		if err == nil && (!ok || at.To != t.NextTry.UnixNano()) {
			return fmt.Sprintf("kind %s, owner %s: the failed timer is not in the index", t.Kind, t.Owner)
		}
		return ""
	})
	return texts, failed
}

// judgeIndex: an index row points at a timer that failed and is its own.
func judgeIndex(rd kv.Reader, r kv.Row[movedRow]) ([]string, error) {
	t, err := decode(r.Key, row{})
	if err != nil {
		return []string{err.Error()}, nil
	}
	at, ok, err := dueTable.Get(rd, key(t.Kind, time.Unix(0, r.Value.To), t.Owner))
	if err != nil {
		return nil, err
	}
	if !ok || at.Attempts == 0 || at.Due != t.Due.UnixNano() {
		text := fmt.Sprintf("kind %s, owner %s: the index points at no failed timer", t.Kind, t.Owner)
		return []string{text}, nil
	}
	return nil, nil
}
