// Package api is the HTTP face of onced: the claims API for owners elsewhere,
// sagas (definitions, runs, callbacks), the tokens, health, the pages of problems
// and the OpenAPI document. Everything else goes raw to a fallback handler, which is
// the idempotent proxy.
//
// # The order of things
//
// Each request passes, from the outside in:
//
//  1. the request id: taken from Request-Id when well-formed, else made; in the
//     answer before anything else can fail, and in every log line and problem
//  2. the access log and the observer: one line and one call per request, also
//     when what follows panics
//  3. the net under panics: a problem with status 500, or, when the answer has
//     begun, a cut connection
//  4. the guard of paths: our names reach the API or nobody, see below
//  5. raw requests leave here for the fallback; the rest has security headers
//  6. the route, with 404 and 405
//  7. the token and its permission; nothing of a body has been read yet
//  8. the query: unknown and doubled parameters are refused
//  9. the body: limits of size and time, content type, strict JSON
//
// # What is guaranteed
//
//   - The API lives under /v1, /livez, /readyz, /metrics, /problems and
//     /openapi.yaml, spelled exactly so. A path that any reader on the way could
//     take for one of these (by case, escapes, dot segments, doubled slashes,
//     backslashes or path parameters) and that is not in its plain form is
//     refused. It reaches neither the API nor the fallback.
//   - Paths with dot segments, backslashes or control characters, escaped or
//     not, are refused everywhere.
//   - Every error is a problem of the package problem. Unknown causes are logged
//     and not shown.
//   - A call on a claim that is repeated with the same token after a lost answer
//     gets the same outcome.
//   - The claims and runs of another principal are answered as if they did not exist.
//     A run belongs to the principal whose token started it, and the business key is
//     that principal's: two principals with one key have two runs, with other keys
//     downstream.
//   - A start that is repeated with its key gets the same run, also when its
//     definition has changed meanwhile.
//   - A callback is acknowledged when it is stored, and not before. A token that is
//     not ours is told apart at the end of one computation, the same for all, and no
//     byte of its body is read.
//   - No token, also of callbacks, no body and no query value is logged.
//
// # What is not
//
// The fallback authenticates its own requests, and sets its own limits. A path
// that is neither ours nor suspicious is given to it as it came.
//
// # What survives a crash
//
// What kv/claim, saga and auth say. This package keeps no state but two keys in the
// store: with them cursors and callback URLs survive, see [CursorKey] and
// [CallbackKey].
//
// # What the caller must do
//
// Serve it by a server that bounds the size of headers and the time they take:
// that is over before a handler is asked. Put the process's one claim.Book and auth.Service into
// [Deps], and its one saga.Engine into [Sagas]. Give callees the URLs of the same
// [Callbacks].
package api
