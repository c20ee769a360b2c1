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
	"strconv"
	"time"

	"onced/kv/money"
)

// resultKind is what a shop makes of an answer.
type resultKind int

const (
	accepted       resultKind = iota
	declined                  // did not happen and will not
	gaveUp                    // the naive shop has had enough
	outcomeUnknown            // ask again
	serviceDown               // nobody was there; ask again
)

// result is what became of one call.
type result struct {
	kind   resultKind
	charge string
	after  time.Duration // when to ask again
	last   bool          // there is no use in asking again
	says   string        // in plain words, when there is something to say
}

func (r result) outcome() string {
	switch r.kind {
	case accepted:
		return "charged, " + r.charge
	case declined:
		return "declined"
	default:
		return "no answer, and it gave up"
	}
}

// price is what every order costs.
func price() (money.Amount, error) {
	usd, err := money.ParseAsset("USD")
	if err != nil {
		return money.Amount{}, err
	}
	return money.ParsePositive("10.00", usd)
}

// chargeBody is what the shop posts for an order: always the same.
func chargeBody(id string) ([]byte, error) {
	amount, err := price()
	if err != nil {
		return nil, err
	}
	return json.Marshal(chargeRequest{Reference: id, Amount: amount})
}

// call is one call for an order.
type call struct {
	id    string
	again bool // the shop has called for it before
}

// guarded pays through the service, with the order's id as the key.
type guarded struct {
	service *service
	client  *http.Client
}

// How long a shop waits before it asks again, when nobody says.
const (
	askAgain    = 300 * time.Millisecond
	askAgainMax = 2 * time.Second
)

// pay asks the service once.
func (g guarded) pay(ctx context.Context, c call) result {
	addr, err := g.service.address(ctx)
	if err != nil {
		return result{kind: serviceDown, after: askAgain, last: errors.Is(err, errGone)}
	}
	body, err := chargeBody(c.id)
	if err != nil {
		return result{kind: outcomeUnknown, after: askAgain, says: err.Error()}
	}
	url := "http://" + addr + chargesPath
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return result{kind: outcomeUnknown, after: askAgain, says: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", c.id)
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
		return result{kind: kind, after: askAgain}
	}
	defer func() { _ = resp.Body.Close() }()
	defer drain(resp.Body)
	return readAnswer(resp)
}

// readAnswer tells apart what is known from what is not.
func readAnswer(resp *http.Response) result {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return result{kind: outcomeUnknown, after: askAgain}
	}
	var a struct {
		chargeAnswer
		Code string `json:"code"`
	}
	_ = json.Unmarshal(body, &a) // what cannot be read says nothing
	switch {
	case resp.StatusCode/100 == 2 && a.Status == statusAccepted:
		return result{kind: accepted, charge: a.ID}
	case a.Status == statusDeclined && (resp.StatusCode == http.StatusPaymentRequired ||
		resp.StatusCode == http.StatusUnprocessableEntity): // 422 when the service looked it up
		return result{kind: declined}
	}
	after := askAgain
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		after = min(max(askAgain, time.Duration(s)*time.Second), askAgainMax)
	}
	return result{kind: outcomeUnknown, after: after, says: fmt.Sprintf(
		"The service would not guess (%d %s); the shop asks again.", resp.StatusCode, a.Code)}
}

// naive pays straight at the gateway, and again when that fails, as shops do
// that have no service between.
type naive struct {
	url    string
	client *http.Client
}

// naiveTries is how often the naive shop tries.
const naiveTries = 3

func (n naive) pay(ctx context.Context, c call) result {
	body, err := chargeBody(c.id)
	if err != nil {
		return result{kind: gaveUp}
	}
	for range naiveTries {
		if r := n.once(ctx, body); r.kind == accepted || r.kind == declined {
			return r
		}
		if ctx.Err() != nil {
			break
		}
	}
	return result{kind: gaveUp}
}

func (n naive) once(ctx context.Context, body []byte) result {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+chargesPath, bytes.NewReader(body))
	if err != nil {
		return result{kind: outcomeUnknown}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := n.client.Do(req)
	if err != nil {
		return result{kind: outcomeUnknown}
	}
	defer func() { _ = resp.Body.Close() }()
	defer drain(resp.Body)
	return readAnswer(resp)
}
