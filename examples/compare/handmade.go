package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
	"github.com/sony/gobreaker/v2"
)

// handMade is what people put together themselves: a backoff library, a
// breaker, a time limit for the whole and one for each attempt, and a key.
type handMade[T any] struct {
	breaker *gobreaker.CircuitBreaker[T]
	waits   waits
}

// waits are those between attempts.
type waits struct {
	base, most time.Duration
	jitter     float64 // 0 to 1, of the wait
}

var (
	defaultWaits = waits{base: baseDelay, most: maxDelay, jitter: 1}
	// hardlyAny are for measuring what repeats cost.
	hardlyAny = waits{base: time.Microsecond, most: time.Microsecond}
)

// Two of three attempts fail where failures are measured, and no breaker shall open there.
const (
	defaultRatio = 0.5
	higherRatio  = 0.9
)

func newHandMade[T any](w waits, failureRatio float64) *handMade[T] {
	return &handMade[T]{waits: w, breaker: gobreaker.NewCircuitBreaker[T](gobreaker.Settings{
		Name: "payments", Interval: 30 * time.Second, BucketPeriod: 3 * time.Second, Timeout: 5 * time.Second, MaxRequests: 3,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= 20 && float64(c.TotalFailures) >= failureRatio*float64(c.Requests)
		},
	})}
}

func (h *handMade[T]) schedule(ctx context.Context) backoff.BackOff {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(h.waits.base), backoff.WithMaxInterval(h.waits.most), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(h.waits.jitter), backoff.WithMaxElapsedTime(0),
	)
	return backoff.WithContext(backoff.WithMaxRetries(b, attempts-1), ctx)
}

// do calls op until it succeeds.
func (h *handMade[T]) do(ctx context.Context, op func(ctx context.Context, key string) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	key := uuid.NewString()
	return backoff.RetryWithData(func() (T, error) {
		ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		v, err := h.breaker.Execute(func() (T, error) { return op(ctx, key) })
		if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
			err = backoff.Permanent(err)
		}
		return v, err
	}, h.schedule(ctx))
}

// handMadeTransport does the same for requests: a body and a key that are the
// same in each attempt, and contexts that end with the response's body. Which
// requests need no key it does not ask.
type handMadeTransport struct {
	*handMade[*http.Response]
	base http.RoundTripper
}

// errStatus is what a status becomes that is worth another attempt.
var errStatus = errors.New("status asks for another attempt")

func (h handMadeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	whole, endWhole := context.WithTimeout(req.Context(), deadline)
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		if err = errors.Join(err, req.Body.Close()); err != nil {
			endWhole()
			return nil, err
		}
	}
	key := uuid.NewString()
	var last *http.Response
	resp, err := backoff.RetryWithData(func() (*http.Response, error) {
		if last != nil {
			io.Copy(io.Discard, io.LimitReader(last.Body, 4<<10))
			last.Body.Close()
			last = nil
		}
		ctx, end := context.WithTimeout(whole, attemptTimeout)
		attempt := req.Clone(ctx)
		if body != nil {
			attempt.Body = io.NopCloser(bytes.NewReader(body))
		}
		attempt.Header.Set("Idempotency-Key", key)
		resp, err := h.breaker.Execute(func() (*http.Response, error) {
			resp, err := h.base.RoundTrip(attempt)
			if err == nil && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500) {
				err = errStatus
			}
			return resp, err
		})
		if resp == nil {
			end()
		} else {
			resp.Body = &endingBody{ReadCloser: resp.Body, end: end}
			last = resp
		}
		if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
			err = backoff.Permanent(err)
		}
		return resp, err
	}, h.schedule(whole))
	if last != nil {
		last.Body = &endingBody{ReadCloser: last.Body, end: endWhole}
		return last, nil
	}
	endWhole()
	return resp, err
}

// endingBody ends a context when it is closed.
type endingBody struct {
	io.ReadCloser
	end context.CancelFunc
}

func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
