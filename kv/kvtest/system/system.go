// Package system is for tests that need a part of the system beside Go, such
// as strace, or the rights to mount a small file system.
//
// Such a test says so with [Need]. It guarantees that the test then runs or
// fails: what is missing is a failure that names the remedy, never a silent
// skip. A developer who cannot have the part says so with the variable [OptOut],
// and every test left out is then printed. The package keeps nothing.
package system

import (
	"os"
	"os/exec"
	"testing"
)

// OptOut is the variable that leaves out the tests that need more than Go, when
// it is set to 1. CI must not set it.
const OptOut = "ONCED_SKIP_SYSTEM"

// Need ends the test when a program is not found on PATH: as failed, or, when
// the developer opted out, as skipped.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	if os.Getenv(OptOut) == "1" {
		t.Skipf("left out by %s=1: needs %q", OptOut, programs)
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Fatalf("%v: install it (on Debian make test does), or leave such tests out: %s=1", err, OptOut)
		}
	}
}

// NeedRoot is Need for tests that only root can run, for example with mount.
func NeedRoot(t testing.TB, programs ...string) {
	t.Helper()
	Need(t, programs...)
	if os.Geteuid() != 0 {
		t.Fatalf("must run as root; run it so, or leave such tests out with %s=1", OptOut)
	}
}
