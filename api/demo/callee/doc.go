// Package callee is the four services that the demo's checkout calls: loyalty points,
// vouchers, a payment gateway and the orders. Each keeps a ledger of its own and
// fails on demand.
//
//	loyalty   honours idempotency keys; giving points back does no harm when none
//	          were spent, and then none can be spent later
//	voucher   ignores keys: every call redeems; it can be looked up by reference; a
//	          release is remembered, and what comes after it is refused
//	gateway   ignores keys: every call charges; it answers 202, settles later and
//	          calls back: often, late, never, or before its own answer; it can be
//	          looked up by reference, and refunds a charge once
//	order     honours keys, and can be looked up by reference
//
// # What is guaranteed
//
// What a service has not done [BookBy] after it was asked it never does. Which call
// meets which fault is a function of the seed and the call. After at most two tries
// in a row that met a fault the next one is answered, so everything comes to an end.
//
// # What is not
//
// The services defend themselves against nothing but what is said above.
//
// # What survives a crash
//
// The ledgers. A charge that was answered with 202 and not yet settled is lost with
// its process, and is never made.
//
// # What the caller must do
//
// Run them outside of the process under test, and call [Services.Wait] after the
// context of the [Env] has ended and before the ledgers are closed.
package callee
