package invariant

import (
	"context"

	"onced/kv"
)

// TB is the part of testing.TB that [Require] needs, so that programs which
// import this package do not import testing.
type TB interface {
	// Helper marks the caller as a helper.
	Helper()
	// Errorf reports a failure and goes on.
	Errorf(format string, args ...any)
	// Cleanup registers fn for the end of the test; the last one runs first.
	Cleanup(fn func())
}

// Require checks the rules when the test ends and fails it for every violation
// and every rule that could not be checked. Call it after registering the
// store's Close, so that the store is still open then:
//
//	store := memkv.New()
//	t.Cleanup(func() { store.Close() })
//	invariant.Require(t, store, feed.Rules()...)
func Require(tb TB, s kv.Store, rules ...Rule) {
	tb.Helper()
	tb.Cleanup(func() {
		tb.Helper()
		RequireNow(tb, s, rules...)
	})
}

// RequireNow is [Require] at once, for tests that restart their store.
func RequireNow(tb TB, s kv.Store, rules ...Rule) {
	tb.Helper()
	if len(rules) == 0 {
		tb.Errorf("invariant: no rules were given, so nothing was checked")
		return
	}
	rep, err := Check(context.Background(), s, rules...)
	if err != nil {
		tb.Errorf("invariants could not be checked: %v", err)
	}
	if !rep.OK() {
		tb.Errorf("invariants are broken:\n%s", rep)
	}
}
