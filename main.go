// Command onced makes money movement happen exactly once: it keeps idempotency
// keys and stands in front of services that must not be called twice. See
// "onced help".
//
// The program is a shell around package api/cli, which tests call in process;
// what is guaranteed, and what survives a crash, is said there and in the
// packages below.
package main

import (
	"context"
	"os"

	"onced/api/cli"
)

func main() { os.Exit(cli.Main(context.Background(), cli.OS())) }
