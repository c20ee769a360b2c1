package feed

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"onced/kv"
	"onced/kv/wire"
)

// Config are the settings of a Feed; the zero value is usable.
type Config struct {
	// Source is the source of events that name none, a URI reference; empty
	// means "/onced".
	Source string
	// Rand makes epochs; nil means crypto/rand.Reader.
	Rand io.Reader
	// MaxSubscribers bounds those who wait for events; 0 means 1000.
	MaxSubscribers int
}

// Feed appends to and reads the log of a store, and wakes those who wait for
// events. Use one per store and process. It is safe for concurrent use.
type Feed struct {
	source       string
	sourceIsGood bool
	rand         io.Reader
	notify       notifier
	wake         func() // those who wait
}

// New returns a feed. It touches no store: every call is given one.
func New(cfg Config) *Feed {
	f := &Feed{source: cfg.Source, rand: cfg.Rand, notify: notifier{limit: cfg.MaxSubscribers}}
	if f.source == "" {
		f.source = "/onced"
	}
	if f.rand == nil {
		f.rand = rand.Reader
	}
	if f.notify.limit <= 0 {
		f.notify.limit = 1000
	}
	f.sourceIsGood = checkSource(f.source) == nil
	f.wake = f.notify.wake
	return f
}

// The versions of the rows that are written with every event.
const metaVersion, entryVersion = 2, 2

// The log's rows. One meta row, one row per entry, and one row per id for
// entries made by AppendOnce.
var (
	metaTable = kv.NewTable("feed.meta", metaVersion, kv.TableOptions[meta]{
		Codec: &kv.Codec[meta]{Append: appendMeta, Read: readMeta},
	})
	entryTable = kv.NewTable("feed.entry", entryVersion, kv.TableOptions[entry]{
		Codec: &kv.Codec[entry]{Append: appendEntry, Read: readEntry},
	})
	onceTable = kv.NewTable[onceRow]("feed.once", 1)

	metaKey = kv.Key{}.String("log")
)

// meta describes the log. The log is empty when Head is Oldest-1.
type meta struct {
	Epoch  []byte // which history the numbers belong to
	Oldest uint64 // the first number kept
	Head   uint64 // the last number given
	Before []byte // mark of the entry Oldest-1, so that cursors there can be checked
}

func appendMeta(dst []byte, m *meta) []byte {
	e := wire.Encoder{Bytes: dst}
	e.Blob(m.Epoch)
	e.Uint(m.Oldest)
	e.Uint(m.Head)
	e.Blob(m.Before)
	return e.Bytes
}

func readMeta(body []byte, m *meta) error {
	d := wire.NewDecoder(body)
	m.Epoch, m.Oldest, m.Head, m.Before = d.Blob(), d.Uint(), d.Uint(), d.Blob()
	return d.End()
}

type entry struct {
	ID   string
	At   int64  // when it was appended, in ns since 1970; retention counts from here
	Body []byte // the event's frozen bytes
}

func appendEntry(dst []byte, v *entry) []byte {
	return append(appendHead(dst, v.ID, v.At), v.Body...)
}

// appendHead appends an entry without its body.
func appendHead(dst []byte, id string, at int64) []byte {
	e := wire.Encoder{Bytes: dst}
	e.Text(id)
	e.Int(at)
	return e.Bytes
}

func readEntry(body []byte, v *entry) error {
	d := wire.NewDecoder(body)
	v.ID, v.At = d.Text(), d.Int()
	v.Body = d.Take(uint64(d.Len()))
	return d.End()
}

type onceRow struct {
	Seq uint64 `json:"seq"`
}

const markSize = 16

// mark stands for an id in a cursor.
func mark(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	return sum[:markSize]
}

func entryKey(seq uint64) kv.Key { return kv.Key{}.Uint(seq) }

// Append adds the event to the log and returns its number. The number is final
// only when w commits. The event's id must be derived from the fact: the log
// takes an id twice without complaint (see [Feed.AppendOnce]). Errors name the
// field at fault; the log is then unchanged.
func (f *Feed) Append(w kv.Writer, ev Event) (seq uint64, err error) {
	ev, err = f.complete(w, ev)
	if err != nil {
		return 0, err
	}
	return f.append(w, ev)
}

// ErrIDReused is returned by AppendOnce when the id is in the log with another
// type, subject or data. The caller's ids do not tell facts apart.
var ErrIDReused = errors.New("feed: the id is in the log with another type, subject or data; " +
	"derive ids from everything that makes two facts different")

// AppendOnce is [Feed.Append] for callers that may tell the same fact twice: when
// the id was appended by AppendOnce and its entry is still kept, it returns that
// entry's number and false. It costs one more row per entry.
func (f *Feed) AppendOnce(w kv.Writer, ev Event) (seq uint64, added bool, err error) {
	if ev, err = f.complete(w, ev); err != nil {
		return 0, false, err
	}
	key := kv.Key{}.String(ev.ID)
	row, ok, err := onceTable.Get(w, key)
	if err != nil {
		return 0, false, err
	}
	if ok {
		return row.Seq, false, sameFact(w, row.Seq, ev)
	}
	if seq, err = f.append(w, ev); err != nil {
		return 0, false, err
	}
	return seq, true, onceTable.Put(w, key, onceRow{Seq: seq})
}

func sameFact(rd kv.Reader, seq uint64, ev Event) error {
	old, ok, err := Get(rd, seq)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("feed: entry %d named by its id is missing: %w", seq, kv.ErrCorrupt)
	}
	if old.Type != ev.Type || old.Subject != ev.Subject || !bytes.Equal(old.Data, ev.Data) {
		return ErrIDReused
	}
	return nil
}

// complete fills in what the caller left out, and checks the whole.
func (f *Feed) complete(w kv.Writer, ev Event) (Event, error) {
	ev.frozen = nil
	if ev.Source == "" {
		ev.Source = f.source
	}
	if ev.Time.IsZero() {
		ev.Time = w.Now()
	}
	ev.Time = ev.Time.UTC()
	if err := ev.check(); err != nil {
		return Event{}, err
	}
	if ev.Source != f.source || !f.sourceIsGood {
		if err := checkSource(ev.Source); err != nil {
			return Event{}, err
		}
	}
	data, err := checkedData(ev.Data)
	ev.Data = data
	return ev, err
}

func (f *Feed) append(w kv.Writer, ev Event) (uint64, error) {
	if err := ev.checkAhead(w.Now()); err != nil {
		return 0, err
	}
	m, ok, err := metaTable.Get(w, metaKey)
	if err != nil {
		return 0, err
	}
	if !ok {
		m = meta{Oldest: 1, Before: make([]byte, markSize)}
		if m.Epoch, err = f.epoch(); err != nil {
			return 0, err
		}
	}
	m.Head++
	ev.Seq = m.Head
	row := append(make([]byte, 0, 16+len(ev.ID)+ev.size()), entryVersion)
	row, err = ev.encode(appendHead(row, ev.ID, w.Now().UnixNano()))
	if err != nil {
		return 0, fmt.Errorf("feed: event: %w", err)
	}
	if err := w.Put(entryTable.ID(), entryKey(ev.Seq), row); err != nil {
		return 0, err
	}
	row = appendMeta(append(row[:0], metaVersion), &m)
	if err := w.Put(metaTable.ID(), metaKey, row); err != nil {
		return 0, err
	}
	w.OnCommit(f.wake)
	return ev.Seq, nil
}

func (f *Feed) epoch() ([]byte, error) {
	b := make([]byte, epochSize)
	if _, err := io.ReadFull(f.rand, b); err != nil {
		return nil, fmt.Errorf("feed: new epoch: %w", err)
	}
	b[0] |= 1 // never all zero, which stands for the time before the first entry
	return b, nil
}

// NewEpoch begins a new history on the same entries. It is for stores restored
// from a copy: numbers given after the copy was taken are given again, to other
// events, so cursors of the lost time must not be taken for cursors of the new
// one. They are answered with [ConflictError], and those from before the copy
// are told to go on where they are. On a log without entries it does nothing.
func (f *Feed) NewEpoch(w kv.Writer) error {
	m, ok, err := metaTable.Get(w, metaKey)
	if err != nil || !ok {
		return err
	}
	if m.Epoch, err = f.epoch(); err != nil {
		return err
	}
	w.OnCommit(f.wake)
	return metaTable.Put(w, metaKey, m)
}

// Get reads the entry with the number seq; ok is false when there is none.
func Get(rd kv.Reader, seq uint64) (ev Event, ok bool, err error) {
	e, ok, err := entryTable.Get(rd, entryKey(seq))
	if err != nil || !ok {
		return Event{}, false, err
	}
	ev, err = e.event(seq)
	return ev, err == nil, err
}

// Find reads the entry that [Feed.AppendOnce] has made for id; ok is false when
// there is none, or none any more.
func Find(rd kv.Reader, id string) (ev Event, ok bool, err error) {
	row, ok, err := onceTable.Get(rd, kv.Key{}.String(id))
	if err != nil || !ok {
		return Event{}, false, err
	}
	return Get(rd, row.Seq)
}

func (e entry) event(seq uint64) (ev Event, err error) {
	if err := ev.UnmarshalJSON(e.Body); err != nil {
		return Event{}, fmt.Errorf("feed: entry %d: %w: %w", seq, kv.ErrCorrupt, err)
	}
	if ev.Seq != seq || ev.ID != e.ID {
		return Event{}, fmt.Errorf("feed: entry %d: %w: it says it is entry %d", seq, kv.ErrCorrupt, ev.Seq)
	}
	return ev, nil
}

// Status describes the log.
type Status struct {
	Oldest uint64 // the first number kept; above Head when nothing is kept
	Head   uint64 // the last number given; 0 when the log is empty
	// OldestCursor reads everything kept, HeadCursor only what comes from now on.
	OldestCursor, HeadCursor string
}

// Status reads where the log begins and ends.
func (f *Feed) Status(ctx context.Context, s kv.Store) (st Status, err error) {
	err = s.View(ctx, func(rd kv.Reader) error {
		got, err := StatusIn(rd)
		st = got
		return err
	})
	return st, err
}

// StatusIn is [Feed.Status] inside a transaction.
func StatusIn(rd kv.Reader) (Status, error) {
	m, ok, err := metaTable.Get(rd, metaKey)
	if err != nil {
		return Status{}, err
	}
	if !ok {
		start := position{}.encode()
		return Status{Oldest: 1, OldestCursor: start, HeadCursor: start}, nil
	}
	head, err := m.at(rd, m.Head)
	if err != nil {
		return Status{}, err
	}
	return Status{Oldest: m.Oldest, Head: m.Head, OldestCursor: m.oldest().encode(),
		HeadCursor: head.encode()}, nil
}
