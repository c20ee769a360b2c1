package timer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"

	"onced/kv"
	"onced/kv/wire"
)

// Limits of a timer in bytes.
const (
	// MaxKind is the longest kind.
	MaxKind = 64
	// MaxOwner is the longest owner.
	MaxOwner = 512
	// MaxPayload is the largest payload.
	MaxPayload = 4 << 10
	// MaxErrorText is the longest text of a failure that is kept, see
	// [Config.Describe].
	MaxErrorText = 500
)

// Timer is a wish to be woken. Kind, Owner and Due together are its identity.
type Timer struct {
	// Kind selects the handler, for example "saga.wake"; 1 to MaxKind bytes.
	Kind string
	// Owner is who is woken, for example a run's id; 1 to MaxOwner bytes of UTF-8.
	Owner string
	// Due is the earliest instant to fire, with the resolution of a nanosecond. It
	// stays the same when a failed timer is moved.
	Due time.Time
	// Payload is a small note for the handler, and not part of the identity.
	Payload []byte

	// Attempts is how often the handler failed. It is set by the runner.
	Attempts int
	// LastError is what [Config.Describe] said of the last failure, cut to
	// MaxErrorText bytes.
	LastError string
	// NextTry is when a timer that failed is tried again; zero before a failure.
	NextTry time.Time

	set uint64 // tells this setting from a later one of the same identity, see Runner.mark
}

// position is where the timer's row is: at its due time, or where the last
// failure moved it.
func (t Timer) position() time.Time {
	if !t.NextTry.IsZero() {
		return t.NextTry
	}
	return t.Due
}

// row is stored under (kind, position, owner). The kind comes first, so that
// one kind's backlog is never in the way of another's.
type row struct {
	Set      uint64 // see Runner.mark
	Due      int64  // ns since 1970, of a moved timer
	Attempts int
	Error    string
	Payload  []byte
}

func appendRow(dst []byte, r *row) []byte {
	e := wire.Encoder{Bytes: dst}
	e.Uint(r.Set)
	e.Int(r.Due)
	e.Uint(uint64(r.Attempts))
	e.Text(r.Error)
	e.Raw(r.Payload)
	return e.Bytes
}

func readRow(body []byte, r *row) error {
	d := wire.NewDecoder(body)
	r.Set, r.Due, r.Attempts, r.Error = d.Uint(), d.Int(), d.Count(), d.Text()
	r.Payload = d.Take(uint64(d.Len()))
	return d.End()
}

// movedRow tells where a failed timer is now, under (kind, due, owner), so that
// its owner can still remove it by the identity it knows.
type movedRow struct {
	To int64 `json:"to"` // ns since 1970
}

var (
	dueTable = kv.NewTable("timer.due", 2, kv.TableOptions[row]{
		Codec: &kv.Codec[row]{Append: appendRow, Read: readRow},
	})
	movedTable = kv.NewTable[movedRow]("timer.moved", 1)
)

func key(kind string, at time.Time, owner string) kv.Key {
	return kv.Key{}.String(kind).Time(at).String(owner)
}

func decode(k kv.Key, r row) (Timer, error) {
	d := kv.DecodeKey(k)
	t := Timer{Kind: d.String(), Due: d.Time(), Owner: d.String(), Payload: r.Payload,
		Attempts: r.Attempts, LastError: r.Error, set: r.Set}
	if err := d.End(); err != nil {
		return Timer{}, fmt.Errorf("timer: row %x: %w: %w", k, kv.ErrCorrupt, err)
	}
	if r.Attempts > 0 {
		t.NextTry, t.Due = t.Due, time.Unix(0, r.Due).UTC()
	}
	return t, nil
}

// DamagedError says that a row of a timer cannot be read: it is damaged, or a
// newer version of the program wrote it. Err tells them apart ([kv.ErrCorrupt],
// [kv.ErrNewer]). The row is left as it is, and the timers beside it fire.
type DamagedError struct {
	Key []byte // of the row in the table "timer.due"
	Err error
}

// Error names the row and the remedy.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("timer: row %x cannot be read and does not fire: %v; set its timer again or "+
		"delete it, or use the version that wrote it", e.Key, e.Err)
}

// Unwrap returns Err.
func (e *DamagedError) Unwrap() error { return e.Err }

// decodeEntry reads one row of a scan; its error is a [*DamagedError]. Rows are
// decoded one by one, so that a damaged one hides no other.
func decodeEntry(e kv.Entry) (t Timer, err error) {
	one := func(yield func(kv.Entry, error) bool) { yield(e, nil) }
	for row, rowErr := range dueTable.Decode(one) {
		if err = rowErr; err == nil {
			t, err = decode(row.Key, row.Value)
		}
	}
	if err != nil {
		return Timer{}, &DamagedError{Key: e.Key, Err: err}
	}
	return t, nil
}

// The instants a row can hold, see [kv.Key.Time].
var (
	minDue = time.Unix(0, 1)
	maxDue = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)
)

func (t Timer) check() error {
	for _, f := range []struct {
		field, value string
		max          int
	}{{"kind", t.Kind, MaxKind}, {"owner", t.Owner, MaxOwner}} {
		if f.value == "" || !utf8.ValidString(f.value) {
			return fmt.Errorf("timer: %s is empty or not UTF-8; name what is to be woken", f.field)
		}
		if len(f.value) > f.max {
			return &kv.LimitError{What: "timer " + f.field, Got: int64(len(f.value)), Limit: int64(f.max),
				Unit: "bytes", Remedy: "use the owner's id, and the payload for the rest"}
		}
	}
	if len(t.Payload) > MaxPayload {
		return &kv.LimitError{What: "timer payload", Got: int64(len(t.Payload)), Limit: MaxPayload,
			Unit: "bytes", Remedy: "keep the data in the owner's row"}
	}
	if t.Due.Before(minDue) || t.Due.After(maxDue) {
		return errors.New("timer: due is not set or not between 1970 and 2262; use w.Now().Add(…)")
	}
	return nil
}

// Set makes or replaces the timer with t's kind, owner and due, in the
// transaction that wants the waking. A due time in the past fires at once. A
// timer of the same identity that had failed begins anew, and so does one whose row
// cannot be read. The runner is woken
// after the commit when t is due before what it sleeps for.
//
// A nil *Runner sets the row and wakes nobody: for programs that run no timers.
func (r *Runner) Set(w kv.Writer, t Timer) error {
	if err := t.check(); err != nil {
		return err
	}
	if err := removeMoved(w, t); err != nil {
		return err
	}
	if err := makeRoom(w, t); err != nil {
		return err
	}
	mark, err := r.mark(w)
	if err != nil {
		return err
	}
	v := row{Set: mark, Payload: t.Payload}
	if err := dueTable.Put(w, key(t.Kind, t.Due, t.Owner), v); err != nil {
		return err
	}
	r.wakeAfter(w, t.Kind, t.Due)
	return nil
}

// makeRoom moves a failed timer of the same owner that happens to be waiting at
// the very instant of t.
func makeRoom(w kv.Writer, t Timer) error {
	k := key(t.Kind, t.Due, t.Owner)
	old, ok, err := dueTable.Get(w, k)
	if isDamage(err) {
		return nil // what is set takes its place
	}
	if err != nil || !ok || old.Attempts == 0 {
		return err
	}
	if err := dueTable.Delete(w, k); err != nil {
		return err
	}
	_, err = place(w, Timer{Kind: t.Kind, Owner: t.Owner, Due: time.Unix(0, old.Due)}, t.Due.Add(1), old)
	return err
}

// Delete removes the timer with t's kind, owner and due, whether or not it has
// failed and was moved, or its row can be read; an absent one is no error. It works
// on a nil *Runner.
func (r *Runner) Delete(w kv.Writer, t Timer) error {
	if err := removeMoved(w, t); err != nil {
		return err
	}
	// Only what is there, and only the timer itself: another of this owner may
	// have been moved to this very instant.
	k := key(t.Kind, t.Due, t.Owner)
	old, ok, err := dueTable.Get(w, k)
	if !isDamage(err) && (err != nil || !ok || old.Attempts > 0) {
		return err
	}
	return dueTable.Delete(w, k)
}

// isDamage reports whether err is about one row that cannot be read.
func isDamage(err error) bool { return errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNewer) }

func removeMoved(w kv.Writer, t Timer) error {
	k := key(t.Kind, t.Due, t.Owner)
	moved, ok, err := movedTable.Get(w, k)
	if err != nil || !ok {
		return err
	}
	to := key(t.Kind, time.Unix(0, moved.To), t.Owner)
	at, ok, err := dueTable.Get(w, to)
	if err != nil && !isDamage(err) {
		return err
	}
	// Another may have taken the place of a row that could not be read.
	if err != nil || ok && at.Attempts > 0 && at.Due == t.Due.UnixNano() {
		if err := dueTable.Delete(w, to); err != nil {
			return err
		}
	}
	return movedTable.Delete(w, k)
}

// find reads the timer again where it was seen. ok is false when it was
// removed, moved, or replaced meanwhile.
func find(rd kv.Reader, seen Timer) (t Timer, ok bool, err error) {
	k := key(seen.Kind, seen.position(), seen.Owner)
	got, ok, err := dueTable.Get(rd, k)
	if err != nil || !ok {
		return Timer{}, false, err
	}
	t, err = decode(k, got)
	return t, err == nil && t.Due.Equal(seen.Due) && t.Attempts == seen.Attempts && t.set == seen.set, err
}

// remove takes away the rows of a timer that find has found. It does not ask
// the index where the timer is: a damaged row there must not stop it.
func remove(w kv.Writer, t Timer) error {
	if t.Attempts > 0 {
		if err := movedTable.Delete(w, key(t.Kind, t.Due, t.Owner)); err != nil {
			return err
		}
	}
	return dueTable.Delete(w, key(t.Kind, t.position(), t.Owner))
}

// move puts a timer that find has found at a later instant, with the text of
// its failure.
func move(w kv.Writer, t Timer, to time.Time, text string) (time.Time, error) {
	if err := remove(w, t); err != nil {
		return to, err
	}
	return place(w, t, to, row{Set: t.set, Due: t.Due.UnixNano(), Attempts: t.Attempts + 1,
		Error: text, Payload: t.Payload})
}

// place writes the row of the failed timer t at the first free instant from to on.
func place(w kv.Writer, t Timer, to time.Time, v row) (time.Time, error) {
	for {
		old, err := w.Get(dueTable.ID(), key(t.Kind, to, t.Owner))
		if err != nil {
			return to, err
		}
		if old == nil {
			break
		}
		to = to.Add(1)
	}
	if err := dueTable.Put(w, key(t.Kind, to, t.Owner), v); err != nil {
		return to, err
	}
	return to, movedTable.Put(w, key(t.Kind, t.Due, t.Owner), movedRow{To: to.UnixNano()})
}

// List yields the timers of a kind by the time they fire next, or those of all
// kinds, kind by kind, when kind is empty. It pages through short Views. A row
// that cannot be read comes as a [*DamagedError], and the list goes on after it;
// any other error ends the list.
func List(ctx context.Context, s kv.Store, kind string) iter.Seq2[Timer, error] {
	r := kv.Range{}
	if kind != "" {
		r = kv.Key{}.String(kind).Range()
	}
	return func(yield func(Timer, error) bool) {
		for e, err := range kv.Pages(ctx, s, dueTable.ID(), r, 0) {
			if err != nil {
				yield(Timer{}, err)
				return
			}
			if !yield(decodeEntry(e)) {
				return
			}
		}
	}
}
