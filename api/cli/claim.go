package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"

	"onced/api/client"
)

func claimCommands() *command {
	return &command{
		name: "claim", summary: "look at idempotency keys, and decide about those whose outcome is unknown",
		sub: []*command{
			{
				name: "list", summary: "list claims, by default those without an outcome", run: claimList,
				flags: func(f *flags) {
					f.addRemote()
					f.values["state"] = []string{"open", "pending", "unknown", "done", "refused", "all"}
					f.String("state", "open", "`STATE`: open, pending, unknown, done, refused or all")
					f.String("operation", "", "only of this `NAME`")
					f.String("principal", "", "only of this `ACCOUNT`")
					f.Int("limit", 100, "the most that are shown; 0 shows all")
				},
			},
			{
				name: "show", args: "ID", least: 1, most: 1, summary: "show one claim", run: claimShow,
				flags: (*flags).addRemote,
			},
			{
				name: "resolve", args: "ID", least: 1, most: 1,
				summary: "decide about a claim whose outcome is unknown",
				help: "Find out at the callee first. The verdict is final, and kept with name and reason:\n" +
					"  done     it happened; whoever repeats the request gets --result\n" +
					"  refused  it did not happen and will not; whoever repeats the request gets --result\n" +
					"  free     it did not happen; the next request with the key will do it\n" +
					"For the request of a route, --status, --content-type and --result are the\n" +
					"response that is repeated; without --status it is 200, or 204 without a result,\n" +
					"and for refused 422.",
				run: claimResolve, flags: func(f *flags) {
					f.addRemote()
					f.values["verdict"] = []string{"done", "refused", "free"}
					f.String("verdict", "", "done, refused or free")
					f.String("reason", "", "`TEXT` for the audit; required")
					f.String("result", "", "`FILE` with what repeated requests get, JSON unless "+
						"--content-type says otherwise; - is stdin")
					f.String("content-type", "", "`TYPE` of the result, for example text/plain")
					f.Int("status", 0, "HTTP `STATUS` that repeated requests of a route get")
					f.String("etag", "", "decide only if the claim is as `ETAG` says; see claim show. "+
						"Without it the claim is shown and decided about as it is shown")
					f.Bool("yes", false, "do it; without it, only say what would happen")
				},
			},
		},
	}
}

func claimList(ctx context.Context, c *call) error {
	cl, err := c.loggedIn()
	if err != nil {
		return err
	}
	f := client.ClaimFilter{State: c.text("state"), Operation: c.text("operation"),
		Principal: c.text("principal")}
	if f.State == "all" {
		f.State = ""
	}
	limit, err := strconv.Atoi(c.text("limit"))
	if err != nil || limit < 0 {
		return usage("the flag --limit cannot be "+strconv.Quote(c.text("limit")), "it is a number from 0",
			c.path+" --limit=100")
	}
	list := newList(c, "ID", "STATE", "KIND", "OPERATION", "PRINCIPAL", "KEY", "TRY", "UPDATED", "REASON")
	list.member = "claims"
	for shown := 0; ; {
		if limit > 0 {
			f.Limit = min(limit-shown, maxPage)
		}
		page, err := cl.ListClaims(ctx, f)
		if err != nil {
			return err
		}
		for _, one := range page.Claims {
			list.add(one, one.ID, one.State, one.Kind, one.Operation, one.Principal, one.Key,
				strconv.Itoa(one.Try), stamp(one.UpdatedAt), one.Reason)
		}
		shown += len(page.Claims)
		if f.Cursor = page.NextCursor; f.Cursor == "" {
			break
		}
		if limit > 0 && shown >= limit {
			_, _ = fmt.Fprintln(c.env.Stderr, "there are more; --limit=0 shows all")
			break
		}
	}
	return list.print()
}

// maxPage is the most that the API gives at once.
const maxPage = 200

func claimShow(ctx context.Context, c *call) error {
	cl, err := c.loggedIn()
	if err != nil {
		return err
	}
	claim, err := cl.GetClaim(ctx, c.args[0], 0)
	if err != nil {
		return err
	}
	return c.printOne(claim, func(w io.Writer) error { return printClaim(w, claim) })
}

func printClaim(out io.Writer, cl *client.Claim) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", name, printable(value))
		}
	}
	row("id", cl.ID)
	row("state", cl.State)
	row("kind", cl.Kind)
	row("operation", cl.Operation)
	row("principal", cl.Principal)
	row("key", cl.Key)
	row("try", strconv.Itoa(cl.Try))
	row("created", stamp(cl.CreatedAt))
	row("unknown since", stamp(cl.UnknownSince))
	row("last send before", stamp(cl.LastSendBefore))
	row("cause", cl.Cause)
	row("reason", cl.Reason)
	row("resolved by", cl.ResolvedBy)
	row("expires", stamp(cl.ExpiresAt))
	row("intent", string(cl.Intent))
	if cl.Result != nil || cl.ResultB64 != nil {
		row("result", fmt.Sprintf("%d bytes of %s; see --output json", cl.ResultSize, orDash(cl.ContentType)))
	}
	row("etag", cl.ETag)
	return w.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// consequences say what a verdict does to the money.
var consequences = map[string]string{
	"done":    "It counts as done. Nothing is sent; whoever repeats the request is told that it happened.",
	"refused": "It counts as refused. Nothing is sent, now or later; whoever repeats the request is told so.",
	"free":    "It counts as not having happened. The next request with this key is SENT AGAIN.",
}

func claimResolve(ctx context.Context, c *call) error {
	verdict, reason := c.text("verdict"), c.text("reason")
	what, known := consequences[verdict]
	switch {
	case !known:
		return usage(c.path+" needs a verdict", "--verdict is done, refused or free",
			c.path+" ID --verdict=done --reason=TEXT")
	case reason == "":
		return usage(c.path+" needs a reason", "who looks at it later has to know why",
			c.path+" ID --verdict="+verdict+" --reason=TEXT")
	}
	status, err := strconv.Atoi(c.text("status"))
	if err != nil || status != 0 && (status < 200 || status > 599) {
		return usage("the flag --status cannot be "+c.text("status"), "it is an HTTP status from 200 to 599",
			c.path+" ID --verdict="+verdict+" --status=201")
	}
	result, err := c.resultFlag()
	if err != nil {
		return err
	}
	cl, err := c.loggedIn()
	if err != nil {
		return err
	}
	claim, err := cl.GetClaim(ctx, c.args[0], 0)
	if err != nil {
		return err
	}
	etag, doit := c.text("etag"), c.text("yes") == "true"
	if etag == "" || !doit {
		if err := printClaim(c.env.Stderr, claim); err != nil {
			return err
		}
	}
	if etag == "" { // what was shown, and nothing later
		etag = claim.ETag
	}
	if !doit {
		_, err := fmt.Fprintf(c.env.Stderr, "\nnothing was done yet\n  %s: %s\n  to do it: the same with "+
			"--yes --etag='%s'\n", verdict, what, etag)
		return err
	}
	answer, err := cl.Resolve(ctx, claim.ID, client.Resolution{ETag: etag, Verdict: verdict, Reason: reason,
		Result: result, Status: status})
	if err != nil {
		return err
	}
	return c.printOne(answer, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "claim %s: %s\n", claim.ID, answer.Outcome)
		return err
	})
}

// resultFlag reads the file of --result.
func (c *call) resultFlag() (client.Result, error) {
	name := c.text("result")
	if name == "" {
		return client.Result{}, nil
	}
	in := c.env.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return client.Result{}, usage("the result cannot be read", err.Error(),
				"name a file with JSON, or - for stdin")
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, 16<<20))
	if err != nil {
		return client.Result{}, usage("the result cannot be read", err.Error(), "name a file, or - for stdin")
	}
	if typ := c.text("content-type"); typ != "" && typ != "application/json" {
		return client.Result{Bytes: text, ContentType: typ}, nil
	}
	if !json.Valid(text) {
		return client.Result{}, usage("the result is not JSON", fmt.Sprintf("%s holds %d bytes that are none",
			name, len(text)), "name a file with one JSON value, or say --content-type")
	}
	return client.Result{JSON: text}, nil
}
