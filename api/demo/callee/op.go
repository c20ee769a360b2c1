package callee

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"onced/api/demo/book"
	"onced/kv/money"
)

// Request is the body of every call; which fields count depends on the call.
type Request struct {
	Order string `json:"order"`
	// Reference names one try of the order.
	Reference string       `json:"reference"`
	Customer  string       `json:"customer,omitempty"`
	Points    int          `json:"points,omitempty"`
	Voucher   string       `json:"voucher,omitempty"`
	Amount    money.Amount `json:"amount,omitzero"`
	// Charge is what an order was paid with, and what is refunded.
	Charge string `json:"charge,omitempty"`
	// CallbackURL is where the gateway says what became of a charge.
	CallbackURL string `json:"callback_url,omitempty"`
}

// Answer is the body of every answer, and of a callback.
type Answer struct {
	ID        string `json:"id,omitempty"`
	Status    string `json:"status"`
	Reference string `json:"reference,omitempty"`
	// Event is the id of a callback.
	Event string `json:"event,omitempty"`
	Error string `json:"error,omitempty"`
}

// The words of the services.
const (
	StatusDone    = "done"    // it happened
	StatusPending = "pending" // it was taken on
	StatusFailed  = "failed"  // it did not happen, and will not
	statusNone    = "none"
)

// op is one call of an operation.
type op struct {
	Request
	service *service
	name    string // of the operation
	undo    bool
	value   string
	key     string
	arrived time.Time
	how     manner
	// safe says that the operation may be delivered twice.
	safe bool
	do   func(*op) (reply, error)
}

// reply is what a service answers.
type reply struct {
	status int
	Answer
	// point is the crash that is passed when the call has changed something, else "".
	point string
	// wait, when it is there, is waited for before the answer.
	wait <-chan struct{}
}

// errLate means that a service has had no time to do something.
var errLate = errors.New("demo: it is too late for that")

// handle makes the handler of an operation.
func (s *service) handle(name string, undo bool, do func(*op) (reply, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		o := &op{service: s, name: name, undo: undo, do: do, arrived: s.Clock.Now()}
		s.activity(1)
		defer s.activity(-1)
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&o.Request)
		if err != nil || o.Order == "" || o.Reference == "" {
			writeJSON(w, http.StatusBadRequest, Answer{Status: StatusFailed,
				Error: "order and reference are needed"})
			return
		}
		o.key = r.Header.Get("Idempotency-Key")
		if !s.keyed() {
			o.key = ""
		}
		o.safe = undo || o.key != ""
		s.take(w, o)
	}
}

// point is where a crash is armed for the call.
func (o *op) point(when string) string {
	if o.undo {
		return when + UndoPoint
	}
	return when + string(o.service.name)
}

// take takes a call as its manner says.
func (s *service) take(w http.ResponseWriter, o *op) {
	attempt := s.attempt(o.name, o.Reference)
	if s.Crash(o.point(Before), o.Order) {
		panic(http.ErrAbortHandler) // the call died with its caller
	}
	o.how = s.Plan.manner(o, attempt, s.on)
	answerAt := o.arrived.Add(s.Plan.between("answer", o.Reference, answerFrom, answerTo))
	switch o.how {
	case lost:
		s.Tell(o.Order, "The call to "+s.title()+" was lost: nothing happened there, and no answer came.")
		s.until(answerAt)
		panic(http.ErrAbortHandler)
	case belated:
		s.Tell(o.Order, title(s.title())+" let the call lie until its caller had given up.")
		s.until(o.arrived.Add(s.Plan.between("belated", o.Reference, belatedFrom, belatedTo)))
	case prompt, tardy, cut, failed:
	}
	a, err := s.perform(o)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if a.wait != nil {
		<-a.wait
	}
	switch o.how {
	case tardy, belated:
		if o.how == tardy {
			s.Tell(o.Order, title(s.title())+" answered too late: the caller did not learn of it.")
		}
		s.until(answerAt)
	case cut:
		s.Tell(o.Order, "The answer of "+s.title()+" was lost.")
		panic(http.ErrAbortHandler)
	case failed:
		s.Tell(o.Order, title(s.title())+" did it, and answered 500 all the same.")
		writeJSON(w, http.StatusInternalServerError,
			Answer{Status: StatusFailed, Error: "it broke afterwards"})
		return
	case prompt, lost:
	}
	writeJSON(w, a.status, a.Answer)
}

// perform does it, twice when the network delivers the call twice, and passes the
// crash after it. What came late is no point to crash at: its caller has given up,
// and may have looked it up by now.
func (s *service) perform(o *op) (reply, error) {
	double := make(chan struct{})
	if o.safe && s.on(Duplicate) && s.Plan.doubles(o) {
		s.activity(1)
		s.work.Go(func() {
			defer s.activity(-1)
			defer close(double)
			second := *o
			_, _ = s.once(&second)
		})
		<-double // the copy overtakes the call
	}
	a, err := s.once(o)
	if err == nil && a.point != "" && o.how != belated && s.Crash(a.point, o.Order) {
		panic(http.ErrAbortHandler)
	}
	return a, err
}

// once does it, unless it is too late, or done for the same key already.
func (s *service) once(o *op) (reply, error) {
	defer s.lock(o.Reference)()
	if s.Ctx.Err() != nil || s.Clock.Now().Sub(o.arrived) > BookBy {
		return reply{}, errLate
	}
	if o.key != "" {
		if e, found := s.ledger.Keyed(o.key); found {
			s.Tell(o.Order, title(s.title())+" knew the idempotency key and did nothing again.")
			return s.again(o, e), nil
		}
	}
	return o.do(o)
}

// again answers a call whose key is known as the first time.
func (s *service) again(o *op, e book.Entry) reply {
	if e.Kind == book.Refusal {
		return refusalOf(s.name)
	}
	status := http.StatusOK
	if s.name == book.Charge && !o.undo {
		return reply{status: http.StatusAccepted, Answer: Answer{ID: e.ID, Status: StatusPending,
			Reference: e.Reference}}
	}
	return reply{status: status, Answer: Answer{ID: e.ID, Status: StatusDone, Reference: e.Reference}}
}

// entry begins an entry for the call.
func (o *op) entry(kind book.Kind, prefix string) book.Entry {
	return book.Entry{Kind: kind, ID: o.service.ledger.NextID(prefix), Order: o.Order, Reference: o.Reference,
		Value: o.value, Key: o.key, At: o.service.Clock.Now(), Asked: o.arrived}
}

// effect writes down what the call has caused.
func (o *op) effect(prefix, story string) (reply, error) {
	e := o.entry(book.Effect, prefix)
	if err := o.service.ledger.Add(e); err != nil {
		return reply{}, err
	}
	o.service.Tell(o.Order, fmt.Sprintf(story, e.ID))
	return reply{status: http.StatusCreated, point: o.point(After),
		Answer: Answer{ID: e.ID, Status: StatusDone, Reference: o.Reference}}, nil
}

// refuse writes down that the call is refused.
func (o *op) refuse(story string) (reply, error) {
	if err := o.service.ledger.Add(o.entry(book.Refusal, "no")); err != nil {
		return reply{}, err
	}
	o.service.Tell(o.Order, story)
	return refusalOf(o.service.name), nil
}

// refusalOf is how a service refuses.
func refusalOf(s book.Service) reply {
	status := http.StatusUnprocessableEntity
	if s == book.Charge {
		status = http.StatusPaymentRequired
	}
	return reply{status: status, Answer: Answer{Status: StatusFailed, Error: refusals[s]}}
}

// refusals are the reasons.
var refusals = map[book.Service]string{book.Loyalty: "not enough points", book.Voucher: "not valid",
	book.Charge: "the card was declined", book.Order: "out of stock"}

// refused reports that the plan wants the call to be refused.
func (o *op) refused() bool { return o.service.Plan.refuses(o.service.name, o, o.service.on(Refuse)) }

// takeBack writes down that an effect was taken back, or that there was none.
func (o *op) takeBack(of *book.Entry, story string) (reply, error) {
	e := o.entry(book.Undo, "undo")
	if e.Value = ""; of != nil {
		e.Of, e.Value = of.ID, of.Value
	}
	if err := o.service.ledger.Add(e); err != nil {
		return reply{}, err
	}
	o.service.Tell(o.Order, story)
	return reply{status: http.StatusOK, point: o.point(After),
		Answer: Answer{ID: e.ID, Status: StatusDone, Reference: o.Reference}}, nil
}

// lookUp makes the handler that says what became of a reference.
func (s *service) lookUp(w http.ResponseWriter, r *http.Request) {
	s.activity(1)
	defer s.activity(-1)
	reference := r.PathValue("reference")
	order := orderOf(reference)
	attempt := s.attempt("look", reference)
	if s.on(Fail) && attempt <= lastFault && s.Plan.roll("look "+string(s.name), reference, attempt, 100) <
		s.Plan.fail {
		s.Tell(order, "The look-up at "+s.title()+" was answered with 503.")
		writeJSON(w, http.StatusServiceUnavailable, Answer{Status: StatusFailed, Error: "not now"})
		return
	}
	a := s.ledger.Find(reference)
	switch {
	case len(a.Effects) > 0:
		s.Tell(order, "It was looked up at "+s.title()+" instead of being done again.")
		writeJSON(w, http.StatusOK, Answer{ID: a.Effects[0].ID, Status: StatusDone, Reference: reference})
	case a.Refused || len(a.Undos) > 0:
		s.Tell(order, "It was looked up at "+s.title()+": refused.")
		writeJSON(w, http.StatusOK,
			Answer{Status: StatusFailed, Reference: reference, Error: refusals[s.name]})
	default:
		e := book.Entry{Kind: book.Absent, ID: "none", Order: order, Reference: reference, At: s.Clock.Now()}
		if err := s.ledger.Add(e); err != nil {
			panic(http.ErrAbortHandler)
		}
		s.Tell(order, "It was looked up at "+s.title()+", which knew of nothing yet.")
		writeJSON(w, http.StatusNotFound,
			Answer{Status: statusNone, Error: "there is nothing for this reference"})
	}
}

// writeJSON answers.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // plain structs; else the client has gone
}
