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
//   - Secrets are looked up when a call is rendered. They are not stored, and where a
//     reply gives one back it is taken out before anything is kept.
//   - What goes wrong before a call is sent is "not done"; what goes wrong while its
//     reply is read is "unknown", never "not done".
//   - A run keeps to the version of its document. Versions are never changed and never
//     removed.
//
// # What is not
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
