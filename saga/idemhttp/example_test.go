package idemhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"onced/kv/claim"
	"onced/kv/memkv"
	"onced/saga"
	"onced/saga/idemhttp"
)

// A handler of net/http that charges once per key.
func Example() {
	store := memkv.New(memkv.Options{}) // boltkv.Open in a real program
	defer store.Close()
	claims, err := claim.New(context.Background(), store, claim.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	once, err := idemhttp.Middleware(claims, idemhttp.Config{
		Operation: "pay",
		Principal: func(r *http.Request) string { return r.Header.Get("Account") }, // after authentication
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	charges := 0
	mux := http.NewServeMux()
	mux.Handle("/pay", once(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charges++ // at the gateway, with this key:
		_ = saga.DownstreamKey(r.Context())
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "charge %d", charges)
	})))
	for _, body := range []string{"10 EUR", "10 EUR", "99 EUR"} {
		r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader(body))
		r.Header.Set("Account", "shop-17")
		r.Header.Set("Idempotency-Key", "order-1")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Idempotency-Replayed"), strings.SplitN(w.Body.String(), ",",
			2)[0])
	}
	// Output:
	// 201  charge 1
	// 201 true charge 1
	// 422  {"type":"urn:onced:problem:idempotency_mismatch"
}

// A handler that validates before it charges: what it refuses then is not stored,
// and the corrected request may use the key.
func ExampleNotDone() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		idemhttp.NotDone(r.Context())
		if r.ContentLength == 0 {
			http.Error(w, "an amount is required", http.StatusBadRequest)
			return
		}
		idemhttp.Begun(r.Context())
		w.WriteHeader(http.StatusCreated)
	})
	store := memkv.New(memkv.Options{})
	defer store.Close()
	claims, err := claim.New(context.Background(), store, claim.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	once, err := idemhttp.Middleware(claims, idemhttp.Config{Operation: "pay",
		Principal: idemhttp.OnePrincipal})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, body := range []string{"", "10 EUR"} {
		r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "order-1")
		w := httptest.NewRecorder()
		once(handler).ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 400
	// 201
}
