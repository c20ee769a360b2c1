// Package definition makes sagas of documents: YAML or JSON that names the HTTP calls
// of each step, its undo, its look-up and the signal that it waits for.
//
//	doc, problems := definition.Parse(src, definition.Options{File: "checkout.yaml"})
//	if len(problems) > 0 { … } // all of them, each with line, column, field and remedy
//
//	book, err := definition.NewBook(store, definition.BookConfig{Engine: engine, Deps: deps})
//	report, err := book.Load(ctx)                       // before Engine.Serve
//	stored, created, err := book.Put(ctx, src, definition.FromAPI)
//	err = book.Prepare(&req)                            // checks the input, adds labels
//	started, err := engine.StartRun(ctx, req)
//
// # A document
//
//	name: checkout            # stable: part of the keys that callees get
//	title: Checkout           # for people
//	version: "7"              # optional: without it a Book numbers the versions
//	deadline: 1h              # then a run is undone
//	input: {order: string, amount: decimal, note: string?}
//	labels: {order: "${input.order}"}
//	steps:
//	- name: charge
//	  call:                   # one HTTP call
//	    method: POST          # POST (default), PUT, PATCH, DELETE, GET
//	    url: https://pay.example/charges/${input.order}
//	    query: {shop: 7}
//	    headers: {Authorization: "Bearer ${secrets.pay}"}
//	    body: {amount: "${input.amount}", tell: "${callback_url}"}  # JSON; or form: {…}
//	    key_header: X-Request-Id   # instead of Idempotency-Key
//	    timeout: 10s          # of this call; 30s, and 10s of a look-up, when not said
//	    outcomes: {done: 2xx, refused: [409, 422], retry: 429, unfinished: 202, unknown: 404}
//	    refused_if: "${reply.body.status == 'declined'}"   # and retry_if, unfinished_if
//	  output: {id: "${reply.body.id}"}    # default: the JSON of the body, see below
//	  await:                  # a signal finishes the step
//	    for: 30m              # without it a lost signal is waited for without an end
//	    done: "${signal.body.status == 'succeeded'}"
//	    refused: "${signal.body.status == 'failed'}"
//	    output: {id: "${signal.body.id}"}  # default: the whole body
//	    at: "${signal.body.time}"          # when it happened: RFC 3339 or seconds. It can prove that a
//	                                       # success came after its undo, so leave it out when the
//	                                       # callee's clock is not to be trusted.
//	  undo: {url: …, body: {charge: "${output.id}"}}      # as call
//	  check:                  # a look-up: as call without key and outcomes, GET by default
//	    url: https://pay.example/charges?key=${key}
//	    done: "${reply.status == 200 && reply.body.data != []}"
//	    refused: …
//	    absent: "${reply.status == 404}"
//	    output: {id: "${reply.body.data[0].id}"}          # needed where the step has one
//	  repeatable: 24h         # the callee honours the key for so long; true is 24h
//	  settles_after: 1m       # 5m by default: how long after its send a call can take effect
//	  undo_when_absent: safe  # in doubt it is undone, settles_after after its last send
//	  undo_key_valid_for: 24h # 0s: the callee of the undo knows no keys, never send it twice
//	  retry: {attempts: 5, first: 1s, most: 10m, undo_attempts: 12}
//	- name: order
//	  call: {url: …}
//	  pivot: true             # or irreversible: true, or nothing_to_undo: true
//
// JSON of the same shape is as good. Anchors, merge keys and tags of YAML are refused.
// Types of the input are string, int, decimal (a number, or a text such as "12.50"),
// bool, object, list and any; with a ? the field may be missing.
//
// # Expressions
//
// A text may hold ${…}; one that is wholly one expression keeps the type of its value,
// and $${ stands for ${ itself. The language is that of github.com/expr-lang/expr in a
// part of it, with values of our own:
//
//   - Names: input, steps.<name>.output (one value however the step ended: by its
//     reply, its signal, its look-up or a person; so await.output and check.output have
//     the same fields), steps.<name>.signal (what came with a signal, if one came),
//     output (in an undo, that of its own step), reply.status, reply.headers.<name>, reply.body, reply.text,
//     signal.body, secrets.<name>, run.id, run.key, run.round, run.definition,
//     run.version, key, action_key (what an undo or a look-up is about), callback_url.
//     Where a name has no meaning it is a problem of the document.
//   - Operators: + - * == != < <= > >= && || ! and or not in contains startsWith
//     endsWith matches ?: ?? and [ ] { } for lists and objects. There is no /:
//     its result may not be exact; div(x, y, 2) has 2 digits behind the point.
//   - Functions: len lower upper trim split join base64 string decimal number sum min
//     max round div, and filter map all any none one count find with a predicate:
//     .sku == 'x'. decimal makes a number that is written as text, number one that is
//     not. round(x, 2) and div(x, y, 2) have exactly so many digits behind the point, from
//     0 to 20, and round a half away from zero.
//   - Numbers are exact decimals; what is only passed on keeps its text.
//   - A field that is missing is nil, also below one that is missing. A value that is
//     nil where one is needed is an error, unless nil is written as a result: x ?? nil
//     is null in a body, and left out in a query, a header and a form.
//
// # What goes wrong, and what it means
//
//	before the send: a secret is missing or cannot be    not done; tried again, then the
//	in a header, an address is not allowed               run is held, and not undone
//	before the send: all else, such as a value that is   refused at once: no try and nobody
//	missing, a header that would break its line, ..      can change what the run is about
//	in a path, a URL, header or body that is too long
//	the callee does not take our credentials (401, 407)  not done, and an alarm; tried again,
//	                                                     then held, and not undone
//	a 2xx cannot be read: refused_if and its like        unknown: looked up, sent again
//	or output reads what is not there, the body is no    under the same key, or held
//	JSON or too long
//	another status whose body refused_if and its like    what the status means
//	cannot read
//	the default output: the body is no JSON, or no part  done, with no output
//	of it is read and it is larger than 32 KiB
//	the default output: a part is read, and the body is  unknown, as above: say output:
//	too long to be read or nested too deep
//	a look-up that is not answered (3xx, 401, 407, 408,  it tells nothing: asked again,
//	425, 429, 5xx), that none or two of done, refused    then held
//	and absent claim, or that cannot be read
//	an undo that cannot be rendered                      stuck at once; for a secret that
//	                                                     is missing it is tried again first
//
// # What is guaranteed
//
//   - A document that Parse accepts compiles, and its runs do not fail for what could be
//     read off the document: unknown names, steps that come later, values of a wrong
//     type, a missing undo.
//   - Rendering is deterministic. Every try of one call sends the same method, URL,
//     headers and body, the values of secrets aside. No clock, no randomness and no
//     order of a map reaches it. Numbers keep their text; no float is involved.
//   - Expressions reach neither scheme, host nor port of a URL, no name of a header or
//     of a query, and cannot end a path segment, a query value or a header's line.
//   - Secrets are looked up when a call is rendered. They are not stored. Where a reply
//     or the body of a callback gives one back it is taken out before anything is read or
//     kept, in all the ways to write it that package redact knows: each secret that the
//     document names, whichever call sent it, and the callback URLs of all its steps and
//     their tokens. Texts of less than 4 bytes are left.
//   - Without output, the JSON of a body of at most 32 KiB is kept whole, and of a larger
//     one, up to 256 KiB, those parts that the undo and later steps read.
//   - JSON that is read or kept is UTF-8 and nested no deeper than 100.
//   - The work of expressions is bounded, with the length of texts and the size of
//     patterns counted, and ends with the time of the call. What is not rendered in time
//     is "not done".
//   - Where an outcome is unknown and the callee knows keys, a Retry-After is cut to half
//     of the time for which it knows the key, then to a quarter, and so on: the next try
//     is made within it.
//   - What goes wrong before a call is sent is "not done"; what goes wrong while its
//     reply is read is "unknown", never "not done".
//   - A run keeps to the version of its document. Versions are never changed and never
//     removed.
//
// # What is not
//
// That a secret is found which was changed by a reload between two calls of a run, or
// that a callee repeats in part or in base64, or that comes by a signal of a client and
// not by a callback.
//
// That a callee does what its reply says, that a reading of a reply (refused_if, check)
// is right, or that a document does what its author meant.
//
// # What survives a crash
//
// Every document that Put has returned, with its version, origin and time. The next
// start loads them all again, see [Book.Load].
//
// # What the caller must do
//
// Use one Book per store and process, call Load before Engine.Serve, and Prepare every
// start of a run. Say truly where a document comes from: [FromFile] is trusted and may
// call private addresses, [FromAPI] is not.
package definition
