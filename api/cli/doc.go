// Package cli is the command line of onced. [Main] runs one command in process
// and returns its exit code; nothing but [OS] looks at the process around it.
//
// # What is guaranteed
//
//   - What a command answers goes to stdout and is all that goes there; messages
//     go to stderr. --output json and ndjson have the shapes of the API.
//   - Exit codes: 0 done, 1 it failed, 2 the command line or the configuration
//     is wrong, 3 the store is in use by another process or was written by a
//     newer version, 4 a check found problems. A supervisor should not restart
//     after 2 and 3.
//   - An error says what happened, why, and what to try, in three lines.
//   - The first SIGINT or SIGTERM ends a command in order, the second at once.
//     SIGHUP makes serve read its configuration again.
//
// # What survives a crash
//
// The commands keep no state of their own; see packages app and boltkv.
//
// # What the caller must do
//
// Pass an [Env]; a token is read from ONCED_TOKEN or a file, and never from an
// argument, which every process could see.
//
// # Why there is no library for it
//
// The flags of the configuration come from its schema and hold points, errors
// have a form of their own, and completion asks the same table of commands. On
// top of the standard library's flag values that is a few hundred lines here.
package cli
