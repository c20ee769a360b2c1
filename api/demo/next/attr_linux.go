package demo

import "syscall"

// childAttr lets the kernel end the child with its parent, if closing its stdin
// did not.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
