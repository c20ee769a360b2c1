// Package sendonce sends HTTP/1.1 requests over connections that are kept, each request
// once, and knows whether any of it may have left. It is below onced's two HTTP clients:
// that of the proxy's guarded routes and saga/egress.
//
//	t := sendonce.New(sendonce.Config{Dial: dialer.DialContext})
//	resp, fate, err := t.Send(ctx, r, false)
//	if err != nil && fate == sendonce.NotSent { … } // it certainly did not happen
//
// # Why not net/http's transport
//
// That one sends a request again of its own accord when a kept connection breaks, if it
// takes the request for repeatable: by its method, or because it carries an
// Idempotency-Key; and it tries every idle connection in turn. A callee that does not
// honour the key is called twice. It also hands each request to two goroutines, and so
// can tell only by a watch on the connection whether a byte has left. Here the caller's
// goroutine writes the request and reads the answer: what was written is known, nothing
// is written later, and a call takes about a third less time (BenchmarkCall). Requests and
// answers are still written and parsed by net/http.
//
// # What is guaranteed
//
//   - A request is written to one connection. Only when not a byte of it was taken by a
//     connection that was kept is another one tried, and not for a request that cannot be
//     written.
//   - [NotSent] proves that no byte of the request was handed to a connection, and none
//     will be. [Broke] says that a kept connection took it and failed without a byte of
//     an answer; the callee may have it.
//   - A connection is looked at before it is used again: one that the other side has closed,
//     or on which something came that nobody asked for, is not used. On systems other than
//     Unix that look goes no further than what TLS has taken in.
//   - What follows an answer is no part of the next one, as far as it was there by then.
//   - Nothing waits longer than the context allows: when it ends the connection is closed.
//     A context that has ended sends nothing.
//   - The header of an answer is bounded; informational answers before it count, and are
//     dropped. An answer that says 101 has no body, and its connection is closed.
//   - No proxy of the environment, no redirect, no cookie, no decompression, no HTTP/2.
//   - The body of a request is not read any more when Send has returned an error, or when
//     that of the answer was read to its end or closed.
//
// # What is not
//
//   - That what was handed over has arrived: it may have.
//   - HTTP/1.1 does not number its answers: what comes after that look, or as half a record
//     of TLS before it, is taken for the answer to what is then sent.
//   - A body longer than [InlineBody] is written by a goroutine of its own, so that an answer
//     that comes early is read. That answer's end may then wait for 50 ms.
//   - A body whose Read waits is waited for, whatever the context says.
//
// # What survives a crash
//
// Nothing is kept.
//
// # What the caller must do
//
// Close the body of every answer; a connection is kept only when the body was read to its
// end. Give a request with a body its ContentLength.
package sendonce
