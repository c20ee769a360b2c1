// Package book keeps the ledgers of the demo's services: files of lines, one for
// each service, that say what the service did and took back.
//
// # What is guaranteed
//
// An entry that was added is on the disk, and only then seen by anybody. A last
// line that was torn by a crash was never acknowledged, and is cut off.
//
// # What is not
//
// A ledger judges nothing: it takes the second charge like the first. That is what
// package proof is for.
//
// # What survives a crash
//
// Every entry whose Add returned nil.
//
// # What the caller must do
//
// Have one process at a time write a ledger. Everything here is safe for concurrent
// use.
package book
