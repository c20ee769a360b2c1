package problem

import (
	"net/http"
	"slices"
)

// Code names a kind of problem; it is stable.
type Code string

// The codes. Each has a line in the catalogue, with its status and remedy.
const (
	BadRequest           Code = "bad_request"             // the request is malformed
	BadPath              Code = "bad_path"                // the path is not in its plain form
	InvalidJSON          Code = "invalid_json"            // the body is not one JSON object
	InvalidField         Code = "invalid_field"           // a value is not allowed
	UnknownField         Code = "unknown_field"           // a member or parameter is not known
	InvalidCursor        Code = "invalid_cursor"          // the cursor does not belong to this listing
	LimitExceeded        Code = "limit_exceeded"          // a limit was exceeded
	KeyMissing           Code = "idempotency_key_missing" // the Idempotency-Key is missing
	KeyInvalid           Code = "idempotency_key_invalid" // the Idempotency-Key is not usable
	Unauthorized         Code = "unauthorized"            // a valid token is required
	Forbidden            Code = "forbidden"               // the token's role does not allow this
	NotFound             Code = "not_found"               // there is no such thing here
	MethodNotAllowed     Code = "method_not_allowed"      // the method is not allowed here
	RequestTimeout       Code = "request_timeout"         // the request took too long to arrive
	InFlight             Code = "in_flight"               // the first request with this key is still running
	OutcomeUnknown       Code = "outcome_unknown"         // it is not known whether this happened
	Fenced               Code = "fenced"                  // another owner holds this key
	Settled              Code = "settled"                 // the claim already has another outcome
	WrongState           Code = "wrong_state"             // this does not fit the present state
	KeyTooOld            Code = "key_too_old"             // the key is too old to be sent again
	TokenReused          Code = "token_reused"            // a takeover needs a fresh token
	NameTaken            Code = "name_taken"              // the name belongs to a live token
	Stale                Code = "stale"                   // it has changed since you read it
	TooLarge             Code = "too_large"               // the body is too large
	UnsupportedMediaType Code = "unsupported_media_type"  // the content type is not supported
	Mismatch             Code = "idempotency_mismatch"    // the key was used for another request
	Refused              Code = "refused"                 // a person has decided that it did not happen
	InvalidDefinition    Code = "invalid_definition"      // the definition has mistakes
	PreconditionRequired Code = "precondition_required"   // if-Match is required
	TooManyRequests      Code = "too_many_requests"       // too many failed attempts
	Internal             Code = "internal"                // something went wrong on our side
	UpstreamFailed       Code = "upstream_failed"         // the service behind onced did not answer properly
	UpstreamCredentials  Code = "upstream_credentials"    // the service behind refuses onced's credentials
	UpstreamTimeout      Code = "upstream_timeout"        // the service behind onced did not answer in time
	CommitUnknown        Code = "commit_unknown"          // it is not known whether this was stored
	StoreFull            Code = "store_full"              // free disk space is low; no new work is accepted
	StoreStopped         Code = "store_stopped"           // the store accepts no more writes
	Busy                 Code = "busy"                    // too many requests are under way
	Unavailable          Code = "unavailable"             // the service is not available now
	// ResultTooLarge has the status of the first answer, of which only the body is
	// not there any more.
	ResultTooLarge Code = "result_too_large"
)

// Entry is a line of the catalogue.
type Entry struct {
	// Code names the problem.
	Code Code
	// Status is the HTTP status.
	Status int
	// Title is short and never changes.
	Title string
	// Remedy says what the caller can do about it.
	Remedy string
	// RetryAfter is the hint in seconds when none is known better; 0 is none.
	RetryAfter int
}

// catalogue is in the order of the status.
var catalogue = []Entry{
	{ResultTooLarge, http.StatusOK, "This has happened, but its response was too large to keep",
		"The status is that of the first answer, and stands. Do not send it with another key; ask for the " +
			"details where they are.", 0},
	{BadRequest, http.StatusBadRequest, "The request is malformed",
		"Correct what the detail names, then send it again.", 0},
	{BadPath, http.StatusBadRequest, "The path is not in its plain form",
		"Write it in lower case, without dot segments, doubled slashes, backslashes, control characters " +
			"or needless escapes.", 0},
	{InvalidJSON, http.StatusBadRequest, "The body is not one JSON object",
		"Send one JSON object in UTF-8, each member once.", 0},
	{InvalidField, http.StatusBadRequest, "A value is not allowed",
		"Correct the member or parameter that param names.", 0},
	{UnknownField, http.StatusBadRequest, "A member or parameter is not known",
		"Remove or rename what param names; names are exact, in snake_case.", 0},
	{InvalidCursor, http.StatusBadRequest, "The cursor does not belong to this listing",
		"Use the next of the page before with the same filters, or begin anew without a cursor.", 0},
	{LimitExceeded, http.StatusBadRequest, "A limit was exceeded",
		"Ask for less; the detail names the limit.", 0},
	{KeyMissing, http.StatusBadRequest, "The Idempotency-Key is missing",
		"Send the header Idempotency-Key: new for each payment, the same for its retries.", 0},
	{KeyInvalid, http.StatusBadRequest, "The Idempotency-Key is not usable",
		"Send one key of 1 to 255 bytes of printable text, quoted or bare.", 0},
	{Unauthorized, http.StatusUnauthorized, "A valid token is required",
		"Send the header Authorization: Bearer with a token that is neither revoked nor expired.", 0},
	{Forbidden, http.StatusForbidden, "The token's role does not allow this",
		"Use a token whose role has the permission that the detail names.", 0},
	{NotFound, http.StatusNotFound, "There is no such thing here",
		"Check the path and the id. What belongs to another principal is not shown.", 0},
	{MethodNotAllowed, http.StatusMethodNotAllowed, "The method is not allowed here",
		"Use one of the methods in the header Allow.", 0},
	{RequestTimeout, http.StatusRequestTimeout, "The request took too long to arrive",
		"Send it again over a better connection.", 0},
	{InFlight, http.StatusConflict, "The first request with this key is still running",
		"Send the same request again after Retry-After.", 1},
	{OutcomeUnknown, http.StatusConflict, "It is not known whether this happened",
		"Do not use another key. Look it up at the provider, or let an operator resolve the claim.", 0},
	{Fenced, http.StatusConflict, "Another owner holds this key",
		"Stop: it was taken over, freed or never yours. Claim it again to learn its outcome.", 0},
	{Settled, http.StatusConflict, "The claim already has another outcome",
		"Read the claim: its outcome stands.", 0},
	{WrongState, http.StatusConflict, "This does not fit the present state",
		"Read the resource again and decide anew.", 0},
	{KeyTooOld, http.StatusConflict, "The key is too old to be sent again",
		"Look up what became of it, or let an operator resolve the claim.", 0},
	{TokenReused, http.StatusConflict, "A takeover needs a fresh token",
		"Make a new random token and claim again.", 0},
	{NameTaken, http.StatusConflict, "The name belongs to a live token",
		"Rotate or revoke the token that has it, or choose another name; with its principal when both are " +
			"to share their keys.", 0},
	{Stale, http.StatusPreconditionFailed, "It has changed since you read it",
		"Read it again, decide anew, and send its new ETag in If-Match.", 0},
	{TooLarge, http.StatusRequestEntityTooLarge, "The body is too large",
		"Send less; the detail names the limit.", 0},
	{UnsupportedMediaType, http.StatusUnsupportedMediaType, "The content type is not supported",
		"Send Content-Type: application/json.", 0},
	{Mismatch, http.StatusUnprocessableEntity, "The key was used for another request",
		"Is it the same payment? Then repeat the first request byte for byte. Only a new payment gets a " +
			"new key.", 0},
	{Refused, http.StatusUnprocessableEntity, "This did not happen and will not",
		"A person has decided so. A new attempt is a new payment, and needs a new key.", 0},
	{InvalidDefinition, http.StatusUnprocessableEntity, "The definition has mistakes",
		"Correct everything that problems lists, each with its line and column. Nothing was stored.", 0},
	{PreconditionRequired, http.StatusPreconditionRequired, "If-Match is required",
		"Read the resource and send its ETag in If-Match, so that two operators do not both act.", 0},
	{TooManyRequests, http.StatusTooManyRequests, "Too many failed attempts",
		"Use a valid token: it works at once. For other tries wait for Retry-After.", 60},
	{Internal, http.StatusInternalServerError, "Something went wrong on our side",
		"Repeat the same call with the same key or token. Report the request_id if it goes on.", 0},
	{UpstreamFailed, http.StatusBadGateway, "The service behind onced did not answer properly",
		"Repeat the same request with the same key.", 0},
	{UpstreamCredentials, http.StatusBadGateway, "The service behind does not accept onced's credentials",
		"Nothing was done, and your token is not at fault. Tell the operator, then repeat the same request " +
			"with the same key.", 0},
	{CommitUnknown, http.StatusServiceUnavailable, "It is not known whether this was stored",
		"Repeat the same call with the same token.", 1},
	{StoreFull, http.StatusServiceUnavailable, "Free disk space is low; no new work is accepted",
		"Free disk space. Work already begun can still be finished.", 30},
	{StoreStopped, http.StatusServiceUnavailable, "The store accepts no more writes",
		"Nothing was stored. Repair the disk and restart onced, then repeat the same call.", 30},
	{Busy, http.StatusServiceUnavailable, "Too many requests are under way",
		"Nothing was done. Repeat the same request with the same key after Retry-After.", 1},
	{Unavailable, http.StatusServiceUnavailable, "The service is not available now",
		"Repeat the same call after Retry-After.", 1},
	{UpstreamTimeout, http.StatusGatewayTimeout, "The service behind onced did not answer in time",
		"Repeat the same request with the same key.", 0},
}

// Catalogue returns all problems in the order of their status.
func Catalogue() []Entry { return slices.Clone(catalogue) }

// Lookup returns the catalogue's line for a code.
func Lookup(c Code) (Entry, bool) {
	for _, e := range catalogue {
		if e.Code == c {
			return e, true
		}
	}
	return Entry{}, false
}
