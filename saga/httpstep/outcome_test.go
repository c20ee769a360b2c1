package httpstep

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"onced/saga"
	"onced/saga/idemhttp"
)

// meanings is the table of every status: what is not in it is unknown.
var meanings = map[Meaning]string{
	Done:       "200 201 203 204 205 206 207 208 209 210 226 250 299",
	Refused:    "400 402 403 404 405 410 411 413 414 415 422 431 451",
	Retry:      "401 407 429",
	Unfinished: "202 409 425",
}

func meaningOf(status int) Meaning {
	for m, list := range meanings {
		for text := range strings.FieldsSeq(list) {
			if text == strconv.Itoa(status) {
				return m
			}
		}
	}
	if status >= 200 && status <= 299 {
		return Done
	}
	return Unknown
}

// TestEveryStatus sends each status from 200 to 599 over the wire, and asks for all
// the others that there could be.
func TestEveryStatus(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Path[1:])
		w.WriteHeader(status)
	})
	c := newCaller(t, Config{})
	sagaMeaning := map[Meaning]saga.Outcome{Done: saga.OutcomeDone, Refused: saga.OutcomeRefused,
		Retry: saga.OutcomeRetry, Unfinished: saga.OutcomeUnknown, Unknown: saga.OutcomeUnknown}
	for status := 200; status <= 599; status++ {
		reply, err := c.Do(t.Context(), post(s.URL+"/"+strconv.Itoa(status)))
		want := meaningOf(status)
		if got := saga.OutcomeOf(err); got != sagaMeaning[want] {
			t.Errorf("%d is %v, want %v: %v", status, got, sagaMeaning[want], err)
		}
		if reply == nil || reply.Status != status {
			t.Errorf("%d: the reply is %+v", status, reply)
		}
		if want == Done {
			continue
		}
		e := callError(t, err)
		var refused *saga.RefusedError
		if e.Status != status || e.Meaning != want || e.Credentials != (status == 401 || status == 407) ||
			errors.As(err, &refused) != (want == Refused) ||
			want == Refused && refused.Code != "http_"+strconv.Itoa(status) {
			t.Errorf("%d: %+v, %+v", status, e, refused)
		}
		if !strings.Contains(err.Error(), "answered "+strconv.Itoa(status)) || e.Reason() != err.Error() {
			t.Errorf("%d: %v", status, err)
		}
	}
	o := DefaultOutcomes()
	for status := -1000; status <= 2000; status++ {
		if status < 200 || status > 599 {
			if got := o.Of(status); got != Unknown {
				t.Errorf("%d is %v", status, got)
			}
		} else if got := o.Of(status); got != meaningOf(status) {
			t.Errorf("%d is %v, want %v", status, got, meaningOf(status))
		}
	}
}

// TestAgreesWithIdemhttp: what our own middleware and proxy answer means here what it
// means there; a status that is not done is never done here, and so on.
func TestAgreesWithIdemhttp(t *testing.T) {
	o := DefaultOutcomes()
	for status := 100; status <= 599; status++ {
		there, here := idemhttp.ClassOf(status), o.Of(status)
		if (there == saga.OutcomeRefused) != (here == Refused) || here == Done && there != saga.OutcomeDone ||
			here == Retry && there != saga.OutcomeRetry {
			t.Errorf("%d is %v there and %v here", status, there, here)
		}
	}
}

func TestAwaitOutcomes(t *testing.T) {
	o, d := AwaitOutcomes(), DefaultOutcomes()
	for status := 100; status <= 599; status++ {
		want := d.Of(status)
		if status == 202 {
			want = Done
		}
		if got := o.Of(status); got != want {
			t.Errorf("%d is %v, want %v", status, got, want)
		}
	}
}

func TestOwnLists(t *testing.T) {
	for _, c := range []struct {
		lists             string // done | refused | retry | unfinished | unknown, - is not written
		done, ref, rt, un string
	}{
		{"-|-|-|-|-", "200-201,203-299", "400,402-405,410-411,413-415,422,431,451", "401,407,429",
			"202,409,425"},
		{"2xx|-|-|-|-", "2xx", "400,402-405,410-411,413-415,422,431,451", "401,407,429", "409,425"},
		{"-|409|-|-|-", "200-201,203-299", "409", "401,407,429", "202,425"},
		{"200 404|-|-|-|-", "200,404", "400,402-403,405,410-411,413-415,422,431,451", "401,407,429",
			"202,409,425"},
		{"-|-|503|-|-", "200-201,203-299", "400,402-405,410-411,413-415,422,431,451", "503", "202,409,425"},
		{"-|-|-|503|-", "200-201,203-299", "400,402-405,410-411,413-415,422,431,451", "401,407,429",
			"503"},
		{"-|-|-|-|202 404 429", "200-201,203-299", "400,402-403,405,410-411,413-415,422,431,451",
			"401,407", "409,425"},
		{"2xx|-|-|-|204", "200-203,205-299", "400,402-405,410-411,413-415,422,431,451", "401,407,429",
			"409,425"},
		{"-|-|-||-", "200-201,203-299", "400,402-405,410-411,413-415,422,431,451", "401,407,429", ""},
		{"2xx|3xx 4xx|5xx||-", "2xx", "3xx,4xx", "5xx", ""},
	} {
		l := parseLists(t, c.lists)
		o, err := DefaultOutcomes().With(l)
		if err != nil {
			t.Errorf("%s: %v", c.lists, err)
			continue
		}
		got := []string{o.Done.String(), o.Refused.String(), o.Retry.String(), o.Unfinished.String()}
		for i, want := range []string{c.done, c.ref, c.rt, c.un} {
			if got[i] != want {
				t.Errorf("%s: list %d is %q, want %q", c.lists, i, got[i], want)
			}
		}
	}
	for lists, want := range map[string]string{
		"200|200|-|-|-":     "outcomes.refused: has 200",
		"-|404|4xx|-|-":     "outcomes.retry: has 404",
		"2xx|-|-|202|-":     "outcomes.unfinished: has 202",
		"|-|-|-|-":          "outcomes.done: is empty",
		"-|-|2xx|-|-":       "outcomes.done: is empty",
		"200|-|-|-|200-299": "outcomes.done: is empty",
	} {
		_, err := DefaultOutcomes().With(parseLists(t, lists))
		var wrong *OutcomesError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", lists, err, want)
		}
	}
}

func parseLists(t *testing.T, text string) Lists {
	t.Helper()
	var l Lists
	into := []**Statuses{&l.Done, &l.Refused, &l.Retry, &l.Unfinished, &l.Unknown}
	for i, list := range strings.Split(text, "|") {
		if list != "-" {
			s := mustStatuses(t, list)
			*into[i] = &s
		}
	}
	return l
}

// TestOwnListsCount: the lists of a step reach the wire.
func TestOwnListsCount(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	done := mustStatuses(t, "404")
	o, err := DefaultOutcomes().With(Lists{Done: &done})
	if err != nil {
		t.Fatal(err)
	}
	req := post(s.URL)
	req.Outcomes = &o
	if reply, err := newCaller(t, Config{}).Do(t.Context(), req); err != nil || reply.Status != 404 {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestStatuses(t *testing.T) {
	for in, want := range map[string]string{
		"200": "200", "2xx": "2xx", "2XX": "2xx", "402-405": "402-405", "200-299": "2xx",
		"200,201": "200-201",
		"404,2xx": "2xx,404", "": "", "200 201 203": "200-201,203", "599": "599",
		"200-599": "2xx,3xx,4xx,5xx",
		"299-300": "299-300",
	} {
		if got := mustStatuses(t, in).String(); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
		if again := mustStatuses(t, strings.ReplaceAll(want, ",", " ")); again != mustStatuses(t, in) {
			t.Errorf("%q does not come back from its text", in)
		}
	}
	for _, bad := range []string{"99", "100", "1xx", "600", "6xx", "20", "0200", "xx", "2x", "402-401", "a",
		"200-",
		"-200", "+200", "200-2xx", ","} {
		var wrong *StatusError
		if _, err := ParseStatuses(bad); !errors.As(err, &wrong) {
			t.Errorf("%q is taken: %v", bad, err)
		}
	}
	if !(Statuses{}).Empty() || mustStatuses(t, "200").Empty() {
		t.Error("Empty")
	}
	if got := mustStatuses(t, "404,2xx").With(mustStatuses(t, "405,200")).String(); got != "2xx,404-405" {
		t.Errorf("With is %s", got)
	}
}

func TestNames(t *testing.T) {
	for m, want := range map[Meaning]string{Unknown: "unknown", Done: "done", Refused: "refused",
		Retry:      "retry",
		Unfinished: "unfinished", 99: "unknown"} {
		if m.String() != want {
			t.Errorf("%d is %q", m, m)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a caller without a client")
	}
}
