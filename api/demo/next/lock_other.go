//go:build !unix

package demo

import "os"

// lockFile takes no lock: the port keeps a second demo out, mostly.
func lockFile(*os.File) error { return nil }
