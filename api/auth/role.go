package auth

import "slices"

// Role says what kind of caller a token is for.
type Role string

// The roles.
const (
	// Viewer sees claims and runs of all principals, without their content.
	Viewer Role = "viewer"
	// Operator sees all and resolves what waits for a person.
	Operator Role = "operator"
	// Admin may do everything, also make tokens, but send requests to routes. It starts
	// runs only for an account that it names.
	Admin Role = "admin"
	// Metrics reads the metrics only.
	Metrics Role = "metrics"
	// Client sends requests, claims keys and starts runs as its principal, and sees
	// nothing of others.
	Client Role = "client"
)

// Permission is one thing that a role may do.
type Permission string

// The permissions.
const (
	// ClaimsOwn: claim keys as the token's principal, and see that principal's claims
	// with their content.
	ClaimsOwn Permission = "claims:own"
	// RequestsSend: send requests to routes as the token's principal. Nobody has it
	// who has other work too: the order that a shop has paid would be paid once more
	// under the key of an admin.
	RequestsSend Permission = "requests:send"
	// ClaimsRead: see the claims of all principals, without intents and results.
	ClaimsRead Permission = "claims:read"
	// ClaimsContent: see their intents and results too.
	ClaimsContent Permission = "claims:content"
	// ClaimsResolve: decide about unknown claims.
	ClaimsResolve Permission = "claims:resolve"
	// RunsOwn: start runs of sagas as the token's principal, see that principal's with
	// their content, and signal them.
	RunsOwn Permission = "runs:own"
	// RunsFor: start runs for any principal. Who may must name it: under its own the key
	// of an order is new, and the order that a shop has paid would be paid once more.
	RunsFor Permission = "runs:for"
	// RunsRead: see the runs of all principals, without what went in and came out.
	RunsRead Permission = "runs:read"
	// RunsContent: see that too, and the sources of definitions.
	RunsContent Permission = "runs:content"
	// RunsOperate: act on all runs: the verbs of operators, and signals.
	RunsOperate Permission = "runs:operate"
	// DefinitionsRead: see which definitions there are, without their sources.
	DefinitionsRead Permission = "definitions:read"
	// DefinitionsManage: post definitions, which can use every secret of the
	// configuration.
	DefinitionsManage Permission = "definitions:manage"
	// TokensManage: make, list, rotate and revoke tokens.
	TokensManage Permission = "tokens:manage"
	// MetricsRead: read the metrics.
	MetricsRead Permission = "metrics:read"
)

// grants is the one table of what each role may do.
var grants = map[Role][]Permission{
	Viewer: {ClaimsRead, RunsRead, DefinitionsRead, MetricsRead},
	Operator: {ClaimsRead, ClaimsContent, ClaimsResolve, RunsRead, RunsContent, RunsOperate,
		DefinitionsRead, MetricsRead},
	Admin: {ClaimsOwn, ClaimsRead, ClaimsContent, ClaimsResolve, RunsOwn, RunsFor, RunsRead,
		RunsContent, RunsOperate, DefinitionsRead, DefinitionsManage, TokensManage, MetricsRead},
	Metrics: {MetricsRead},
	Client:  {ClaimsOwn, RequestsSend, RunsOwn, DefinitionsRead},
}

// Roles returns the roles in the order from seeing to ruling.
func Roles() []Role { return []Role{Metrics, Client, Viewer, Operator, Admin} }

// Valid reports whether r is one of [Roles].
func (r Role) Valid() bool { return grants[r] != nil }

// Can reports whether the role has the permission.
func (r Role) Can(p Permission) bool { return slices.Contains(grants[r], p) }

// Permissions returns what the role may do.
func (r Role) Permissions() []Permission { return slices.Clone(grants[r]) }
