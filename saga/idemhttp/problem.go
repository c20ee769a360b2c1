package idemhttp

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Code names a kind of problem. Codes are stable; programs branch on them.
type Code string

// The codes of problems.
const (
	CodeKeyMissing       Code = "idempotency_key_missing" // 400: send a key
	CodeKeyInvalid       Code = "idempotency_key_invalid" // 400: the key has not the right form
	CodeBadRequest       Code = "bad_request"             // 400: the body did not arrive whole
	CodeMethodNotAllowed Code = "method_not_allowed"      // 405: this method is not served here
	CodeRequestTimeout   Code = "request_timeout"         // 408: the body did not arrive in time
	CodeInFlight         Code = "in_flight"               // 409: the first request is running; send again
	CodeOutcomeUnknown   Code = "outcome_unknown"         // 409: it may have happened; use no other key
	CodeTooLarge         Code = "too_large"               // 413: the body is above the limit
	CodeMismatch         Code = "idempotency_mismatch"    // 422: the key belongs to another request
	CodeRefused          Code = "refused"                 // 422: a person has decided that it did not happen
	CodeInternal         Code = "internal"                // 500: a fault on this side
	CodeStoreFull        Code = "store_full"              // 503: the disk is nearly full
	CodeStoreStopped     Code = "store_stopped"           // 503: the store takes no more writes
	CodeUnavailable      Code = "unavailable"             // 503: shutting down
	CodeBusy             Code = "busy"                    // 503: too much is under way; send again
	CodeCommitUnknown    Code = "commit_unknown"          // 503: the outcome could not be stored; send again
	// CodeResultTooLarge has the status of the response itself: the effect stands,
	// only the body is not there any more.
	CodeResultTooLarge Code = "result_too_large"
)

type kind struct {
	status int
	title  string
	after  time.Duration // the hint when none is known better
}

var kinds = map[Code]kind{
	CodeKeyMissing:       {http.StatusBadRequest, "The Idempotency-Key is missing", 0},
	CodeKeyInvalid:       {http.StatusBadRequest, "The Idempotency-Key is not usable", 0},
	CodeBadRequest:       {http.StatusBadRequest, "The request is malformed", 0},
	CodeMethodNotAllowed: {http.StatusMethodNotAllowed, "The method is not allowed here", 0},
	CodeRequestTimeout:   {http.StatusRequestTimeout, "The request took too long to arrive", 0},
	CodeInFlight: {http.StatusConflict, "The first request with this key is still running",
		time.Second},
	CodeOutcomeUnknown: {http.StatusConflict, "It is not known whether this happened", 0},
	CodeTooLarge:       {http.StatusRequestEntityTooLarge, "The body is too large", 0},
	CodeMismatch:       {http.StatusUnprocessableEntity, "The key was used for another request", 0},
	CodeRefused:        {http.StatusUnprocessableEntity, "This did not happen and will not", 0},
	CodeInternal:       {http.StatusInternalServerError, "Something went wrong on our side", 0},
	CodeStoreFull: {http.StatusServiceUnavailable,
		"Free disk space is low; no new work is accepted", 30 * time.Second},
	CodeStoreStopped: {http.StatusServiceUnavailable, "The store accepts no more writes", 30 * time.Second},
	CodeUnavailable:  {http.StatusServiceUnavailable, "The service is not available now", time.Second},
	CodeBusy:         {http.StatusServiceUnavailable, "Too many requests are under way", time.Second},
	CodeCommitUnknown: {http.StatusServiceUnavailable, "It is not known whether this was stored",
		time.Second},
	CodeResultTooLarge: {http.StatusOK, "This has happened, but its response was too large to keep", 0},
}

// Problem is an answer that says why there is no response. It is an error, so
// that a [Perform] can return it, marked by saga.NotDone or saga.RetryAfter.
type Problem struct {
	// Code says what kind it is; one that is not listed here needs a Status.
	Code Code
	// Status is the HTTP status; 0 is that of the code.
	Status int
	// Detail tells people what is wrong this time. It holds no secret.
	Detail string
	// Cause is what happened, for operators, without advice to the client; empty
	// is Detail. It holds no secret.
	Cause string
	// Param names the header at fault, or is empty.
	Param string
	// RetryAfter is when to repeat; 0 is the hint of the code, if it has one.
	RetryAfter time.Duration
}

// Error is the code and the detail.
func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// Reason is what operators see: the cause, or the detail.
func (p *Problem) Reason() string { return cmp.Or(p.Cause, p.Detail) }

// Full returns p with the status, and the hint, of its code.
func (p *Problem) Full() (full Problem, title string) {
	k, ok := kinds[p.Code]
	if !ok {
		k = kinds[CodeInternal]
	}
	full = *p
	if full.Status == 0 {
		full.Status = k.status
	}
	if full.RetryAfter <= 0 {
		full.RetryAfter = k.after
	}
	return full, k.title
}

// WriteProblem answers with p as application/problem+json. It leaves headers
// that are set already, such as Allow.
func WriteProblem(w http.ResponseWriter, r *http.Request, p *Problem) {
	full, title := p.Full()
	doc := struct {
		Type       string `json:"type"`
		Title      string `json:"title"`
		Status     int    `json:"status"`
		Detail     string `json:"detail,omitempty"`
		Code       Code   `json:"code"`
		Param      string `json:"param,omitempty"`
		RetryAfter int64  `json:"retry_after_s,omitempty"`
	}{"urn:onced:problem:" + string(p.Code), title, full.Status, full.Detail, full.Code, full.Param,
		int64((full.RetryAfter + time.Second - 1) / time.Second)}
	body, err := json.Marshal(doc)
	if err != nil { // texts and numbers
		body = []byte(`{"code":"internal"}`)
	}
	body = append(body, '\n') // for whoever reads it in a terminal
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Del("Retry-After")
	if doc.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(doc.RetryAfter, 10))
	}
	w.WriteHeader(full.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that has gone cannot be told
	}
}
