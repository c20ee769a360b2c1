package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestChargeOnce builds the program and runs it, as its readers do.
func TestChargeOnce(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "chargeonce")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = `100 calls race to charge order-1.
The gateway has charged 1 time. The shop was killed before it heard of it.
The shop starts again, and 100 calls race to charge order-1.
100 calls got ch_1 (error: <nil>)
The gateway's ledger: 1 charge.
`
	if string(out) != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
}
