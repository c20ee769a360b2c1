// Package client talks to the HTTP API of onced: claims, sagas, tokens and health.
//
// # What is guaranteed
//
//   - An answer of the API that is an error is a [problem.Problem], to be found by
//     errors.As, with its stable code. Any other answer is a [StatusError].
//   - The token goes into the Authorization header of the configured server and
//     nowhere else: redirects are not followed, and the environment's proxy is not
//     used.
//   - Answers are bounded in size.
//
// # What is not
//
// The client repeats nothing. An error that is neither of the two means that
// nothing is known of the call: repeat it with the same owner's token, or for a run
// with the same key, or, of acts on tokens and runs, look first.
//
// # What survives a crash
//
// The client keeps nothing. An owner keeps its token and the claim's id until it
// has reported the outcome.
//
// # What the caller must do
//
// Follow the protocol of kv/claim: after "acquired", cause the effect once with
// the downstream key and report done, refused, release or unknown; after
// "took_over", first find out what became of the earlier tries. Beat within each
// lease. Start a run with a key that is derived from the intent, such as an order's id,
// and start it again with the same key until there is an answer. A Client is safe for
// concurrent use.
package client
