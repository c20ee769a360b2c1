// Package sum is made wrong on purpose by the tests of package mutant.
package sum

// Sum adds.
func Sum(a, b int) int { return a + b }

func hang(int) int { select {} }
