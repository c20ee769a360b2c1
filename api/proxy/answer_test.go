package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"onced/api/config"
	"onced/saga/httpstep"
)

// attempts is a search that lists all attempts of a payment.
const attempts = plain + `
  settles_after: 1ms
  check:
    path: /search
    query: {key: "{downstream_key}"}
    done: {status: 200, field: "data.*.status", equals: succeeded}
    refused: {status: 200, field: "data.*.status", equals: [failed, expired]}
    absent: {status: 200, field: data, is: empty}
    reply_field: data.*
    reply_status: 201
`

// searched serves a route whose first request is lost and whose look-up answers
// body; what is sent again is answered 201.
func searched(t *testing.T, yaml, body string) (*setup, *wire) {
	t.Helper()
	var posts atomic.Int64
	w := newWire(t, func(w *wire, _ int, conn net.Conn, r *bufio.Reader) {
		req, ok := w.request(r)
		if !ok {
			return
		}
		status, text := "200 OK", body
		if req.Method == http.MethodPost {
			if posts.Add(1) == 1 { // lost
				return
			}
			status, text = "201 Created", "sent again"
		}
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", status, len(text), text)
	})
	clock, store := clockAndStore()
	s := setupOn(t, store, routesOf(t, yaml, w.url()))
	s.pays(502, "upstream_failed", false)
	clock.Add(time.Second)
	return s, w
}

func TestIK08_SeveralAttempts(t *testing.T) {
	for body, want := range map[string]struct {
		status int
		part   string
	}{
		`{"data":[{"status":"succeeded","n":1}]}`: {
			201, `{"status":"succeeded","n":1}`},
		`{"data":[{"status":"failed"},{"n":  2,"status":"succeeded"}]}`: {
			201, `{"n":  2,"status":"succeeded"}`},
		`{"data":[{"status":"pending"},{"status":"succeeded","n":3},{}]}`: {
			201, `{"status":"succeeded","n":3}`},
		`{"data":[{"status":"failed","n":4}]}`: {
			422, `{"status":"failed","n":4}`},
		`{"data":[{"status":"expired","n":5},{"status":"failed"}]}`: {
			422, `{"status":"expired","n":5}`},
		`{"data":[{"status":"failed"},{"status":"pending"}]}`: {409, "outcome_unknown"},
		`{"data":[{"status":"failed"},{}]}`:                   {409, "outcome_unknown"},
		`{"data":[{"status":"failed"},null]}`:                 {409, "outcome_unknown"},
		`{"data":[{"status":"pending"}]}`:                     {409, "outcome_unknown"},
		`{"data":{"status":"succeeded"}}`:                     {409, "outcome_unknown"},
		`{"data":[{"status":["succeeded"]}]}`:                 {409, "outcome_unknown"},
		`{"data":null}`:                                       {409, "outcome_unknown"},
		`{"data":{}}`:                                         {409, "outcome_unknown"},
		`{"data":""}`:                                         {409, "outcome_unknown"},
		`{"error":"slow down"}`:                               {409, "outcome_unknown"},
		`{"data":[]`:                                          {409, "outcome_unknown"},
		`{"data":[]} {}`:                                      {409, "outcome_unknown"},
		``:                                                    {409, "outcome_unknown"},
		` {"data": [ ] } `:                                    {201, "sent again"},
	} {
		s, _ := searched(t, attempts, body)
		resp, got := s.pay()
		whole := want.status == 409 || got == want.part
		if resp.StatusCode != want.status || !strings.Contains(got, want.part) || !whole {
			t.Errorf("%s: %d %s, want %d %s", body, resp.StatusCode, got, want.status, want.part)
		}
		if again, text := s.pay(); want.status != 409 && (again.StatusCode != want.status || text != got) {
			t.Errorf("%s: then %d %s", body, again.StatusCode, text)
		}
	}
}

func TestIK09_MissingField(t *testing.T) {
	const yaml = plain + `
  settles_after: 1ms
  check:
    path: /search/{downstream_key}
    done: {status: 200, field: found.charge.id}
    absent: {status: 200, field: found.charge, is: missing}
    reply_field: found.charge
`
	for body, want := range map[string]string{
		`{"found":{"charge":{"id":7}}}`: `{"id":7}`,
		`{"found":{"charge":{}}}`:       "outcome_unknown",
		`{"found":{"charge":null}}`:     "sent again",
		`{"found":{}}`:                  "sent again",
		`{"found":null}`:                "sent again",
		`{}`:                            "sent again",
		`{"found":"charge"}`:            "outcome_unknown",
		`{"found":[]}`:                  "outcome_unknown",
		`null`:                          "outcome_unknown",
		`"found"`:                       "outcome_unknown",
		``:                              "outcome_unknown",
	} {
		s, _ := searched(t, yaml, body)
		if resp, got := s.pay(); !strings.Contains(got, want) {
			t.Errorf("%s: %d %s, want %s", body, resp.StatusCode, got, want)
		}
	}
}

// A reply_field that leads nowhere stores nothing: the outcome stays unknown until
// the configuration is right.
func TestIK08_ReplyFieldThatIsNotThere(t *testing.T) {
	const yaml = plain + `
  settles_after: 1ms
  check:
    path: /search/{downstream_key}
    done: {status: 200, field: status, equals: paid}
    refused: {status: 200, field: status, equals: failed}
    reply_field: charge
`
	for _, status := range []string{"paid", "failed"} {
		s, w := searched(t, yaml, `{"status":"`+status+`","charge":null}`)
		s.pays(409, "nothing at reply_field", false)
		s.pays(409, "nothing at reply_field", false)
		if w.count() != 3 {
			t.Errorf("%q", w.got)
		}
	}
}

func TestWholeAnswerIsAList(t *testing.T) {
	ok, err := httpstep.ParseStatuses("200")
	if err != nil {
		t.Fatal(err)
	}
	absent := config.Match{Status: ok, Is: config.IsEmpty}
	done := absent
	done.Is, done.Field, done.Equals = "", "*", []string{"a"}
	for body, want := range map[string][2]bool{ // absent, done
		`[]`: {true, false}, `["b","a"]`: {false, true}, `["b"]`: {}, `{}`: {}, `null`: {}, `[[]]`: {},
		`[] []`: {},
	} {
		a := answer{200, []byte(body)}
		_, isAbsent := a.matches(absent, every)
		_, isDone := a.matches(done, one)
		if isAbsent != want[0] || isDone != want[1] {
			t.Errorf("%s: absent %v, done %v", body, isAbsent, isDone)
		}
	}
}
