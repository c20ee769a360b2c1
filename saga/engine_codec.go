package saga

import (
	"onced/kv/wire"
	"onced/saga/machine"
)

// enc writes a row. Its counterpart is dec.
type enc struct{ wire.Encoder }

func (e *enc) state(s *machine.State) {
	e.Uint(uint64(s.Status))
	e.Uint(wire.Flags(s.Back))
	e.Uint(uint64(s.Cause))
	e.Uint(uint64(s.Failed))
	e.Uint(uint64(s.Hold))
	e.Uint(uint64(s.HoldStep))
	e.Text(s.Reason)
	e.Time(s.Deadline)
	e.Uint(uint64(len(s.Steps)))
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
	signalAtPart
)

func (e *enc) step(s *machine.StepState) {
	undo := s.Undo != 0 || s.UndoNo != 0 || s.UndoSends != 0 || !s.UndoneAt.IsZero()
	doubt := s.Looks != 0 || !s.NextAt.IsZero() || s.Error != "" || s.Code != "" || s.Tries != s.Sends ||
		!s.LastSend.Equal(s.FirstSend)
	signal := s.Signal != 0 || s.SignalData != nil
	e.Text(s.Name)
	e.Uint(uint64(s.Status))
	e.Uint(wire.Flags(s.Doubt, s.Resend, s.TimedOut, s.Blind, s.UndoDoubt, undo, doubt, signal,
		!s.SignalAt.IsZero()))
	e.Uint(uint64(s.Sends))
	e.Time(s.FirstSend)
	e.Blob(s.Output)
	if undo {
		e.Uint(uint64(s.Undo))
		e.Uint(uint64(s.UndoNo))
		e.Uint(uint64(s.UndoSends))
		e.Uint(uint64(s.UndoTries))
		e.Time(s.UndoFirst)
		e.Time(s.UndoneAt)
	}
	if doubt {
		e.Uint(uint64(s.Tries))
		e.Uint(uint64(s.Looks))
		e.Time(s.LastSend)
		e.Time(s.NextAt)
		e.Text(s.Error)
		e.Text(s.Code)
	}
	if signal {
		e.Uint(uint64(s.Signal))
		e.Blob(s.SignalData)
	}
	if !s.SignalAt.IsZero() {
		e.Time(s.SignalAt)
	}
}

// dec reads a row.
type dec struct{ *wire.Decoder }

func decoder(b []byte) dec { return dec{wire.NewDecoder(b)} }

func (d dec) state(s *machine.State) {
	s.Status = machine.Status(d.UpTo(uint64(machine.Closed)))
	s.Back = d.UpTo(1) == 1
	s.Cause = machine.Cause(d.UpTo(uint64(machine.CauseLate)))
	s.Failed = d.Count()
	s.Hold = machine.Hold(d.UpTo(uint64(machine.HoldBroken)))
	s.HoldStep = d.Count()
	s.Reason = d.Text()
	s.Deadline = d.Time()
	s.Steps = make([]machine.StepState, min(d.Many(), MaxSteps))
	for i := range s.Steps {
		d.step(&s.Steps[i])
	}
	if s.Failed > len(s.Steps) || s.HoldStep > len(s.Steps) {
		d.Fail()
	}
}

func (d dec) step(s *machine.StepState) {
	s.Name = d.Text()
	s.Status = machine.StepStatus(d.UpTo(uint64(machine.Skipped)))
	has := d.UpTo(2*signalAtPart - 1)
	s.Doubt, s.Resend, s.TimedOut = has&flagDoubt != 0, has&flagResend != 0, has&flagTimedOut != 0
	s.Blind, s.UndoDoubt = has&flagBlind != 0, has&flagUndoDoubt != 0
	s.Sends = d.Count()
	s.FirstSend = d.Time()
	s.Output = d.Blob()
	s.Tries, s.LastSend = s.Sends, s.FirstSend
	if has&undoPart != 0 {
		s.Undo = machine.UndoStatus(d.UpTo(uint64(machine.UndoSkipped)))
		s.UndoNo, s.UndoSends, s.UndoTries = d.Count(), d.Count(), d.Count()
		s.UndoFirst, s.UndoneAt = d.Time(), d.Time()
	}
	if has&doubtPart != 0 {
		s.Tries, s.Looks = d.Count(), d.Count()
		s.LastSend, s.NextAt = d.Time(), d.Time()
		s.Error, s.Code = d.Text(), d.Text()
	}
	if has&signalPart != 0 {
		s.Signal = machine.Outcome(d.UpTo(uint64(machine.OutcomeRefused)))
		s.SignalData = d.Blob()
	}
	if has&signalAtPart != 0 {
		s.SignalAt = d.Time()
	}
}
