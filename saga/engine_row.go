package saga

import (
	"fmt"
	"slices"
	"time"

	"onced/kv"
	"onced/kv/wire"
	"onced/saga/machine"
)

// runVersion is that of the rows of runTable and liveTable.
const runVersion = 2

var runOptions = kv.TableOptions[runRow]{Codec: &kv.Codec[runRow]{
	Append: func(dst []byte, r *runRow) []byte { return append(dst, r.Body...) },
	Read:   func(body []byte, r *runRow) error { r.Body = body; return nil },
}}

// The tables of sagas.
var (
	// runTable has one row per run that has ended, under its id. Ids are ordered by time.
	runTable = kv.NewTable("saga.run", runVersion, runOptions)
	// liveTable has one row per run that has not ended, under its id. The row changes with
	// each call, and in a table of few rows that writes fewer pages than among all runs.
	liveTable = kv.NewTable("saga.live", runVersion, runOptions)
	// keyTable has one row per business key, under (key, definition, principal), for
	// ever.
	keyTable = kv.NewTable("saga.key", 2, kv.TableOptions[keyRow]{
		Codec: &kv.Codec[keyRow]{Append: appendKeyRow, Read: readKeyRow},
	})
	// openTable has one empty row per run that has not ended, under (class, id).
	openTable = kv.TableID("saga.open")
	// listTable has empty rows by which runs are found, see index.
	listTable = kv.TableID("saga.list")
	// expiryTable has one empty row per run that has ended, under (end, id).
	expiryTable = kv.TableID("saga.expiry")
	// correctionTable says which run corrects the step of an ended one, under
	// (run, step).
	correctionTable = kv.NewTable[correctionRow]("saga.correction", 1)
)

type runRow struct {
	Body []byte // see run.encode
}

// keyRow is what is known of a business key for ever.
type keyRow struct {
	Run    string
	Round  uint64
	Status machine.Status // when the run is no longer kept
	Sum    []byte         // of the input
}

func appendKeyRow(dst []byte, k *keyRow) []byte {
	e := wire.Encoder{Bytes: dst}
	e.Text(k.Run)
	e.Uint(k.Round)
	e.Uint(uint64(k.Status))
	e.Raw(k.Sum)
	return e.Bytes
}

func readKeyRow(body []byte, k *keyRow) error {
	d := wire.NewDecoder(body)
	k.Run, k.Round, k.Status = d.Text(), d.Uint(), machine.Status(d.UpTo(uint64(machine.Closed)))
	k.Sum = d.Take(uint64(d.Len()))
	return d.End()
}

type correctionRow struct {
	Run string `json:"r"`
}

func runKey(id string) kv.Key           { return kv.Key{}.String(id) }
func openKey(c class, id string) kv.Key { return kv.Key{}.Uint(uint64(c)).String(id) }

// row begins with the key, so that the runs of a key are found together.
func (k RunKey) row() kv.Key {
	return kv.Key{}.String(k.Key).String(k.Definition).String(k.Principal)
}

func correctionKey(id, step string) kv.Key { return kv.Key{}.String(id).String(step) }

func expiryKey(end time.Time, id string) kv.Key { return kv.Key{}.Time(end).String(id) }

// class says what an open run waits for. Only the first is looked at by a start:
// the others are woken by a timer, a signal or a person.
type class uint8

const (
	classEnded   class = iota // is not in the table
	classDue                  // a call is due or under way
	classWaiting              // for a time or a signal
	classHeld
	classStuck
)

// link says how a run came from another.
type link uint8

const (
	linkNone link = iota
	linkCorrection
	linkRerun
)

var linkNames = [...]string{"", "correction", "rerun"}

// run is one run as it is stored.
type run struct {
	id           string
	def, version string
	principal    string
	key          string
	round        uint64
	rev          uint64 // rises with every change; what a person saw
	created      time.Time
	updated      time.Time
	ended        time.Time
	epoch        uint64    // of the process that stored it last
	wake         time.Time // the timer that is set
	class        class     // where it is in openTable
	parent       string
	link         link
	trace        string
	labels       []label
	input        []byte
	state        machine.State
	history      []entry
	dropped      int // entries in the middle of the history that are gone
}

type label struct{ name, value string }

// entry is one line of the history.
type entry struct {
	at   time.Time
	note machine.Note
	step int
	text string
}

// encode appends the row's bytes. Times are kept as differences to the creation.
func (r *run) encode(dst []byte) []byte {
	e := enc{wire.Encoder{Bytes: slices.Grow(dst, r.size()), Base: r.created.UnixNano()}}
	e.Int(e.Base)
	e.Text(r.def)
	e.Text(r.version)
	e.Text(r.principal)
	e.Text(r.key)
	e.Uint(r.round)
	e.Uint(r.rev)
	e.Time(r.updated)
	e.Time(r.ended)
	e.Uint(r.epoch)
	e.Time(r.wake)
	e.Uint(uint64(r.class))
	e.Text(r.parent)
	e.Uint(uint64(r.link))
	e.Text(r.trace)
	e.Uint(uint64(len(r.labels)))
	for _, l := range r.labels {
		e.Text(l.name)
		e.Text(l.value)
	}
	e.Blob(r.input)
	e.state(&r.state)
	e.Uint(uint64(len(r.history)))
	last := e.Base
	for _, h := range r.history {
		e.Int(h.at.UnixNano() - last)
		last = h.at.UnixNano()
		e.Uint(uint64(h.note))
		e.Uint(uint64(h.step))
		e.Text(h.text)
	}
	e.Uint(uint64(r.dropped))
	return e.Bytes
}

// size is about what the row takes.
func (r *run) size() int {
	n := 48 + len(r.def) + len(r.principal) + len(r.key) + len(r.trace) + len(r.state.Reason) + r.data()
	for _, l := range r.labels {
		n += 2 + len(l.name) + len(l.value)
	}
	for i := range r.state.Steps {
		st := &r.state.Steps[i]
		n += 14 + len(st.Name) + len(st.Error)
	}
	for i := range r.history {
		n += 10 + len(r.history[i].text)
	}
	return n
}

// roomForNotes is how many notes a change usually makes, at most.
const roomForNotes = 3

func decodeRun(id string, b []byte) (*run, error) {
	d := decoder(b)
	d.Base = d.Int()
	r := &run{id: id, created: time.Unix(0, d.Base).UTC()}
	r.def, r.version, r.principal, r.key = d.Text(), d.Text(), d.Text(), d.Text()
	r.round, r.rev = d.Uint(), d.Uint()
	r.updated, r.ended = d.Time(), d.Time()
	r.epoch, r.wake, r.class = d.Uint(), d.Time(), class(d.UpTo(uint64(classStuck)))
	r.parent, r.link = d.Text(), link(d.UpTo(uint64(len(linkNames)-1)))
	r.trace = d.Text()
	for range d.Many() {
		r.labels = append(r.labels, label{d.Text(), d.Text()})
	}
	r.input = d.Blob()
	d.state(&r.state)
	last := d.Base
	n := d.Many()
	r.history = make([]entry, 0, n+roomForNotes)
	for range n {
		last += d.Int()
		r.history = append(r.history, entry{time.Unix(0, last).UTC(), machine.Note(d.UpTo(255)), d.Count(),
			d.Text()})
	}
	r.dropped = d.Count()
	if d.End() != nil {
		return nil, fmt.Errorf("saga: run %s: %w: its row cannot be decoded", id, kv.ErrCorrupt)
	}
	return r, nil
}

// of is the business key of the run.
func (r *run) of() RunKey { return RunKey{Principal: r.principal, Definition: r.def, Key: r.key} }

// data is how much of MaxRunData the run takes up.
func (r *run) data() int {
	n := len(r.input)
	for i := range r.state.Steps {
		n += len(r.state.Steps[i].Output) + len(r.state.Steps[i].SignalData)
	}
	return n
}

// loadRun reads a run; nil is none.
func loadRun(rd kv.Reader, id string) (*run, error) {
	row, _, err := readRow(rd, runKey(id))
	if err != nil || row == nil {
		return nil, err
	}
	return decodeRun(id, row)
}

// readRow reads the row of a run, and says in which table it is; nil is none.
func readRow(rd kv.Reader, key kv.Key) (body []byte, in kv.TableID, err error) {
	for _, t := range [...]kv.Table[runRow]{liveTable, runTable} {
		row, ok, err := t.Get(rd, key)
		if err != nil || ok {
			return row.Body, t.ID(), err
		}
	}
	return nil, "", nil
}
