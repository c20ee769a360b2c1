package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"onced/api/demo/book"
	"onced/api/demo/callee"
	"onced/kv/money"
)

// resultKind is what a shop makes of an answer.
type resultKind int

const (
	accepted       resultKind = iota
	declined                  // nothing of it stands
	gaveUp                    // the naive shop has had enough
	outcomeUnknown            // it is under way; ask again
	needsPerson               // it is held or stuck
	serviceDown               // nobody was there; ask again
)

// result is what became of one call.
type result struct {
	kind  resultKind
	after time.Duration // when to ask again
	last  bool          // there is no use in asking again
	says  string        // in plain words, when there is something to say
	needs string        // what a person is needed for
}

func (r result) outcome() string {
	switch r.kind {
	case accepted:
		return "completed, all four steps stand"
	case declined:
		return "failed, and nothing of it stands"
	default:
		return "no answer, and it gave up"
	}
}

// What every order costs.
const (
	orderPoints  = 100
	orderVoucher = "TENOFF"
	orderPrice   = "10.00"
	orderAsset   = "USD"
)

// price is what every order costs at the gateway.
func price() (money.Amount, error) {
	asset, err := money.ParseAsset(orderAsset)
	if err != nil {
		return money.Amount{}, err
	}
	return money.ParsePositive(orderPrice, asset)
}

// values are what every order costs, as the ledgers write it.
func values() map[book.Service]string {
	amount, err := price()
	if err != nil {
		return nil
	}
	return map[book.Service]string{book.Loyalty: strconv.Itoa(orderPoints), book.Voucher: orderVoucher,
		book.Charge: amount.String()}
}

// runRequest is what the shop posts for an order: always the same.
type runRequest struct {
	Definition string   `json:"definition"`
	Key        string   `json:"key"`
	Input      runInput `json:"input"`
}

// runInput is the input that the definition declares.
type runInput struct {
	Order    string `json:"order"`
	Customer string `json:"customer"`
	Points   int    `json:"points"`
	Voucher  string `json:"voucher"`
	Amount   string `json:"amount"`
}

func runBody(id string) ([]byte, error) {
	return json.Marshal(runRequest{Definition: definitionName, Key: id, Input: runInput{Order: id,
		Customer: "customer-of-" + id, Points: orderPoints, Voucher: orderVoucher, Amount: orderPrice}})
}

// call is one call for an order.
type call struct {
	id    string
	again bool // the shop has called for it before
}

// guarded runs the saga at the service, with the order's id as the key.
type guarded struct {
	service *service
	client  *http.Client
	token   string
}

// How long a shop waits before it asks again, when nobody says, and how long the
// service is asked to hold an answer back at most.
const (
	askAgain    = 300 * time.Millisecond
	askAgainMax = 2 * time.Second
	runWait     = 8 * time.Second
)

// pay asks the service once, which answers when the run has ended. When the shop has
// asked before it looks for the run that it may have started: to start it again would
// be a new round, if the first one was undone meanwhile.
func (g guarded) pay(ctx context.Context, c call) result {
	addr, err := g.service.address(ctx)
	if err != nil {
		return result{kind: serviceDown, after: askAgain, last: errors.Is(err, errGone)}
	}
	base := "http://" + addr + runsPath
	if c.again {
		if run, r := g.find(ctx, base, c); r.kind != accepted {
			return r
		} else if run != "" {
			return g.ask(ctx, http.MethodGet, base+"/"+run, c)
		}
	}
	return g.ask(ctx, http.MethodPost, base, c)
}

// find returns the id of the last run of an order, empty when there is none. The
// result says accepted when that is known.
func (g guarded) find(ctx context.Context, base string, c call) (run string, r result) {
	query := url.Values{"definition": {definitionName}, "key": {c.id}, "limit": {"1"}}
	resp, r := g.send(ctx, http.MethodGet, base+"?"+query.Encode(), c)
	if resp == nil {
		return "", r
	}
	defer func() { _ = resp.Body.Close() }()
	defer drain(resp.Body)
	var list struct {
		Runs []struct {
			ID string `json:"id"`
		} `json:"runs"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&list) != nil {
		return "", result{kind: outcomeUnknown, after: askAgain}
	}
	if len(list.Runs) > 0 {
		run = list.Runs[0].ID
	}
	return run, result{kind: accepted}
}

// ask starts a run, or asks for one, and waits for its end a while.
func (g guarded) ask(ctx context.Context, method, target string, c call) result {
	resp, r := g.send(ctx, method, target, c)
	if resp == nil {
		return r
	}
	defer func() { _ = resp.Body.Close() }()
	defer drain(resp.Body)
	return readAnswer(resp)
}

// send sends a request; without an answer the result says why.
func (g guarded) send(ctx context.Context, method, target string, c call) (*http.Response, result) {
	var body []byte
	var err error
	if method == http.MethodPost {
		body, err = runBody(c.id)
	}
	if err != nil {
		return nil, result{kind: outcomeUnknown, after: askAgain, says: err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, result{kind: outcomeUnknown, after: askAgain, says: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+g.token)
	req.Header.Set("Prefer", fmt.Sprintf("wait=%d", int(runWait.Seconds())))
	req.Header.Set(orderHeader, c.id)
	if c.again {
		req.Header.Set(againHeader, "yes")
	}
	req.GetBody = nil // whether to send again is for this code to say
	resp, err := g.client.Do(req)
	if err != nil {
		kind := outcomeUnknown
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			kind = serviceDown
		}
		return nil, result{kind: kind, after: askAgain}
	}
	return resp, result{}
}

// runAnswer is what the shop reads of the service's answer.
type runAnswer struct {
	State  string `json:"state"`
	Reason string `json:"reason"`
	Code   string `json:"code"`
}

// readAnswer tells apart what is known from what is not.
func readAnswer(resp *http.Response) result {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return result{kind: outcomeUnknown, after: askAgain}
	}
	var a runAnswer
	_ = json.Unmarshal(body, &a) // what cannot be read says nothing
	after := askAgain
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		after = min(max(askAgain, time.Duration(s)*time.Second), askAgainMax)
	}
	if resp.StatusCode/100 != 2 {
		return result{kind: outcomeUnknown, after: after, says: fmt.Sprintf(
			"onced did not take the order on yet (%d %s); the shop asks again.", resp.StatusCode, a.Code)}
	}
	switch a.State {
	case "completed":
		return result{kind: accepted}
	case "compensated":
		return result{kind: declined, says: "onced undid the order: " + a.Reason + "."}
	case "held", "stuck", "closed":
		needs := a.State + ": " + a.Reason
		return result{kind: needsPerson, needs: needs, last: true,
			says: "It waits for a person; it is " + needs}
	}
	return result{kind: outcomeUnknown, after: after}
}

// drain lets the connection be used again.
func drain(body io.Reader) { _, _ = io.Copy(io.Discard, io.LimitReader(body, 1<<20)) }

// callTimeout is how long a caller waits for a service.
const callTimeout = callee.CallTimeout
