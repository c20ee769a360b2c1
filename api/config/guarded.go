package config

import "fmt"

// ResponseRoom is what http.max_guarded_bytes counts for the answer to each request
// at first.
const ResponseRoom Bytes = 64 << 10

// guarded checks that the largest request that may come would be let in.
func (l *loader) guarded(c *Config) {
	for i := range c.Routes {
		r, where := &c.Routes[i], "http.max_body"
		body := c.HTTP.MaxBody
		if r.MaxBody != 0 {
			body, where = r.MaxBody, fmt.Sprintf("routes[%d].max_body", i)
		}
		if r.Key == "ignore" || body+ResponseRoom <= c.HTTP.MaxGuardedBytes {
			continue
		}
		l.wrong("http.max_guarded_bytes", Problem{Value: c.HTTP.MaxGuardedBytes.String(),
			Text: fmt.Sprintf("has no room for one request of %s, which is %s, and %s for its answer",
				where, body, ResponseRoom), Remedy: "raise it, or shorten " + where})
		return
	}
}
