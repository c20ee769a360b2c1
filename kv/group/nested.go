package group

import (
	"runtime"
	"slices"
)

// callClosure runs the closure of a transaction. Its frame marks the
// goroutine's stack, which is how a transaction opened inside another is seen;
// it must not be inlined, and must hold exactly one call.
//
//go:noinline
func callClosure(fn func() error) error { return fn() }

// closurePC is the return address into callClosure.
var closurePC = func() (pc uintptr) {
	_ = callClosure(func() error {
		var pcs [1]uintptr
		runtime.Callers(2, pcs[:]) // 0 is Callers, 1 this function
		pc = pcs[0]
		return nil
	})
	return pc
}()

// inClosure reports whether the calling goroutine is inside the closure of a
// transaction, of any store. It costs about 0.1 to 0.5 µs.
func inClosure() bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		if slices.Contains(pcs[:n], closurePC) {
			return true
		}
		if n < len(pcs) {
			return false
		}
	}
}
