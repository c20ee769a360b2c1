// Package app is the composition root: it opens the store, makes every part
// from one [config.Config], and runs them as one process.
//
// # What is guaranteed
//
//   - One process holds the data: a second one is refused within about a second
//     with [kv.ErrLocked], which names the first.
//   - The parts stop together, in the reverse order of their start: first the
//     servers, then what works in the background, the store last. Whichever part
//     fails first stops all.
//   - When it is told to stop, readiness is off at once, no new connection is
//     taken, requests under way have http.drain_timeout to end, and those that do
//     not are cut off; what they had sent is then unknown, as after a crash, and
//     found so at the next start.
//   - A reload puts all of the new settings in place or none of them. What needs
//     a restart keeps its old value and is named.
//   - [App.Run] returns after every goroutine that it started has ended; a
//     request that was cut off and does not notice is given two seconds.
//
// # What is not
//
// The clean end is a courtesy. Nothing relies on it: kill -9 loses nothing that
// was acknowledged.
//
// # What the caller must do
//
// Call [New], then [App.Run] once, and [App.Close] when Run is never called.
package app
