// Package timer wakes owners at due times. It is the only scheduler in onced: a
// timer is a row, set in the transaction that wants to be woken.
//
// # What is guaranteed
//
//   - A timer set in a transaction exists exactly when that transaction commits.
//     It never fires early by the clock of the store, also when the wall clock
//     is set back.
//   - A handler in the transaction ([Handler].Tx) runs in the transaction that
//     removes the timer: what it writes commits exactly once per timer.
//   - A handler outside ([Handler].Outside) is called at least once: the timer
//     stays until the callback has removed it or has returned nil.
//   - Timers of one kind fire in the order of their due times; with more than one
//     outside worker they are started in that order.
//   - A handler that fails or panics keeps nothing else from firing. Its timer is
//     not lost: it is moved to a later due time with the number of attempts and
//     a text about the error, and is seen by [List].
//   - A row that cannot be read keeps nothing else from firing either. It is left
//     as it is, logged, and listed as a [DamagedError].
//   - The text of a handler's error is neither kept nor logged, unless the caller
//     chooses so with [Config.Describe]: it may hold a secret.
//   - A slow kind does not delay another kind.
//   - An idle runner writes nothing and reads nothing.
//
// # What is not
//
// Due times of different kinds are not ordered among each other. Timers of a
// kind without handler stay where they are; see [Runner.Unknown].
//
// # What survives a crash
//
// All timers. A runner started after a crash fires what became due meanwhile.
// A crash during an outside callback repeats the call.
//
// # What the caller must do
//
// Use one Runner per store and process, with one running [Runner.Run]; set timers
// through it, or it wakes late. Handlers check the owner's own state: a timer is a hint to
// look, and an outside one may come twice. Remove a timer that is no longer
// wanted with the Due it was set with.
package timer
