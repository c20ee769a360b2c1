package saga

import (
	"encoding/binary"
	"time"

	"onced/saga/machine"
)

// enc writes a row. Its counterpart is dec.
type enc struct {
	b    []byte
	base int64 // ns since 1970 that times are relative to
}

func (e *enc) uint(n uint64) { e.b = binary.AppendUvarint(e.b, n) }
func (e *enc) int(n int64)   { e.b = binary.AppendVarint(e.b, n) }

func (e *enc) str(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

// bytes tells nil from empty.
func (e *enc) bytes(b []byte) {
	if b == nil {
		e.uint(0)
		return
	}
	e.uint(uint64(len(b)) + 1)
	e.b = append(e.b, b...)
}

// time writes the zero time as 0.
func (e *enc) time(t time.Time) {
	if t.IsZero() {
		e.uint(0)
		return
	}
	e.uint(1)
	e.int(t.UnixNano() - e.base)
}

func (e *enc) state(s *machine.State) {
	e.uint(uint64(s.Status))
	e.uint(flags(s.Back))
	e.uint(uint64(s.Cause))
	e.uint(uint64(s.Failed))
	e.uint(uint64(s.Hold))
	e.uint(uint64(s.HoldStep))
	e.str(s.Reason)
	e.time(s.Deadline)
	e.uint(uint64(len(s.Steps)))
	for i := range s.Steps {
		e.step(&s.Steps[i])
	}
}

// The flags of a step, and last those of the parts that most steps do not have.
const (
	flagDoubt = 1 << iota
	flagResend
	flagTimedOut
	flagBlind
	flagUndoDoubt
	undoPart
	doubtPart
	signalPart
)

func flags(set ...bool) (n uint64) {
	for i, s := range set {
		if s {
			n |= 1 << i
		}
	}
	return n
}

func (e *enc) step(s *machine.StepState) {
	undo := s.Undo != 0 || s.UndoNo != 0 || s.UndoSends != 0 || !s.UndoneAt.IsZero()
	doubt := s.Looks != 0 || !s.NextAt.IsZero() || s.Error != "" || s.Code != "" || s.Tries != s.Sends ||
		!s.LastSend.Equal(s.FirstSend)
	signal := s.Signal != 0 || s.SignalData != nil
	e.str(s.Name)
	e.uint(uint64(s.Status))
	e.uint(flags(s.Doubt, s.Resend, s.TimedOut, s.Blind, s.UndoDoubt, undo, doubt, signal))
	e.uint(uint64(s.Sends))
	e.time(s.FirstSend)
	e.bytes(s.Output)
	if undo {
		e.uint(uint64(s.Undo))
		e.uint(uint64(s.UndoNo))
		e.uint(uint64(s.UndoSends))
		e.uint(uint64(s.UndoTries))
		e.time(s.UndoFirst)
		e.time(s.UndoneAt)
	}
	if doubt {
		e.uint(uint64(s.Tries))
		e.uint(uint64(s.Looks))
		e.time(s.LastSend)
		e.time(s.NextAt)
		e.str(s.Error)
		e.str(s.Code)
	}
	if signal {
		e.uint(uint64(s.Signal))
		e.bytes(s.SignalData)
	}
}

// dec reads a row. The first fault sets bad; what is read after it is zero.
type dec struct {
	b    []byte
	base int64
	bad  bool
}

func (d *dec) fail() {
	d.bad = true
	d.b = nil
}

func (d *dec) uint() uint64 {
	n, used := binary.Uvarint(d.b)
	if used <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[used:]
	return n
}

func (d *dec) int() int64 {
	n, used := binary.Varint(d.b)
	if used <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[used:]
	return n
}

// max reads a number up to limit.
func (d *dec) max(limit uint64) uint64 {
	n := d.uint()
	if n > limit {
		d.fail()
		return 0
	}
	return n
}

// count reads a number that is never very large.
func (d *dec) count() int { return int(d.max(1 << 30)) }

// many reads how many things follow, each of at least a byte.
func (d *dec) many() int { return int(d.max(uint64(len(d.b)))) }

func (d *dec) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *dec) str() string { return string(d.take(d.uint())) }

func (d *dec) bytes() []byte {
	n := d.uint()
	if n == 0 {
		return nil
	}
	return d.take(n - 1)
}

func (d *dec) time() time.Time {
	if d.max(1) == 0 {
		return time.Time{}
	}
	return time.Unix(0, d.base+d.int()).UTC()
}

func (d *dec) state(s *machine.State) {
	s.Status = machine.Status(d.max(uint64(machine.Closed)))
	s.Back = d.max(1) == 1
	s.Cause = machine.Cause(d.max(uint64(machine.CauseLate)))
	s.Failed = d.count()
	s.Hold = machine.Hold(d.max(uint64(machine.HoldBroken)))
	s.HoldStep = d.count()
	s.Reason = d.str()
	s.Deadline = d.time()
	s.Steps = make([]machine.StepState, min(d.many(), MaxSteps))
	for i := range s.Steps {
		d.step(&s.Steps[i])
	}
	if s.Failed > len(s.Steps) || s.HoldStep > len(s.Steps) {
		d.fail()
	}
}

func (d *dec) step(s *machine.StepState) {
	s.Name = d.str()
	s.Status = machine.StepStatus(d.max(uint64(machine.Skipped)))
	has := d.max(2*signalPart - 1)
	s.Doubt, s.Resend, s.TimedOut = has&flagDoubt != 0, has&flagResend != 0, has&flagTimedOut != 0
	s.Blind, s.UndoDoubt = has&flagBlind != 0, has&flagUndoDoubt != 0
	s.Sends = d.count()
	s.FirstSend = d.time()
	s.Output = d.bytes()
	s.Tries, s.LastSend = s.Sends, s.FirstSend
	if has&undoPart != 0 {
		s.Undo = machine.UndoStatus(d.max(uint64(machine.UndoSkipped)))
		s.UndoNo, s.UndoSends, s.UndoTries = d.count(), d.count(), d.count()
		s.UndoFirst, s.UndoneAt = d.time(), d.time()
	}
	if has&doubtPart != 0 {
		s.Tries, s.Looks = d.count(), d.count()
		s.LastSend, s.NextAt = d.time(), d.time()
		s.Error, s.Code = d.str(), d.str()
	}
	if has&signalPart != 0 {
		s.Signal = machine.Outcome(d.max(uint64(machine.OutcomeRefused)))
		s.SignalData = d.bytes()
	}
}
