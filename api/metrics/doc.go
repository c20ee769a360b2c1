// Package metrics shows in the form of Prometheus what the other packages tell
// their observers. It is the only one that knows Prometheus.
//
// # What is guaranteed
//
//   - Every metric of ours is declared in one table ([Table]): name, type, help,
//     labels and the values that a label may have. METRICS.md is printed from it.
//   - The values of labels are closed sets. A value outside of its set is shown as
//     "other". The names of routes come from the configuration: the first 100 that
//     a process sees, then "other"; so do the names of definitions of sagas. Ids,
//     keys, addresses, URLs and texts of errors are never labels.
//   - The methods that observers call are quick, never wait for a store, a disk or
//     a network, and are safe for concurrent use.
//   - The registry is the package's own. There is no global state.
//   - What is read when somebody asks (open claims, waiting runs, sizes, health) is read anew
//     after a restart, in bounded pages, and claims and runs at most once in
//     [CountEvery]. A source that fails leaves its metrics out, or as they were
//     with the instant of the last success; the others are shown all the same.
//
// # What is not
//
// Counters begin at zero with each start, as Prometheus expects. [MaxOpenCounted]
// bounds how many open claims are counted: more are shown as that many. A word that denies
// what is known of a run is counted when somebody asks; of several about one step in
// between the last one is.
//
// # What survives a crash
//
// Nothing; the store's own numbers are read from the store.
//
// # What the caller must do
//
// Make one [Metrics] per process before the store is opened, hand its methods to
// the observers, name the sources with the Watch methods, and serve [Metrics.Handler]
// to whoever may read metrics: this package asks for no token.
package metrics
