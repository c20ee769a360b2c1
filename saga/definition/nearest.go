package definition

import (
	"slices"
	"strings"
)

// didYouMean proposes the name that was most likely meant, or is empty.
func didYouMean(written string, names []string) string {
	if best := nearest(written, names); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// maxNames is how many names are looked at to find the one that was meant.
const maxNames = 500

// nearest returns the name that differs least from what was written, or "" when none
// is near.
func nearest(written string, names []string) string {
	best, least := "", max(2, len(written)/3)+1
	names = names[:min(len(names), maxNames)]
	for _, name := range names {
		if len(written) > 1 && strings.HasPrefix(name, written) {
			return name
		}
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if off := len(written) - len(name); off >= least || -off >= least {
			continue
		}
		if d := distance(written, name); d < least && d < max(len(written), len(name)) {
			best, least = name, d
		}
	}
	return best
}

// distance counts the letters to add, take away, change or swap with their neighbour.
func distance(a, b string) int {
	const most = 64 // a long name is not a short one that was mistyped
	if len(a) > most || len(b) > most {
		return most
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
