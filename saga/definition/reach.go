package definition

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"onced/saga/egress"
)

// CheckURLs asks about every URL of the document whether it may be called from that
// origin; expressions in them are replaced. Use [egress.Client.Check] for ok. What holds
// for a host as a whole is told once, where it comes first.
func (d *Document) CheckURLs(o Origin, ok func(*url.URL, egress.Trust) error) Problems {
	var problems Problems
	at := map[string]int{} // host and message → the problem
	more := map[int]int{}
	urls := slices.Clone(d.urls)
	slices.SortStableFunc(urls, func(a, b urlAt) int { return cmp.Or(a.line-b.line, a.col-b.col) })
	for _, u := range urls {
		parsed, err := url.Parse(u.url)
		if err == nil {
			err = ok(parsed, o.trust())
		}
		if err == nil {
			continue
		}
		message := err.Error()
		if blocked, is := errors.AsType[*egress.BlockedError](err); is && parsed != nil {
			message = fmt.Sprintf("calls %[1]s, which is not a public address (%[2]s): add %[1]s to "+
				"sagas.allow_hosts in onced.yaml, or name the file in sagas.definitions", parsed.Host,
				blocked.What)
			if first, told := at[message]; told {
				more[first]++
				continue
			}
			at[message] = len(problems)
		}
		problems = append(problems, Problem{File: d.file, Line: u.line, Column: u.col, Field: u.field,
			Message: message})
	}
	for i, n := range more {
		problems[i].Message += fmt.Sprintf(" (so do %d calls more)", n)
	}
	return problems.sorted()
}
