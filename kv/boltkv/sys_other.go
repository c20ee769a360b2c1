//go:build !linux

package boltkv

import "errors"

// freeSpace is not known here; the free-space mark then never refuses.
func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }

// lockHolder is not known here.
func lockHolder(string) string { return "" }
