// Package problem is the one form of every error that onced answers over HTTP:
// RFC 9457 problem details with a stable code.
//
// # What is guaranteed
//
//   - The set of codes is closed: [Catalogue] lists each with its status, title
//     and remedy, and [Page] serves a page for each. A title never changes under
//     its code.
//   - Retry-After and retry_after_s always say the same.
//   - [From] never lets the text of an error out that it does not know: such an
//     error becomes [Internal], and its text is for the log only.
//
// # What is not
//
// The detail is for people and may change. Programs branch on the code.
//
// # What the caller must do
//
// Log the cause of an [Internal] problem with the request id, and put the
// request's id into the context with [WithRequestID]. The package keeps no
// state, so nothing of it survives or gets lost in a crash.
//
// It knows net/http and no framework, so that every handler can use it.
package problem
