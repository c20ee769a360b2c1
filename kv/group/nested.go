package group

import (
	"runtime"
	"slices"
	"sync/atomic"
)

// running counts the closures that run now, of all stores, for inside a closure
// of one there is no transaction of another either. While there is none, nobody
// needs to look at a stack, which costs more than many a read.
var running atomic.Int64

// callClosure runs the closure of a transaction.
func callClosure(fn func() error) error {
	running.Add(1)
	defer running.Add(-1)
	return marked(fn)
}

// marked calls fn. Its frame marks the goroutine's stack, which is how a
// transaction opened inside another is seen; it must not be inlined, and must
// hold exactly one call.
//
//go:noinline
func marked(fn func() error) error { return fn() }

// closurePC is the return address into marked.
var closurePC = func() (pc uintptr) {
	_ = marked(func() error {
		var pcs [1]uintptr
		runtime.Callers(2, pcs[:]) // 0 is Callers, 1 this function
		pc = pcs[0]
		return nil
	})
	return pc
}()

// inClosure reports whether the calling goroutine is inside the closure of a
// transaction, of any store. It costs nothing while no closure runs, and else up
// to a few µs, by the depth of the stack.
func inClosure() bool {
	if running.Load() == 0 {
		return false
	}
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
