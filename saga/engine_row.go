package saga

import (
	"fmt"
	"time"

	"onced/kv"
	"onced/saga/machine"
)

// The tables of sagas.
var (
	// runTable has one row per run, under its id. Ids are ordered by time.
	runTable = kv.NewTable("saga.run", 1, kv.TableOptions[runRow]{
		Blob: func(r *runRow) *[]byte { return &r.Body },
	})
	// keyTable has one row per business key, under (key, definition, principal), for
	// ever.
	keyTable = kv.NewTable[keyRow]("saga.key", 1)
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
	Body []byte `json:"-"` // see run.encode
}

// keyRow is what is known of a business key for ever.
type keyRow struct {
	Run    string         `json:"r"`
	Round  uint64         `json:"n"`
	Status machine.Status `json:"s"`
	Sum    []byte         `json:"i"` // of the input
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

// encode makes the row's bytes. Times are kept as differences to the creation.
func (r *run) encode() []byte {
	e := enc{base: r.created.UnixNano()}
	e.b = make([]byte, 0, 256+len(r.input))
	e.int(e.base)
	e.str(r.def)
	e.str(r.version)
	e.str(r.principal)
	e.str(r.key)
	e.uint(r.round)
	e.uint(r.rev)
	e.time(r.updated)
	e.time(r.ended)
	e.uint(r.epoch)
	e.time(r.wake)
	e.uint(uint64(r.class))
	e.str(r.parent)
	e.uint(uint64(r.link))
	e.str(r.trace)
	e.uint(uint64(len(r.labels)))
	for _, l := range r.labels {
		e.str(l.name)
		e.str(l.value)
	}
	e.bytes(r.input)
	e.state(&r.state)
	e.uint(uint64(len(r.history)))
	last := e.base
	for _, h := range r.history {
		e.int(h.at.UnixNano() - last)
		last = h.at.UnixNano()
		e.uint(uint64(h.note))
		e.uint(uint64(h.step))
		e.str(h.text)
	}
	e.uint(uint64(r.dropped))
	return e.b
}

func decodeRun(id string, b []byte) (*run, error) {
	d := dec{b: b}
	d.base = d.int()
	r := &run{id: id, created: time.Unix(0, d.base).UTC()}
	r.def, r.version, r.principal, r.key = d.str(), d.str(), d.str(), d.str()
	r.round, r.rev = d.uint(), d.uint()
	r.updated, r.ended = d.time(), d.time()
	r.epoch, r.wake, r.class = d.uint(), d.time(), class(d.max(uint64(classStuck)))
	r.parent, r.link = d.str(), link(d.max(uint64(len(linkNames)-1)))
	r.trace = d.str()
	for range d.many() {
		r.labels = append(r.labels, label{d.str(), d.str()})
	}
	r.input = d.bytes()
	d.state(&r.state)
	last := d.base
	n := d.many()
	r.history = make([]entry, 0, n)
	for range n {
		last += d.int()
		r.history = append(r.history, entry{time.Unix(0, last).UTC(), machine.Note(d.max(255)), d.count(),
			d.str()})
	}
	r.dropped = d.count()
	if d.bad || len(d.b) > 0 {
		return nil, fmt.Errorf("saga: run %s: %w: its row cannot be decoded", id, kv.ErrCorrupt)
	}
	return r, nil
}

// of is the business key of the run.
func (r *run) of() RunKey { return RunKey{Principal: r.principal, Definition: r.def, Key: r.key} }

// loadRun reads a run; nil is none.
func loadRun(rd kv.Reader, id string) (*run, error) {
	row, ok, err := runTable.Get(rd, runKey(id))
	if err != nil || !ok {
		return nil, err
	}
	return decodeRun(id, row.Body)
}
