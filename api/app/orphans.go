package app

import (
	"context"
	"slices"
	"strings"

	"onced/api"
	"onced/api/config"
	"onced/kv/claim"
)

// maxOrphanPages bounds how many pages of open claims are looked through.
const maxOrphanPages = 40

// warnOrphans tells of claims that wait for their outcome and belong to a route
// that the configuration does not have: their route was renamed, or its path was
// changed from which the name was made, and a request that is repeated is a new
// one to whatever route gets it now.
func (a *App) warnOrphans(ctx context.Context, c *config.Config) {
	var names []string
	counts := map[string]int{}
	q := claim.Query{Limit: claim.MaxPage}
	for range maxOrphanPages {
		page, err := a.parts.book.ListOpen(ctx, q)
		if err != nil {
			if ctx.Err() == nil {
				a.o.Logger.WarnContext(ctx, "the open claims could not be compared with the routes",
					"err", err)
			}
			return
		}
		for _, one := range page.Claims {
			name, ok := api.RouteOf(one.ID)
			if !ok || slices.ContainsFunc(c.Routes, func(r config.Route) bool { return r.Name == name }) {
				continue
			}
			if counts[name]++; counts[name] == 1 {
				names = append(names, name)
			}
		}
		if q.Position = page.Next; q.Position == "" {
			break
		}
	}
	slices.SortFunc(names, strings.Compare)
	for _, name := range names {
		a.o.Logger.ErrorContext(ctx, "claims without an outcome belong to a route that the configuration "+
			"does not have; a repeated request is not held against them and may be charged again",
			"route", name, "claims", counts[name],
			"remedy", "add name: "+name+" to the route that its requests take now, or resolve the claims: "+
				"onced claim list --operation="+name)
	}
}
