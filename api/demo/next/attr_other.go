//go:build !linux

package demo

import "syscall"

// childAttr adds nothing: the child ends when its stdin is closed.
func childAttr() *syscall.SysProcAttr { return nil }
