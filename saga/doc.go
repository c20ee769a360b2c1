// Package saga makes an effect outside the store happen once per key: a charge,
// an order at a supplier, a message. It is the Go face of kv/claim.
//
//	store, err := boltkv.Open(ctx, "shop.db", nil)
//	claims, err := claim.New(ctx, store, claim.Config{Feed: feed.New(feed.Config{})})
//	charge := saga.Idempotent(claims, "charge", pay,
//		saga.Key(func(o Order) string { return o.ID }), saga.Check(lookUp))
//	receipt, err := charge(ctx, order) // any number of times, also after a crash
//
// One process at a time has the store, and a key is kept for the retention of claims,
// 30 days unless said otherwise. The feed is where decisions of persons are written
// down; without it they are refused.
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
// last send. While a try is in doubt, a later refusal proves nothing by itself: it
// counts only where the callee honours the key and has settled the try before.
//
// A refusal is final for its key: whoever pays with another card after it makes a new
// payment, with a new key (order-1001/2). After anything else a new key is wrong.
//
// A person needs a tool, and in a program of your own it is yours to write: list what
// waits, look at the callee's books, and resolve it. The example of
// [Operation.ResultOf] is one from end to end; its heart is
//
//	found, _, err := claims.Get(ctx, op.ID(order)) // op is of NewOperation
//	_, err = claims.Resolve(ctx, claim.Resolution{ID: found.ID, Version: found.Record.Version,
//		Verdict: claim.VerdictDone, Result: result, Actor: "ada", Reason: "it is on their statement"})
//
// # Errors
//
// They are told apart by errors.Is with the class or errors.As with the type.
//
//	class        type           what it means                  what to do
//	ErrRefused   RefusedError   did not happen, will not;      tell the user; to pay in
//	                            the same for every call        another way is a new key
//	ErrNotDone   NotDoneError   did not happen, the key is     correct or wait, call again
//	                            free                           with the same key
//	ErrInFlight  InFlightError  another call is at work        call again after RetryAfter
//	ErrUnknown   UnknownError   may have happened              Held: a person resolves it;
//	                                                           else call again after
//	                                                           RetryAfter. Never use
//	                                                           another key
//	ErrMismatch  MismatchError  the key has other arguments    the same intent: send the
//	                                                           same arguments. Another
//	                                                           one: it needs its own key
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
// [SweepOnce] from time to time. Wait for the calls under way before closing the
// store: whoever opens it next takes them for dead, and may find nothing of an
// effect that is still to come.
//
// # Sagas
//
// A [Definition] is a saga: steps in different services that share no transaction,
// each with an undo. An [Engine] runs it for a business key, through crashes:
//
//	checkout := saga.New("checkout").
//		Step("loyalty", spendPoints, returnPoints).
//		Step("charge", charge, refund, saga.Check(lookUpCharge)).
//		Step("order", createOrder, nil)
//	run, err := engine.Run(ctx, checkout, order.ID, order)
//
// An engine is put together once per process, over the store of all else:
//
//	timers := timer.New(store, timer.Config{})
//	engine, err := saga.NewEngine(store, saga.Config{Timers: timers, Feed: feed.New(feed.Config{})})
//	err = engine.Register(checkout) // and every older version that has open runs
//	ctx, stop := context.WithCancel(ctx)
//	go func() { ended <- timers.Run(ctx) }()   // wakes runs that are due
//	go func() { ended <- engine.Serve(ctx) }() // makes their calls
//	run, err := engine.Run(ctx, checkout, order.ID, order)
//	stop() // then wait for both, and close the store
//
// engine_example_test.go is that whole, with steps, undos and signals.
//
// Every run ends completed, or undone as a whole, or waits where a person sees it:
// held (it is not known what stands, or nothing may be undone any more) or stuck (an
// undo does not succeed). A person ends it with a verb: see [Engine.Operate], and
// machine.Verb for what comes of each. The rules are in package machine, a pure
// function; the engine stores and performs.
//
// What holds at every commit:
//
//   - The intent of a call is stored before it is made, its outcome after it. The
//     outcome of one call and the intent of the next are one commit, if the slot of
//     the next is held already and the engine does not drain; else the run is stored
//     as ready, and as started once the slot is held. So n steps cost n+1 commits.
//   - A business key of a principal has one run that counts, for ever: a start joins
//     it, or gets its result. A run that was undone makes room for the next round. The
//     key that a callee gets is derived from principal, definition, business key, round
//     and step, and for undos from the number of the undo; nothing else.
//   - A run that has ended never changes. A success that becomes known after a run
//     was undone is undone by a linked run.
//   - The end of a run, and its need of a person, are events in the feed of the same
//     commit ("run.completed", "run.compensated", "run.held", "run.stuck",
//     "run.closed"; "run.contradicted" for a word that came after the end and denies
//     it), as are the acts of persons ("operator.run.retry" and others).
//   - One call at a time per run. Runs are woken by kv/timer, signals and persons;
//     an idle engine writes nothing and reads nothing.
//
// Where a crash falls: before the commit of an intent the call was never made. After
// it, the call is unknown at the next start, and is looked up, sent again under the
// same key, or held, as its step says. The next start takes up from an index what was
// under way or due. Runs that wait cost it no more than a look whether their definition
// is there with their steps: if not, Config.Logger is warned.
//
// A step with [AwaitSignal] is finished by its signal. After a crash during its action a
// look-up speaks for it: found means finished, [Begun] means that the signal is still to
// come. [RunView] says for which step's signal a run waits.
//
// A mistake in the program costs no money: a run whose definition is missing or has
// other steps, or whose input does not fit the steps any more, is held and neither sent
// on nor undone. The first goes on by itself when the definition is corrected, the
// second with the verb retry. Whoever waits for a run of an engine that nobody serves
// gets [ErrNotServing].
//
// What is not promised: that a step's function, which may be called again after any
// crash with the same key, has its effect once, unless the callee honours the key or
// [Check] tells; and anything when what Check, [Repeatable], [UndoWhenAbsent] or a
// signal say is not so.
//
// What the caller must do: use one Engine per store and process; register every
// version of a definition that has open runs before the timers and Serve begin; call
// [Engine.SweepRuns] from time to time; put no secret into inputs, outputs, reasons
// and the texts of marked errors, which operators see.
package saga
