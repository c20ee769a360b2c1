// Package idemhttp runs an HTTP handler once per Idempotency-Key. It is
// middleware for net/http, and for every framework that takes such middleware:
//
//	once, err := idemhttp.Middleware(claims, idemhttp.Config{
//		Operation: "pay",
//		Principal: func(r *http.Request) string { return account(r) },
//	})
//	mux.Handle("/pay", once(payHandler))
//
// Inside the handler, saga.DownstreamKey(r.Context()) is the key to send on.
// [New] is the same around a function that makes the response itself, for
// proxies.
//
// # The contract
//
//	request                                   answer
//	GET, HEAD and whatever Methods lacks      passes through untouched, or 405
//	key missing, twice, malformed, too long   400, nothing was done
//	body larger than MaxBody                  413, nothing was done
//	no room for it in Config.Limit            503 busy with Retry-After, nothing was done
//	first with its key                        the handler's response
//	the same again, when that is finished     the stored response, byte for byte, with
//	                                          Idempotency-Replayed: true
//	the same again, while that is running     waits; after Config.Wait 409 in_flight with
//	                                          Retry-After
//	another request under the same key        422, also while the first is running
//	the same again, outcome unknown           settled by Check or KeyValidFor, or 409
//	                                          outcome_unknown; what Check found is marked
//	                                          as a replay too
//
// Every answer to a request that may have had its effect, of whatever status, has
// the header Idempotency-Outcome: unknown; the first caller's too, who gets what the
// handler said. What a person has decided is replayed with the status that the
// person gave ([ResultOf]); without one 200 or 204 for done, and 422 for refused.
//
// The same request means: the same method, path with query, headers of
// FingerprintHeaders, and raw body. JSON that differs in spacing or in the order
// of its fields is another request. A key is quoted or bare; both are one key.
// It belongs to the principal and the operation: the same key of another
// principal, or sent to another operation, is another key.
//
// # What becomes of a response
//
// Its status decides ([ClassOf] or Config.Classify): done and refused are stored
// and replayed. Not done, such as 429, frees the key; the response is passed on, also
// to equal requests that wait for this one: each of them would else be sent to a
// callee that has just asked for a pause. They hear Retry-After, of a second when the
// response has none. Who comes later is sent.
// Unknown, such as 500 or a redirect, is passed on to the caller whose request it answers, and
// the key stays taken. A panic is unknown. A handler that fails before it has
// begun its effect says so with [NotDone] and [Begun]; then nothing is stored.
//
// Stored are the status, the body, the trailers, and the headers without those
// of the connection, Date, Content-Length (made anew), Set-Cookie (a credential
// with a life of its own) and Config.DropHeaders. Of a body above MaxResponse
// only the rest is stored: the first caller gets it in full, and replays get the
// same status with a problem result_too_large in its place, since a failure
// status would make clients pay again. Informational responses (1xx) of a
// guarded handler are dropped: nothing leaves before its commit.
//
// # What is guaranteed
//
//   - The handler runs for one request of a key at a time, and not again while an
//     earlier run may have had its effect, except as Check and KeyValidFor allow.
//   - A response that says done or refused is durable before its first byte is
//     sent.
//   - A handler that has begun is finished and its outcome stored although the
//     client has gone.
//
// # What is not
//
//   - Streaming: request and response are held in memory, up to MaxBody and as
//     much as the handler writes. Config.Limit bounds the sum over all requests.
//   - Anything after the retention of claims: the key is then new.
//
// # What survives a crash
//
// Every answer that was given. A request under way is unknown after the start.
//
// # What the caller must do
//
// Authenticate before: Principal is believed. Take an account for the principal,
// not a token, so that it survives the rotation of tokens. Keep the Operation's
// name; another name forgets the keys. Bound the time in which a body arrives.
package idemhttp
