// Package auth keeps the tokens by which callers of the API prove who they are,
// and says what each role may do.
//
// A token is the prefix "onced_" and 256 random bits. It is shown once, when it
// is made; the store holds its SHA-256 only, so a copy of the store lets nobody
// in. A token has a name for people, a role, and a principal: the account whose
// claims it works on, which stays when the token is rotated.
//
// # What is guaranteed
//
//   - A revoked token is refused from the moment that [Service.Revoke] returns,
//     and an expired one from its instant on, although look-ups are cached.
//   - Making, rotating and revoking a token commit together with a notification
//     operator.token.*, which names the actor and never holds the secret.
//   - Every reason to refuse a token looks the same from outside.
//   - A live token is let in from everywhere, at once and always: nobody can lock
//     out others by failing from their address.
//   - A guess costs one read of one row, and an address that failed too often is
//     told to wait until its window has passed; memory for this is bounded.
//
// # What is not
//
// The counter of failures is a brake and no wall: who has many addresses has
// many attempts. What makes guessing hopeless are the 256 bits.
//
// # What survives a crash
//
// Every change that was acknowledged. The counters of failures and the cache do
// not, and need not. When making or rotating a token ends in
// kv.ErrCommitUnknown, a token may exist whose secret nobody has seen: list the
// tokens and revoke it. The first token is safe from this; see
// [Service.Bootstrap].
//
// # What the caller must do
//
// Take tokens from the Authorization header only ([Bearer]), never from a URL,
// and keep them out of logs. Use one Service per store and process: it would not
// notice what another one revokes until its cached look-up is a minute old.
package auth
