package feed

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"onced/kv"
)

// A cursor is the base64url text of: its version, the epoch, the number of the
// last entry read, and the mark of that entry's id. Callers treat it as opaque.
const (
	cursorVersion = 1
	epochSize     = 16
	cursorSize    = 1 + epochSize + 8 + markSize
)

var cursorText = base64.RawURLEncoding.Strict() // one text per cursor

// position is a decoded cursor. The zero epoch stands for the beginning of a
// log that had no entry yet.
type position struct {
	epoch [epochSize]byte
	seq   uint64
	mark  [markSize]byte
}

func (p position) encode() string {
	b := make([]byte, 0, cursorSize)
	b = append(append(b, cursorVersion), p.epoch[:]...)
	b = append(binary.BigEndian.AppendUint64(b, p.seq), p.mark[:]...)
	return cursorText.EncodeToString(b)
}

func parseCursor(s string) (p position, err error) {
	if len(s) != cursorText.EncodedLen(cursorSize) {
		return p, &CursorError{Problem: fmt.Sprintf("has %d characters, not %d", len(s),
			cursorText.EncodedLen(cursorSize))}
	}
	b, err := cursorText.DecodeString(s)
	if err != nil {
		return p, &CursorError{Problem: "is not base64url text"}
	}
	if b[0] != cursorVersion {
		return p, &CursorError{Problem: fmt.Sprintf("has the version %d; this program reads %d",
			b[0], cursorVersion)}
	}
	b = b[1:]
	copy(p.epoch[:], b)
	p.seq = binary.BigEndian.Uint64(b[epochSize:])
	copy(p.mark[:], b[epochSize+8:])
	if p.epoch == [epochSize]byte{} && p != (position{}) {
		return p, &CursorError{Problem: "has a position but no epoch"}
	}
	return p, nil
}

// CursorError says that a text is not a cursor of any feed. It is the answer
// 400 of an HTTP API.
type CursorError struct {
	Problem string // what is wrong with it
}

// Error names the field and the remedy.
func (e *CursorError) Error() string {
	return "feed: cursor " + e.Problem + "; pass a cursor exactly as it was returned, " +
		"or none to read from the oldest"
}

// GoneError says that entries behind a cursor were removed by retention before
// they were read. It is the answer 410.
type GoneError struct {
	After  uint64 // the last entry the reader has seen
	Oldest uint64 // the first entry that is kept
	Cursor string // reads from the oldest entry kept
}

// Missed is the number of entries that the reader can no longer get here.
func (e *GoneError) Missed() uint64 { return e.Oldest - e.After - 1 }

// Error says how many entries are missed and how to go on.
func (e *GoneError) Error() string {
	return fmt.Sprintf("feed: cursor is older than what is kept: %d entries after %d were removed; "+
		"get what they reported from the listings, then go on with the oldest cursor", e.Missed(), e.After)
}

// Conflict says why a cursor does not belong to the log.
type Conflict string

// The kinds of conflict.
const (
	// ConflictEpoch: the cursor is from another history of the log, from before a
	// restore or from another store.
	ConflictEpoch Conflict = "epoch"
	// ConflictAhead: the cursor is behind the last entry of the log.
	ConflictAhead Conflict = "ahead"
	// ConflictEntry: another entry has the cursor's number.
	ConflictEntry Conflict = "entry"
)

// ConflictError says that a cursor belongs to another history. It is the answer 409.
type ConflictError struct {
	Kind Conflict
	// Resume is a cursor to go on with that skips nothing of what is kept: the same
	// place when the histories are known to agree up to it, else the oldest entry
	// kept. Entries may come again; their ids tell.
	Resume string
	// Missed is how many entries behind the cursor's number were removed by
	// retention: the reader has not seen them and can no longer get them here.
	Missed uint64
	// Removed is, where Resume is the oldest entry kept, how many entries retention
	// has removed before it. Nobody can tell of which of them, up to the cursor's
	// number, the reader has seen another history.
	Removed uint64
}

// Error says what the conflict is and how to go on.
func (e *ConflictError) Error() string {
	why := map[Conflict]string{
		ConflictEpoch: "is from another history of the log, for example from before a restore",
		ConflictAhead: "is ahead of the last entry",
		ConflictEntry: "names an entry that is not the one in this log",
	}[e.Kind]
	text := "feed: cursor " + why + "; "
	if e.Removed > 0 {
		text += fmt.Sprintf("the entries up to %d were removed, at least %d of them unread; "+
			"get what they reported from the listings, then ", e.Removed, e.Missed)
	}
	return text + "go on with the resume cursor and drop events whose id was seen"
}

func (m meta) position(seq uint64, mark []byte) position {
	p := position{seq: seq}
	copy(p.epoch[:], m.Epoch)
	copy(p.mark[:], mark)
	return p
}

// oldest is the position before the oldest entry.
func (m meta) oldest() position { return m.position(m.Oldest-1, m.Before) }

// at is the position behind the entry seq, which is Oldest-1 or kept.
func (m meta) at(rd kv.Reader, seq uint64) (position, error) {
	if seq == m.Oldest-1 {
		return m.oldest(), nil
	}
	e, ok, err := entryTable.Get(rd, entryKey(seq))
	if err != nil {
		return position{}, err
	}
	if !ok {
		return position{}, fmt.Errorf("feed: entry %d is missing: %w", seq, kv.ErrCorrupt)
	}
	return m.position(seq, mark(e.ID)), nil
}

// next returns the number to read next, or why the cursor does not fit the log.
func (m meta) next(rd kv.Reader, p position) (uint64, error) {
	if p == (position{}) { // taken before the first entry: the beginning of every history
		p = m.position(0, make([]byte, markSize))
	}
	conflict := func(kind Conflict) error {
		gone := m.Oldest - 1
		return &ConflictError{Kind: kind, Resume: m.oldest().encode(),
			Missed: gone - min(gone, p.seq), Removed: gone}
	}
	sameEpoch := bytes.Equal(p.epoch[:], m.Epoch)
	switch {
	case p.seq > m.Head && !sameEpoch:
		return 0, conflict(ConflictEpoch)
	case p.seq > m.Head:
		return 0, conflict(ConflictAhead)
	case p.seq < m.Oldest-1 && !sameEpoch:
		return 0, conflict(ConflictEpoch)
	case p.seq < m.Oldest-1:
		return 0, &GoneError{After: p.seq, Oldest: m.Oldest, Cursor: m.oldest().encode()}
	}
	here, err := m.at(rd, p.seq)
	if err != nil {
		return 0, err
	}
	switch {
	case here.mark != p.mark && sameEpoch:
		return 0, conflict(ConflictEntry)
	case here.mark != p.mark:
		return 0, conflict(ConflictEpoch)
	case !sameEpoch:
		return 0, &ConflictError{Kind: ConflictEpoch, Resume: here.encode()}
	}
	return p.seq + 1, nil
}
