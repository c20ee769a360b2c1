// Package httpstep makes a step of a saga out of an HTTP call: it sends one request
// and says by the reply what became of the effect.
//
//	caller, err := httpstep.New(httpstep.Config{Client: client})
//	reply, err := caller.Do(ctx, &httpstep.Request{
//		Method: "POST", URL: "https://gateway.example/charges", Body: body,
//		Key: saga.DownstreamKey(ctx), Trust: egress.Trusted, Resend: true,
//	})
//
// A step's function returns err as it is: it carries the mark that package saga
// reads. A look-up uses [Caller.Ask], which gives every reply that is whole, and
// reads it itself.
//
// # What a status means
//
//	2xx but 202                               done
//	202, 409, 425                             unfinished: it may happen; ask again
//	401, 407                                  retry: it did not happen. Our credentials
//	                                          are wrong; Config.Alarm is told, and when
//	                                          the tries are used up the run is held and
//	                                          not undone, see saga.Blocked
//	429                                       retry: it did not happen; ask again
//	400, 402-405, 410, 411, 413-415, 422,
//	431, 451                                  refused: it will never happen
//	408, 5xx, 3xx, 1xx, all else              unknown: it may have happened
//
// A step can have lists of its own, see [Outcomes]. For a step that waits for a
// signal 202 is done, see [AwaitOutcomes]: the callee has taken it on. Unfinished is
// unknown with a hint when to ask again: by a look-up, or by sending the same key
// again, if the step says that one of them may be done. 429 is not among them though it
// might be: it is the answer of a limiter that stands before the work, and taking it
// for unknown would hold every order of a busy hour whose step has neither look-up nor
// honoured keys. Where a callee answers so after the work has begun, put 429 into the
// list unfinished. A callee that answers 409
// for "this cannot be" and not for "another request with this key is at work" should
// have 409 in the list refused.
//
// Retry-After, in seconds or as a date, is kept up to [MaxRetryAfter] also beside
// statuses that leave the effect unknown.
//
// # What happens without a reply
//
//	the name does not resolve, the address is refused
//	by the guard or by the host, no connection in time,
//	TLS fails                                            retry: it did not happen
//	the request is none, or TLS does not take our
//	certificate                                          the same, as for 401
//	a time-out or a broken connection after the first
//	byte was handed over, an answer that is no HTTP, a
//	body that breaks off                                 unknown
//
// # What is guaranteed
//
//   - The callee gets the request once, or, with Request.Resend, perhaps more than
//     once but then byte for byte the same with the same key. See package egress.
//   - Every try sends the same bytes for the same Request, traceparent aside.
//   - At most MaxReply bytes of a reply's body are kept. A longer one still has the
//     meaning of its status; Reply.Truncated says so.
//   - An error's text has the method, the host, the status and a bounded piece of the
//     reply, for the history of a run. Whatever of it is in Request.Secrets, or is the
//     value of a header that carries credentials, is replaced by "***", with the escapes
//     of JSON, HTML and URLs in it too: see package redact. Path, query, headers and body
//     of the request are never in it.
//
// # What is not
//
//   - That a callee honours the key, or answers truthfully.
//   - Redirects are not followed; a 3xx is unknown.
//   - Reply.Body and Reply.Header are what the callee sent, secrets that it repeats
//     included. [Reply.Excerpt] is safe to show.
//
// # What survives a crash
//
// Nothing is kept here; the engine of package saga keeps intents and outcomes.
//
// # What the caller must do
//
// Give the request a key that is derived, never random. Set Resend only where the
// callee honours the key, or nothing is changed; set Fresh where nothing can settle
// an outcome that is unknown. Put every secret that the request carries outside of
// credential headers into Secrets. Check a URL, a method and the names of headers
// when a definition is loaded: [CheckMethod], [CheckHeader], egress.Client.Check.
package httpstep
