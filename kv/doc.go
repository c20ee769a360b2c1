// Package kv is the small transactional store that everything else in onced
// stands on: ordered tables of bytes, read in consistent snapshots, changed in
// serializable transactions that are durable when they return.
//
// # What is guaranteed
//
//   - [Store.Update] returning nil means the change is on stable storage.
//   - An error from Update means the change did not happen, with one exception:
//     [ErrCommitUnknown], after which it may be found after the next start.
//     Every primitive built on kv can therefore be called again with the same
//     token.
//   - Every answer of a transaction, an error too, leaves after the commit it
//     rests on. A View never shows a change that a power cut could take back.
//   - An error, a panic or a Goexit in one transaction leaves no trace and
//     harms no other, though the engine may commit many of them together.
//
// # What the caller must do
//
//   - Closures may run more than once. They touch nothing outside the
//     transaction; results leave them only by assignment at their end. A
//     transaction opened inside another, on any store, is refused.
//   - Point reads are truth, scans are hints: code that acts on a scanned key
//     reads it again by key in the acting transaction.
//   - Transactions are small: see the limits in this package.
//
// # What survives a crash
//
// Every transaction that was acknowledged, whole; no part of any that failed;
// all or nothing of one that was under way.
//
// Engines live in their own packages (kv/boltkv, kv/memkv) and share the
// grouping of commits in kv/group.
package kv
