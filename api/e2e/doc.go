// Package e2e attacks and measures the running program. It has tests and
// benchmarks only.
//
// # What is guaranteed
//
// The tests start "onced serve" as a child on a free port of 127.0.0.1, with a
// fake service behind it that keeps a ledger, and speak to it over the network as
// a stranger would, down to the bytes. After each test three things hold that no
// single test has to ask for: the log is one JSON object a line and holds no
// token, key or secret; no error body holds a path, an address or a secret; the
// program still serves.
//
// The benchmarks compare the same child with a bare skeleton that does the same
// work without any of its guarantees, in the same run; see BENCH.md.
//
// # What is not
//
// What the parts promise by themselves is tested where they are. Whether two
// answers take the same time is not measured here: one machine's noise is larger.
//
// # What survives a crash
//
// Nothing. Data folders are temporary.
//
// # What the caller must do
//
// Nothing: there is nothing to call.
package e2e
