// Package feed is one ordered log of CloudEvents: what onced tells the
// merchant's application, in order, once.
//
// # What is guaranteed
//
//   - An event is appended in the transaction that caused it. It is in the log
//     exactly when that transaction committed.
//   - Sequence numbers begin at 1 and have no hole between the oldest entry kept
//     and the head, also when transactions fail or the process is killed: the
//     number is an ordinary row of the same transaction.
//   - The bytes of an event are made once, when it is appended. Every reader and
//     every push sees the same bytes for ever.
//   - A cursor is checked on every read. One that points before the oldest entry
//     is answered with [GoneError], one that belongs to another history with
//     [ConflictError]; both say how to go on, and how many entries cannot be had any
//     more. Nothing is ever skipped in silence.
//   - A damaged entry keeps nobody from what comes before it.
//
// # What is not
//
// The log does not look for an id it has seen: [Feed.Append] of the same event
// twice makes two entries with one id, which consumers drop by id. It harms
// nothing else, but it is the caller's mistake; [Feed.AppendOnce] prevents it for
// as long as the first entry is kept.
//
// Nobody reads past a damaged entry, and [Feed.Trim] does not remove it: a hole
// would be a fact that a consumer never learns. Restore the store from a copy
// and call [Feed.NewEpoch].
//
// # What survives a crash
//
// Everything that was committed. Wake-ups do not survive, and need not: whoever
// starts reads from its cursor first.
//
// # What the caller must do
//
// Derive every id from the fact it reports, for example with [DerivedID], so that
// the same fact told again (after a restore, by a replay) has the same id. Use
// one Feed per store and process, or readers are not woken. Call [Feed.NewEpoch]
// after restoring a store from a copy. Consumers store the cursor together with
// the effects of the events, in one transaction.
package feed
