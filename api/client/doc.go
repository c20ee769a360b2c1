// Package client talks to the HTTP API of onced: claims, tokens and health.
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
// nothing is known of the call: repeat it with the same owner's token, or, of
// acts on tokens, look first.
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
// lease. A Client is safe for concurrent use.
package client
