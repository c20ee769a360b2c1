// Package saga makes an effect outside the store happen once per key: a charge,
// an order at a supplier, a message. It is the Go face of kv/claim.
//
//	store, err := boltkv.Open(ctx, "shop.db", nil)
//	claims, err := claim.New(ctx, store, claim.Config{})
//	charge := saga.Idempotent(claims, "charge", pay,
//		saga.Key(func(o Order) string { return o.ID }), saga.Check(lookUp))
//	receipt, err := charge(ctx, order) // any number of times, also after a crash
//
// [Idempotent] is for effects of calls, [Once] for events that may be delivered
// again, [OnceTx] for effects that are rows of the store itself.
//
// # How it works
//
// The key is claimed and committed, then the function runs outside any
// transaction, then what became of it is committed. What the function returns
// decides:
//
//	nil                             done      stored, replayed to everybody
//	Refused(err)                    refused   stored, replayed to everybody
//	NotDone(err), RetryAfter(d,err) retry     nothing stored, the key is free
//	any other error, a panic,
//	Goexit, a time-out, a crash     unknown   held until it is known
//
// "It failed" never means "it did not happen". An unknown effect is settled by the
// next call: by [Check], which asks the callee; or by running the function again
// where the callee honours [DownstreamKey] ([Repeatable]); or else by a person
// (claim.Book.Resolve with [Operation.ResultOf] or [RefusalOf]). Time alone never
// frees it. That a look-up finds nothing is proof only [SettlesAfter] after the
// last send. While a try is in doubt, a later refusal proves nothing.
//
// # Errors
//
// They are told apart by errors.Is with the class or errors.As with the type.
//
//	class        type           what it means                  what to do
//	ErrRefused   RefusedError   did not happen, will not;      tell the user; another try
//	                            the same for every call        needs another key
//	ErrNotDone   NotDoneError   did not happen, the key is     correct or wait, call again
//	                            free                           with the same key
//	ErrInFlight  InFlightError  another call is at work        call again after RetryAfter
//	ErrUnknown   UnknownError   may have happened              Held: a person resolves it;
//	                                                           else call again after
//	                                                           RetryAfter. Never use
//	                                                           another key
//	ErrMismatch  MismatchError  the key has other arguments    a fault of the caller: one
//	                                                           key for one intent
//	ErrNoResult  ResultError    happened; its result cannot    ask the callee for the
//	                            be given                       details
//	ErrConfig    ConfigError    described wrongly; nothing     correct the program
//	                            was done
//	other        of the store,  this call did nothing; what    call again with the same key
//	             the context    earlier calls did stands
//
// # What is guaranteed
//
//   - Of all calls under one key, in all processes that use the store one after
//     the other, at most one runs the function at a time, and none runs it while
//     an earlier run may have had its effect, except as Check and Repeatable allow.
//   - Every call that gets an answer gets the same one, byte for byte of its JSON.
//   - An outcome that could not be stored never frees the key.
//
// # What is not
//
//   - That the effect happens: nobody runs a function that nobody calls again.
//   - Anything after the retention of claims (default 30 days): the key is then
//     new. Publish it to whoever sends keys.
//   - That a function which ignores its context ends at its time limit. Its key
//     stays taken while it runs.
//   - Anything when Check or Repeatable say what is not so.
//
// # What survives a crash
//
// Every answer that was given. A call under way is unknown after the next start.
//
// # What the caller must do
//
// Derive the key from the intent (an order's id), never from a clock, a random
// number or a count of tries. Do nothing in the function but the one effect. Mark
// an error as Refused or NotDone only on the callee's word, or from before the
// call. Run claim.Book.Recover after the start and claim.Book.SweepExpired and
// [SweepOnce] from time to time.
package saga
