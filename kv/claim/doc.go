// Package claim keeps idempotency keys: it makes sure that at most one caller
// at a time may cause the effect behind a key, and that everybody else gets the
// result, or the truth about why there is none yet.
//
// A key is the pair of a scope and a caller's key ([ID]). Its record is in one
// of four states:
//
//	absent  --Begin-->  pending  --Done-->     done      (terminal)
//	                             --Refused-->  refused   (terminal)
//	                             --Release-->  absent    (definitely did not happen)
//	                             --Unknown, death or lapse of the owner-->  unknown
//	unknown --Begin with TakeOver--> pending, with Doubt
//
// The protocol of an owner is always the same: [Book.Begin] commits the intent,
// then the effect is tried outside any transaction, then exactly one of
// [Book.Done], [Book.Refused], [Book.Release] and [Book.Unknown] commits the
// outcome. An owner that took over an unknown key first finds out what became
// of the earlier tries: it looks up and reports with [Book.LookedUp], or it asks
// with [Book.Repeat] for leave to send the same downstream key once more.
//
// # What is guaranteed
//
//   - At most one token holds a key at a time. Whatever carries another token
//     is refused with [ErrFenced] and changes nothing.
//   - A terminal record never changes: every replay gets the same bytes.
//   - An unknown key is never freed by time. It is resolved by a look-up, by a
//     late answer of its own owner, or by a person ([Book.Resolve]).
//   - Once a try ended unknown, a later refusal or release proves nothing by
//     itself; the key stays unknown.
//   - A look-up that finds nothing is proof only when the last send was at least
//     the settling time ago as the look-up began.
//   - Another fingerprint under the same key is refused in every state.
//   - The store holds no token, only sums of them: a copy of it finishes nobody's
//     claim.
//
// # What is not guaranteed
//
//   - That the effect happens: an owner may die. Its key is then unknown.
//   - That a remote owner stops at the end of its lease. It must not start a
//     call after it, and its call carries the same downstream key
//     ([DownstreamKey]) as everybody else's.
//   - That a key means anything after its retention: it is then free again.
//   - That times mean anything when the clock does not. One that jumps ahead
//     cannot be told from a process that was off for so long: by as much as the
//     retention, it frees every key that is done or refused, at once; by as much as
//     a settling time, it lets a look-up count that was too early. It never frees
//     an open claim, and gives no leave to send again. Set clocks by slewing, and
//     do not let the service start before its clock is right. One that is set back
//     makes times last longer. A claim that is seen by a clock before its last change
//     is of unknown age and never sent again, until a look-up has proved it void. One
//     that is set back while the process is off, by less than the time since that
//     change, is not seen: [Book.Repeat] then measures the age too short by as much.
//
// # What survives a crash
//
// Every decision that was returned. A local owner dies with its process: at the
// next start its pending claims count as unknown at once, without a scan. A
// remote owner goes on, and keeps its key until its lease ends.
//
// # What the caller must do
//
//   - Choose a fresh token per attempt ([NewToken]). Calling again with the same
//     token after [kv.ErrCommitUnknown] or a lost answer is safe.
//   - Report an outcome for every key it holds, [Book.Unknown] after a panic. The
//     claim of a local owner that forgets is in flight until the process ends.
//   - Not start an effect when the error of Begin is not nil.
//   - End its local owners before it closes the store: at the next opening they
//     count as dead.
//   - Compute the fingerprint over the raw bytes of the request.
//   - Run [Book.Recover] at once after the start, and from time to time, and
//     [Book.SweepExpired] in the background.
//
// [Machine] is the pure part: a function over one record that needs no more
// than get and compare-and-swap. [Book] stores its records in a [kv.Store].
package claim
