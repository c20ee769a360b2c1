// Package machine decides what a saga's run does next. It is a pure function:
//
//	Next(def, state, event, now) → state, effects
//
// It reads no clock, draws no random number and touches no store, so every rule
// of a saga can be tested as a table of texts. The engine in package saga stores
// the state and performs the calls.
//
// # States
//
//	run    running → completed
//	       running → compensating → compensated
//	       held (waits for a person), stuck (an undo does not succeed): both go on
//	       closed (by a person, with a reason)
//	step   pending → ready → started → done | refused
//	                           started → waiting (for its signal) → done | refused
//	                           started → unknown → done | refused | ready | started
//	       skipped (by a person)
//	undo   none → due → started → done | stuck | skipped (by a person)
//
// # Events
//
// [Begin] says that the next call's slot is held: the intent becomes part of the
// state, and the call may be made once that is stored. [Result] is what became of
// a call. [Found] is the answer of a look-up. [Signal] is a word of the callee
// that came by another way. [Wake] says that time has passed. [Recover] says that
// the process that made the calls under way is gone. [Operate] is an act of a
// person.
//
// # What is guaranteed
//
//   - At completed every step is done, or was skipped by a person. At compensated
//     no step stands: each was undone, or is proven not to have happened, or has
//     nothing to undo.
//   - One call at a time. Undos run strictly in reverse: no undo begins while a
//     later step is not resolved and undone.
//   - A call under way in a process that died is unknown. An unknown step is
//     resolved by a look-up, by its signal, by sending the same key again where
//     the callee honours keys, or by a person. It is undone unresolved only when
//     it declares UndoWhenAbsent, and SettlesAfter after its last send: sooner the
//     undo could overtake it.
//   - A look-up that finds nothing is proof only SettlesAfter after the last send.
//     While a try is in doubt, a later refusal proves nothing. A key in doubt is
//     not sent again after KeyValidFor.
//   - After the pivot has been sent, a run is not undone. It goes on, or is held.
//   - The number of an undo rises only when an earlier undo ended and the effect is
//     proven to have happened after it: by a signal whose time says so and that was not
//     heard before, or by a person. A look-up that finds what was undone is no proof, and
//     holds the run. Nothing else in a key ever changes within a round: see [Call].
//   - A terminal state never changes. A success that becomes known after
//     compensated asks for a correction: [EffectCorrect]. A word that contradicts
//     another end is told: [EffectContradict].
//   - Tries and look-ups are bounded and spaced.
//
// # What is not
//
// The machine does not know whether its state was stored. It believes what the
// callee, a look-up, a signal or a person says.
//
// It believes the clock too, with one exception. A run that is seen by a clock before its
// last send or undo, or of which [Recover] says SetBack, has keys of unknown age: none that
// is in doubt is sent again, however the clock goes on, until it is proven that nothing of
// it stands. A clock that is set back while the process is off, and not before these, is not
// seen: the age of a key is then measured too short by as much, and it may be sent again
// after KeyValidFor. One that jumps ahead lets a look-up that finds nothing count before
// SettlesAfter. Set clocks by slewing, and do not let the service start before its clock is
// right.
//
// # Crash points
//
// The engine stores the state that [Begin] returns before it makes the call, and
// the state that [Result] returns after it. A crash before the first leaves
// ready: the call was never made. A crash between the two leaves started, which
// [Recover] turns into unknown. A look-up has no effect and needs no intent.
//
// # What the caller must do
//
// Store the state in the transaction that asked for it, perform the effects, and
// make a call only for [EffectCall]. Match the steps of a stored state to those of
// a definition by name: [Match].
package machine
