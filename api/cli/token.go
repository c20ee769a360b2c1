package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"onced/api/app"
	"onced/api/auth"
	"onced/api/client"
	"onced/api/config"
	"onced/api/problem"
	"onced/kv"
)

// accessHelp says how the commands reach the tokens.
const accessHelp = `With a token (ONCED_TOKEN, --token-file) or --url it asks a running onced. Otherwise it
opens the store in the data folder itself, which needs no token and works only while
onced is stopped: that is the way back in when every token is lost.`

func tokenCommands() *command {
	return &command{
		name: "token", summary: "make, list, rotate and revoke tokens", help: accessHelp,
		sub: []*command{
			{
				name: "create", args: "NAME", most: 1,
				summary: "make a token and print its secret, this once",
				help:    accessHelp, run: tokenCreate, flags: func(f *flags) {
					f.addToken()
					f.values["role"] = roles()
					f.String("role", string(auth.Client),
						"`ROLE`: metrics, client, viewer, operator or admin")
					f.String("principal", "", "`ACCOUNT` whose keys it uses; by default NAME. Machines "+
						"that retry each other's payments share one")
					f.Duration("expires-in", 0, "its `LIFE`, for example 720h; 0 has no end")
				},
			},
			{
				name: "list", summary: "list the tokens, without their secrets", help: accessHelp,
				run: tokenList, flags: (*flags).addToken,
			},
			{
				name: "rotate", args: "ID|NAME", least: 1, most: 1,
				summary: "replace a token by a new one of the same name",
				help:    accessHelp, run: tokenRotate, flags: func(f *flags) {
					f.addToken()
					f.Duration("overlap", 0, "how `LONG` the old one stays valid, for example 1h")
					f.Duration("expires-in", 0, "`LIFE` of the new one; 0 has no end")
				},
			},
			{
				name: "revoke", args: "ID|NAME", least: 1, most: 1, summary: "end a token at once",
				help: accessHelp, run: tokenRevoke, flags: func(f *flags) {
					f.addToken()
					f.String("reason", "", "`TEXT` for the audit")
				},
			},
		},
	}
}

func (f *flags) addToken() {
	f.addRemote()
	f.String("data", "", "the data `FOLDER`; by default that of the configuration")
}

// tokens is what the commands do, over HTTP or on the store itself.
type tokens interface {
	create(ctx context.Context, spec client.TokenSpec) (client.NewToken, error)
	list(ctx context.Context, limit int, cursor string) (client.TokenPage, error)
	rotate(ctx context.Context, t client.Token, r client.TokenRotation) (client.NewToken, error)
	revoke(ctx context.Context, id, reason string) (client.Token, error)
}

// withTokens runs fn on the tokens that the flags say.
func (c *call) withTokens(ctx context.Context, fn func(tokens) error) error {
	secret, err := c.token()
	if err != nil {
		return err
	}
	if secret != "" || c.text("url") != "" || c.env.lookup(envURL) != "" {
		cl, err := c.loggedIn()
		if err != nil {
			return err
		}
		return fn(remoteTokens{cl})
	}
	if data := c.text("data"); data != "" {
		c.flags.config["data"] = data
	}
	conf, err := c.loadPlace("--url=http://127.0.0.1:8080 and a token, or correct the configuration")
	if err != nil {
		return err
	}
	clock := kv.SystemClock()
	err = app.Offline(ctx, app.Options{Loaded: &config.Loaded{Config: conf}, Clock: clock,
		Logger: slog.New(slog.DiscardHandler)},
		func(s *auth.Service) error { return fn(&localTokens{s: s, now: clock.Now}) })
	if errors.Is(err, app.ErrNoStore) {
		return &failure{what: "there is no store in " + conf.Data, why: err.Error(),
			try: "--data with the folder of the service, or --url with that of a running one; " +
				"the first start of onced serve makes the store and prints a token",
			code: ExitUsage, err: err}
	}
	if errors.Is(err, kv.ErrLocked) {
		return &failure{what: "onced is running and holds the store", why: err.Error(),
			try: "ONCED_TOKEN=… with an admin's token, or stop onced first", code: ExitStore, err: err}
	}
	return err
}

// remoteTokens asks a running onced.
type remoteTokens struct{ c *client.Client }

func (r remoteTokens) create(ctx context.Context, spec client.TokenSpec) (client.NewToken, error) {
	return r.c.CreateToken(ctx, spec)
}

func (r remoteTokens) list(ctx context.Context, limit int, cursor string) (client.TokenPage, error) {
	return r.c.ListTokens(ctx, limit, cursor)
}

func (r remoteTokens) rotate(
	ctx context.Context, t client.Token, rot client.TokenRotation,
) (client.NewToken, error) {
	rot.ETag = t.ETag()
	return r.c.RotateToken(ctx, t.ID, rot)
}

func (r remoteTokens) revoke(ctx context.Context, id, reason string) (client.Token, error) {
	return r.c.RevokeToken(ctx, id, reason)
}

// cliActor is who acts on the store itself, in the audit.
const cliActor = "cli"

// localTokens works on the store itself.
type localTokens struct {
	s   *auth.Service
	now func() time.Time
}

func (l *localTokens) show(t auth.Token) client.Token {
	return client.Token{ID: t.ID, Name: t.Name, Role: string(t.Role), Principal: t.Principal,
		CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt, LastUsedAt: t.LastUsed,
		ReplacedBy: t.ReplacedBy,
		Live:       t.Live(l.now()), Version: t.Version}
}

func (l *localTokens) create(ctx context.Context, spec client.TokenSpec) (client.NewToken, error) {
	t, secret, err := l.s.Create(ctx, auth.Spec{Name: spec.Name, Role: auth.Role(spec.Role),
		Principal: spec.Principal, ExpiresIn: time.Duration(spec.ExpiresInS) * time.Second, Actor: cliActor})
	return client.NewToken{Secret: secret, Token: l.show(t)}, err
}

func (l *localTokens) list(ctx context.Context, limit int, cursor string) (client.TokenPage, error) {
	found, next, err := l.s.List(ctx, cursor, limit)
	page := client.TokenPage{NextCursor: next}
	for _, t := range found {
		page.Tokens = append(page.Tokens, l.show(t))
	}
	return page, err
}

func (l *localTokens) rotate(
	ctx context.Context, t client.Token, r client.TokenRotation,
) (client.NewToken, error) {
	next, secret, err := l.s.Rotate(ctx, auth.Rotation{ID: t.ID, Version: t.Version,
		Overlap:   time.Duration(r.OverlapS) * time.Second,
		ExpiresIn: time.Duration(r.ExpiresInS) * time.Second, Actor: cliActor})
	return client.NewToken{Secret: secret, Token: l.show(next)}, err
}

func (l *localTokens) revoke(ctx context.Context, id, reason string) (client.Token, error) {
	t, err := l.s.Revoke(ctx, auth.Revocation{ID: id, Actor: cliActor, Reason: reason})
	return l.show(t), err
}

// eachToken calls fn for every token until it returns false.
func eachToken(ctx context.Context, t tokens, fn func(client.Token) bool) error {
	for cursor := ""; ; {
		page, err := t.list(ctx, 0, cursor)
		if err != nil {
			return err
		}
		for _, one := range page.Tokens {
			if !fn(one) {
				return nil
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return nil
		}
	}
}

// findToken finds a token by its id, or a live one by its name.
func findToken(ctx context.Context, t tokens, name string) (found client.Token, err error) {
	err = eachToken(ctx, t, func(one client.Token) bool {
		if one.ID == name || one.Live && one.Name == name {
			found = one
		}
		return found.ID == ""
	})
	if err == nil && found.ID == "" {
		err = &failure{what: "there is no such token",
			why: fmt.Sprintf("no token has the id %q, and no live one the name", name),
			try: "onced token list", code: ExitFailure}
	}
	return found, err
}

func tokenCreate(ctx context.Context, c *call) error {
	spec := client.TokenSpec{Role: c.text("role"), Principal: c.text("principal"),
		ExpiresInS: c.seconds("expires-in")}
	if !slices.Contains(roles(), spec.Role) {
		try := string(auth.Client)
		if near := config.Nearest(spec.Role, roles()); near != "" {
			try = near
		}
		return usage("the flag --role cannot be "+strconv.Quote(spec.Role),
			"allowed: "+strings.Join(roles(), ", "), c.path+" NAME --role="+try)
	}
	switch {
	case len(c.args) > 0:
		spec.Name = c.args[0]
	case spec.Role == string(auth.Admin):
		spec.Name = "admin-" + kv.SystemClock().Now().UTC().Format("20060102-150405")
	default:
		return usage("the token needs a name", "there is no argument", c.path+" NAME --role "+spec.Role)
	}
	return c.withTokens(ctx, func(t tokens) error {
		made, err := t.create(ctx, spec)
		if errors.Is(err, auth.ErrNameTaken) || client.Code(err) == problem.NameTaken {
			return nameTaken(ctx, t, spec, err)
		}
		if err != nil {
			return err
		}
		return c.printSecret(made)
	})
}

// nameTaken says how to get what the name was meant for. Another name alone would
// be another account, to which the keys of this one are new.
func nameTaken(ctx context.Context, t tokens, spec client.TokenSpec, err error) error {
	account := spec.Name
	if old, ferr := findToken(ctx, t, spec.Name); ferr == nil {
		account = old.Principal
	}
	role := ""
	if spec.Role != string(auth.Client) {
		role = " --role " + spec.Role
	}
	return &failure{what: "a live token has the name " + spec.Name, why: err.Error(),
		try: fmt.Sprintf("onced token rotate %[1]s, when its secret is lost; or onced token create "+
			"%[1]s-2%[2]s --principal %[3]s, for one more machine of the same account",
			spec.Name, role, account),
		code: ExitFailure, err: err}
}

// roles are the names of the roles.
func roles() []string {
	var out []string
	for _, r := range auth.Roles() {
		out = append(out, string(r))
	}
	return out
}

// printSecret prints the secret alone to stdout, so that it can be piped.
func (c *call) printSecret(made client.NewToken) error {
	if c.flags.output != "table" {
		return c.printOne(made, nil)
	}
	account := ""
	if made.Token.Principal != made.Token.Name {
		account = ", of the account " + made.Token.Principal
	}
	_, _ = fmt.Fprintf(c.env.Stderr, "token %s of %s (%s%s); its secret is shown only now:\n",
		made.Token.ID, made.Token.Name, made.Token.Role, account)
	_, err := fmt.Fprintln(c.env.Stdout, made.Secret)
	return err
}

// seconds is the value of a flag in whole seconds.
func (c *call) seconds(name string) int64 {
	g, ok := c.flags.Lookup(name).Value.(flag.Getter)
	if !ok {
		return 0
	}
	d, _ := g.Get().(time.Duration)
	return int64(d / time.Second)
}

func tokenList(ctx context.Context, c *call) error {
	return c.withTokens(ctx, func(t tokens) error {
		list := newList(c, "ID", "NAME", "ROLE", "PRINCIPAL", "STATE", "CREATED", "LAST USED")
		list.member = "tokens"
		err := eachToken(ctx, t, func(one client.Token) bool {
			list.add(one, one.ID, one.Name, one.Role, one.Principal, tokenState(one), stamp(one.CreatedAt),
				stamp(one.LastUsedAt))
			return true
		})
		if err != nil {
			return err
		}
		return list.print()
	})
}

func tokenState(t client.Token) string {
	switch {
	case !t.RevokedAt.IsZero():
		return "revoked"
	case !t.Live:
		return "expired"
	case t.ReplacedBy != "":
		return "live until " + stamp(t.ExpiresAt)
	}
	return "live"
}

// stamp prints an instant for people; the zero one is empty.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func tokenRotate(ctx context.Context, c *call) error {
	return c.withTokens(ctx, func(t tokens) error {
		old, err := findToken(ctx, t, c.args[0])
		if err != nil {
			return err
		}
		made, err := t.rotate(ctx, old, client.TokenRotation{OverlapS: c.seconds("overlap"),
			ExpiresInS: c.seconds("expires-in")})
		if err != nil {
			return err
		}
		return c.printSecret(made)
	})
}

func tokenRevoke(ctx context.Context, c *call) error {
	return c.withTokens(ctx, func(t tokens) error {
		old, err := findToken(ctx, t, c.args[0])
		if err != nil {
			return err
		}
		ended, err := t.revoke(ctx, old.ID, c.text("reason"))
		if err != nil {
			return err
		}
		return c.printOne(ended, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "token %s of %s is revoked\n", ended.ID, ended.Name)
			return err
		})
	})
}
