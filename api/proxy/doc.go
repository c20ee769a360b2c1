// Package proxy is the idempotent reverse proxy: it sends requests of configured
// routes on to their upstreams, and those with an Idempotency-Key once per key.
// What a client hears, and what is stored, is the contract of saga/idemhttp.
//
// # What is guaranteed
//
//   - Of one key, one request at a time is sent, and never again while an earlier
//     one may have had its effect, except as the route's check and repeatable
//     allow. Every try carries the same derived key in the route's
//     upstream_key_header; the client's own key is not sent on.
//   - The keys of routes have scopes of their own (claim.RouteScopeOf). A client's
//     token that claims keys over the API reaches none of them.
//   - Nothing below sends a request again, as the transport of net/http would one that
//     carries an Idempotency-Key when a reused connection breaks: see package sendonce.
//   - A request of which no byte was handed to a connection (the name did not
//     resolve, the connection was refused, TLS failed, a reused connection was
//     dead) definitely did not happen: 502 or 504, and the key is free. Once a
//     byte was handed over, every failure is unknown, the time limit too. Answers
//     that break off, that are no HTTP, and that switch protocols are unknown.
//   - A route without check and repeatable gets a new connection per guarded
//     request: an upstream that closes a reused one at that moment would leave an
//     outcome that nobody can tell.
//   - Redirects are passed to the client and never followed, in look-ups neither.
//     There is no proxy from the environment.
//   - Methods are those of the route, and with others: pass GET, HEAD and OPTIONS.
//     Every other one is refused with 405, TRACE and CONNECT always, and so is a
//     method in other letters, such as "post", which an upstream may take for POST.
//   - An answer to a request that may have had its effect has the header
//     Idempotency-Outcome: unknown, also when it is the upstream's own.
//   - 401 and 407 of an upstream that complain of the route's credentials are no
//     answer for a client: it gets 502 upstream_credentials, the key is free, an
//     error is logged and counted. Only where the client's own Authorization is
//     passed on is 401 passed on too.
//   - Dot segments, doubled slashes, backslashes, control characters, also behind
//     escapes, are refused with 400, and so is a path that a lenient upstream would
//     take for one of another route: one with path parameters or a slash at its
//     end. Routes are chosen by the path with its escapes undone; what is sent on
//     are its bytes as they came.
//   - Headers that the client could use to speak for us are replaced or removed:
//     those of its connection, X-Forwarded-*, Forwarded, X-Real-Ip, spellings of the
//     key's header with underscores, and Authorization where it holds onced's token.
//
// # What is not
//
//   - Guarded requests and their answers are held in memory, the answer up to
//     max_response and as long as Config.Limit has room. Of a longer one the first
//     client gets everything, and replays get the same status with a problem
//     result_too_large. Trailers of guarded
//     requests are dropped, those of answers are kept.
//   - Informational answers (1xx) of guarded requests are dropped. Those of requests
//     that pass through are passed on.
//   - Upgrades: only routes with key: ignore pass on WebSockets; all other upgrades
//     are refused with 400, for what goes through a tunnel cannot be guarded.
//   - The upstream is spoken to in HTTP/1.1.
//   - For requests that pass through, timeout bounds the time until the answer
//     begins; the body may stream for as long as the client stays.
//   - Upstreams that ignore case in paths: give them no two routes that differ only
//     in what they guard.
//
// # What survives a crash
//
// What idemhttp says. A request that was under way is unknown; the next one with
// its key looks it up, sends the same derived key again, or waits for a person,
// as the route says.
//
// # What the caller must do
//
// Serve it behind the limits of package api. Give it the routes as package config
// has checked them. After a reload, use a new Proxy with the same Config.Unsaved, and
// Close the old one.
package proxy
