package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"onced/kv/claim"
	"onced/kv/memkv"
	"onced/saga"
	"onced/saga/idemhttp"
)

// oncePerKey is the middleware for Echo. What Echo does with an error of a handler
// has to happen inside of it: echo.WrapMiddleware leaves it for later, when the
// middleware has already stored an empty answer.
func oncePerKey(once func(http.Handler) http.Handler) echo.MiddlewareFunc {
	type call struct {
		c    echo.Context
		next echo.HandlerFunc
	}
	type callKey struct{}
	guarded := once(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := r.Context().Value(callKey{}).(call)
		outer := call.c.Response()
		defer call.c.SetResponse(outer)
		call.c.SetRequest(r)
		call.c.SetResponse(echo.NewResponse(w, call.c.Echo()))
		if err := call.next(call.c); err != nil {
			call.c.Error(err)
		}
	}))
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx := context.WithValue(c.Request().Context(), callKey{}, call{c, next})
			guarded.ServeHTTP(c.Response(), c.Request().WithContext(ctx))
			return nil
		}
	}
}

// echoShop is an Echo server that charges once per key.
func echoShop(claims *claim.Book, charge func(context.Context) error) (*echo.Echo, error) {
	once, err := idemhttp.Middleware(claims, idemhttp.Config{Operation: "pay",
		Principal: func(r *http.Request) string { return r.Header.Get("Account") }})
	if err != nil {
		return nil, err
	}
	e := echo.New()
	e.POST("/pay", func(c echo.Context) error {
		if err := charge(c.Request().Context()); err != nil {
			return err
		}
		return c.String(http.StatusCreated, "charged")
	}, oncePerKey(once))
	return e, nil
}

func pay(e http.Handler) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("10 EUR"))
	r.Header.Set("Idempotency-Key", "order-1")
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}

// The middleware under Echo.
func Example_echo() {
	store := memkv.New(memkv.Options{}) // boltkv.Open in a real program
	defer store.Close()
	claims, err := claim.New(context.Background(), store, claim.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := echoShop(claims, func(ctx context.Context) error {
		fmt.Println("charging with a key of", len(saga.DownstreamKey(ctx)), "characters")
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		w := pay(e)
		fmt.Println(w.Code, w.Body, "replayed:", w.Header().Get("Idempotency-Replayed") == "true")
	}
	// Output:
	// charging with a key of 35 characters
	// 201 charged replayed: false
	// 201 charged replayed: true
}

// Errors of an Echo handler are answers of their own, and count as such.
func TestEchoErrors(t *testing.T) {
	for _, c := range []struct {
		err           error
		first, second int
		charges       int
	}{
		{echo.NewHTTPError(http.StatusPaymentRequired, "declined"), 402, 402, 1},
		{errors.New("who knows"), 500, 409, 1},
		{echo.NewHTTPError(http.StatusTooManyRequests, "later"), 429, 429, 2},
	} {
		store := memkv.New(memkv.Options{})
		claims, err := claim.New(t.Context(), store, claim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		e, err := echoShop(claims, func(context.Context) error { n++; return c.err })
		if err != nil {
			t.Fatal(err)
		}
		if w := pay(e); w.Code != c.first {
			t.Errorf("%v: %d %s", c.err, w.Code, w.Body)
		}
		if w := pay(e); w.Code != c.second {
			t.Errorf("%v: then %d %s", c.err, w.Code, w.Body)
		}
		if n != c.charges {
			t.Errorf("%v: %d charges", c.err, n)
		}
		_ = store.Close()
	}
}
