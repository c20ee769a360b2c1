// Package user uses sum.
package user

import "fixture/sum"

// Twice doubles.
func Twice(a int) int { return sum.Sum(a, a) }
