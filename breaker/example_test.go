package breaker_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
)

// An attempt behind a breaker: ask before it, settle after it, whatever happens in between.
func Example() {
	b, err := breaker.New("payments", breaker.Settings{MinResults: 3}, func(c breaker.Change) {
		fmt.Printf("%s: %v -> %v\n", c.Name, c.From, c.To)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer srv.Close()

	attempt := func() error {
		pass, err := b.Allow()
		if err != nil {
			return err // nothing is sent
		}
		defer pass.Settle(breaker.Failure) // if what follows panics

		resp, err := http.Get(srv.URL)
		if err != nil {
			pass.Settle(breaker.ResultOf(classify.Error(err)))
			return err
		}
		defer resp.Body.Close()
		if v, failed := classify.Status(resp.StatusCode, resp.Header, time.Now()); failed {
			pass.Settle(breaker.ResultOf(v))
			return errors.New(resp.Status)
		}
		pass.Settle(breaker.Success)
		return nil
	}
	for range 3 {
		fmt.Println(attempt())
	}
	fmt.Println(errors.Is(attempt(), breaker.ErrOpen))
	// Output:
	// 500 Internal Server Error
	// 500 Internal Server Error
	// payments: closed -> open
	// 500 Internal Server Error
	// true
}

func ExampleOpenError() {
	b, err := breaker.New("payments", breaker.Settings{MinResults: 1}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	pass, _ := b.Allow()
	pass.Settle(breaker.Failure)

	_, err = b.Allow()
	if open, ok := errors.AsType[*breaker.OpenError](err); ok {
		wait := time.Until(open.RetryAt)
		fmt.Println(open.Name, wait > 3*time.Second && wait <= 6*time.Second) // 5 s, give or take 20 %
	}
	// Output: payments true
}

func ExampleSettings_Validate() {
	s := breaker.Settings{FailureRatio: 50, OpenFor: time.Minute, MaxOpenFor: time.Second}
	fmt.Println(s.Validate())
	// Output:
	// breaker: FailureRatio is 50: allowed is 0 (the default) or above 0 to 1
	// breaker: MaxOpenFor is 1s: allowed is 0 (the default) or at least OpenFor, which is 1m0s
}

func ExampleResultOf() {
	for _, status := range []int{404, 408, 429, 500, 501, 503} {
		v, _ := classify.Status(status, nil, time.Now())
		fmt.Println(status, breaker.ResultOf(v))
	}
	v := classify.Verdict{Origin: classify.Caller}
	fmt.Println("cancelled by the caller", breaker.ResultOf(v))
	// Output:
	// 404 success
	// 408 failure
	// 429 excluded
	// 500 failure
	// 501 excluded
	// 503 failure
	// cancelled by the caller excluded
}
