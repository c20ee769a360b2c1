//go:build !linux

package boltkv

// linuxChildren is empty here.
var linuxChildren map[string]func(path string) error
