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
//     a restart keeps its old value and is named. So it is with definitions of sagas:
//     a file with a mistake changes nothing, a file that has changed is a new
//     version, and runs keep the version that they began with.
//   - Every definition that the store has is known before a run goes on. Runs go on
//     beside the servers, which do not wait for them. When the process is told to
//     stop no call of a step begins; those under way have http.drain_timeout to end,
//     and who waits for a run (Prefer: wait) is then answered with how far it is.
//   - Secrets reach the calls of steps, and nothing else.
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
