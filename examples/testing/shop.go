// Package shop is a part of a program that is built on the SDK. Its tests show
// how such code is tested: every failure that a network has, in no real time.
//
// Four things make that possible, and the program has them for other reasons:
//
//   - The policies are an argument ([New]), so a test can have its own. It says
//     Jitter: retry.NoJitter, and waits are known to the nanosecond.
//   - What makes the requests is an argument as well, an [http.RoundTripper]. A
//     test gives a function. What is not HTTP is a function from the start.
//   - The SDK uses package time as it is, so in the bubble of a
//     [testing/synctest] test a wait of 30 s is over at once. Sockets do not work
//     in there, and are not needed.
//   - Callers decide by errors.Is and not by text, so a test can do so too.
//
// shop_test.go has a row for each way in which a call can end, and
// network_test.go what it is made of. What a test has to do to provoke it:
//
//   - Retryable: an error marked with classify.As; over HTTP a 429, or a
//     connection that was not made. A RoundTripper proves that as net/http does:
//     it calls the GetConn hook of httptrace and not GotConn. An error without
//     hooks proves nothing and is ambiguous, whatever it says.
//   - Permanent: classify.As; a 4xx.
//   - Ambiguous: any error that nobody knows; a broken connection; a 500.
//   - Throttled with a hint: classify.After; a 429 or 503 with Retry-After.
//   - Pushback: such an answer over HTTP holds back every call to its host. A hint
//     above MaxRetryAfter ends a call at once.
//   - Breaker open: Breaker: breaker.Settings{MinResults: 1} and one failure.
//   - Budget empty: Budget: retry.Budget{Burst: 1} and two failures in one call.
//   - Attempt timeout and deadline: an answer that waits for the context.
//   - Caller cancel: cancel in an attempt, or in a wait after [synctest.Wait].
//   - Outcome unknown: an ambiguous failure of a write whose key is not trusted.
package shop

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
)

// Answer is what a customer is told.
type Answer string

const (
	// Done means that it happened.
	Done Answer = "done"
	// Refused means that it cannot happen.
	Refused Answer = "refused"
	// TryLater means that it did not happen, and may the next time.
	TryLater Answer = "try later"
	// Checking means that nobody knows yet whether it happened: it must not be
	// ordered again.
	Checking Answer = "we are checking"
)

// Shop sells things that a warehouse keeps and that another company charges for.
type Shop struct {
	payments  *http.Client
	warehouse *retry.Destination
	reserve   func(ctx context.Context, item, key string) error
}

// PaymentsURL is where charges go.
const PaymentsURL = "https://payments.example.com/charges"

// New returns a shop. Requests are made by base, nil for the network; the
// warehouse is called by reserve, with a key that it honours.
func New(o retry.Organization, base http.RoundTripper, reserve func(ctx context.Context, item, key string) error) (*Shop, error) {
	layer, err := retry.NewLayer(o, nil)
	if err != nil {
		return nil, err
	}
	return &Shop{
		payments:  &http.Client{Transport: &httpclient.Transport{Layer: layer, Base: base}},
		warehouse: layer.To("warehouse"),
		reserve:   reserve,
	}, nil
}

// Reserve puts an item aside. The error says more than the answer, for the log.
func (s *Shop) Reserve(ctx context.Context, item string) (Answer, error) {
	err := s.warehouse.Do(ctx, retry.Keyed, func(ctx context.Context) error {
		return s.reserve(ctx, item, retry.Key(ctx))
	}, retry.Named("reserve"))
	return answer(err), err
}

// Charge takes the money for an order.
func (s *Shop) Charge(ctx context.Context, order string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, PaymentsURL, strings.NewReader(order))
	if err != nil {
		return Refused, err
	}
	resp, err := s.payments.Do(req)
	if err == nil {
		if err = httpclient.Check(resp); err == nil {
			err = resp.Body.Close()
		}
	}
	return answer(err), err
}

// answer is the only place where the shop asks an error what it means.
func answer(err error) Answer {
	stop := err
	if status, ok := errors.AsType[*httpclient.StatusError](err); ok {
		stop = status.Report.Stop
	}
	switch {
	case err == nil:
		return Done
	case errors.Is(err, retry.ErrOutcomeUnknown):
		return Checking
	case errors.Is(stop, retry.ErrPermanent):
		return Refused
	}
	return TryLater
}
