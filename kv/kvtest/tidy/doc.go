// Package tidy holds no code, only a test that reads the whole module and
// checks what the compiler does not: which package may import which, the limits
// on size, that everything exported is documented, where the clock and
// randomness may be read, that money is never a float, that no test is skipped.
//
// The rules are one table, in tidy_test.go; each brings small sources on which
// it must fire, and near misses on which it must not. What may break a rule is
// listed in exceptions_test.go with its reason, and an exception that nothing
// needs any more fails the test too.
//
// The test reads files and asks "go list" for the import graph. It changes
// nothing and keeps nothing, so a crash leaves nothing behind. The caller runs
// it with "go test ./kv/kvtest/tidy", or "make test".
package tidy
