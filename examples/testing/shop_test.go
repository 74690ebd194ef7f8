package shop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	shop "github.com/reintento/reintento/examples/testing"
	"github.com/reintento/reintento/retry"
)

// exact is a policy whose waits are known: 100 ms and 200 ms, and 1 s and 2 s after a throttled answer.
var exact = retry.Policy{Jitter: retry.NoJitter}

// with returns exact with some changes.
func with(change func(p *retry.Policy)) retry.Policy {
	p := exact
	change(&p)
	return p
}

// trusted is for a payment provider that is known to honour keys.
var trusted = with(func(p *retry.Policy) { p.Key.Honored = true })

func open(t *testing.T, p retry.Policy, n *network, reserve func(context.Context, string, string) error) *shop.Shop {
	t.Helper()
	s, err := shop.New(retry.Organization{Default: p}, n, reserve)
	require.NoError(t, err, "shop.New")
	return s
}

// The table is what a team would write about its own code: what can happen, what the customer is told, how many
// requests were sent, and how long it took. A minute in here takes no time.
func TestCharge(t *testing.T) {
	for _, tt := range []struct {
		name     string
		policy   retry.Policy
		replies  []reply
		want     shop.Answer
		is       []error // what the error matches
		requests int
		took     time.Duration
	}{
		{name: "success", policy: exact, replies: []reply{status(200)}, want: shop.Done, requests: 1},

		{name: "retryable: no connection, then one", policy: exact, replies: []reply{unreachable, status(200)},
			want: shop.Done, requests: 2, took: 100 * time.Millisecond},
		{name: "retryable: never a connection", policy: exact, replies: []reply{unreachable},
			want: shop.TryLater, is: []error{retry.ErrAttempts}, requests: 3, took: 300 * time.Millisecond},
		{name: "permanent", policy: exact, replies: []reply{status(402)}, want: shop.Refused, requests: 1},

		{name: "ambiguous, key not trusted: outcome unknown", policy: exact, replies: []reply{lost},
			want: shop.Checking, is: []error{retry.ErrOutcomeUnknown}, requests: 1},
		{name: "ambiguous, key trusted", policy: trusted, replies: []reply{lost, status(500), status(200)},
			want: shop.Done, requests: 3, took: 300 * time.Millisecond},
		{name: "ambiguous to the end, key trusted", policy: trusted, replies: []reply{lost},
			want: shop.Checking, is: []error{retry.ErrAttempts, retry.ErrOutcomeUnknown}, requests: 3, took: 300 * time.Millisecond},

		{name: "throttled without a hint", policy: exact, replies: []reply{status(429), status(200)},
			want: shop.Done, requests: 2, took: time.Second},
		{name: "a hint that is longer than the policy waits", policy: exact, replies: []reply{status(429, "Retry-After", "31")},
			want: shop.TryLater, requests: 1},
		{name: "a hint that does not fit into the deadline", policy: with(func(p *retry.Policy) { p.Deadline = 5 * time.Second }),
			replies: []reply{status(503, "Retry-After", "6")}, want: shop.TryLater, requests: 1},

		{name: "budget empty", policy: with(func(p *retry.Policy) { p.Budget.Burst = 1 }), replies: []reply{unreachable},
			want: shop.TryLater, is: []error{retry.ErrBudget}, requests: 2, took: 100 * time.Millisecond},

		{name: "every attempt times out", policy: trusted, replies: []reply{silence},
			want: shop.Checking, is: []error{retry.ErrDeadline, context.DeadlineExceeded}, requests: 3, took: 30 * time.Second},
		{name: "one attempt times out", policy: trusted, replies: []reply{silence, status(200)},
			want: shop.Done, requests: 2, took: 10*time.Second + 100*time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{replies: tt.replies}
				s := open(t, tt.policy, n, nil)
				start := time.Now()
				got, err := s.Charge(t.Context(), "order 17")
				took := time.Since(start)

				require.Equal(t, tt.want, got, "what the customer is told (%v)", err)
				require.Equal(t, tt.want == shop.Done, err == nil, "whether there is no error (%v)", err)
				for _, target := range tt.is {
					require.ErrorIs(t, err, target)
				}
				count, keys := n.requests()
				require.Equal(t, tt.requests, count, "requests")
				require.Len(t, keys, 1, "keys: one for all attempts")
				require.Equal(t, tt.took, took, "time that it took")
			})
		})
	}
}

// A hint is the earliest moment, and up to a tenth is put on top so that callers do not come back together: a test knows
// bounds, not the moment.
func TestChargeWaitsAsLongAsItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{replies: []reply{status(503, "Retry-After", "3"), status(200)}}
		s := open(t, with(func(p *retry.Policy) { p.PrivatePushback = true }), n, nil)
		start := time.Now()
		got, err := s.Charge(t.Context(), "order 17")
		require.NoError(t, err, "Charge")
		require.Equal(t, shop.Done, got)
		took := time.Since(start)
		require.GreaterOrEqual(t, took, 3*time.Second, "time that it took")
		require.LessOrEqual(t, took, 3300*time.Millisecond, "time that it took")
	})
}

// Pushback: what one call was told holds for the next one too, which sends nothing if it cannot wait so long.
func TestChargeIsHeldBackByWhatAnotherWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{replies: []reply{status(429, "Retry-After", "20"), status(200)}}
		s := open(t, with(func(p *retry.Policy) { p.MaxAttempts = 1; p.Deadline = 15 * time.Second }), n, nil)
		got, err := s.Charge(t.Context(), "order 17")
		require.Equal(t, shop.TryLater, got, "the first (%v)", err)

		time.Sleep(4 * time.Second)
		got, err = s.Charge(t.Context(), "order 18")
		require.ErrorIs(t, err, retry.ErrPushback, "the second, 16 s too early")
		require.Equal(t, shop.TryLater, got)
		e, ok := errors.AsType[*retry.Error](err)
		require.True(t, ok, "type of %v", err)
		require.Equal(t, 16*time.Second, e.RetryAfter, "when to come back")
		count, _ := n.requests()
		require.Equal(t, 1, count, "requests of both")

		time.Sleep(16 * time.Second)
		got, err = s.Charge(t.Context(), "order 19")
		require.NoError(t, err, "the third, after the pause")
		require.Equal(t, shop.Done, got)
	})
}

// Breaker open: one failure is enough if the policy says so. Probes, by which it closes again, are tested by letting
// time pass.
func TestChargeWithAnOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{replies: []reply{unreachable, status(200)}}
		s := open(t, with(func(p *retry.Policy) {
			p.MaxAttempts = 1
			p.Breaker = breaker.Settings{MinResults: 1, Probes: 1}
		}), n, nil)
		_, err := s.Charge(t.Context(), "order 17")
		require.ErrorIs(t, err, retry.ErrAttempts, "the failure that opens it")

		start := time.Now()
		got, err := s.Charge(t.Context(), "order 18")
		require.ErrorIs(t, err, breaker.ErrOpen, "the call that it refuses")
		require.Equal(t, shop.TryLater, got)
		require.Zero(t, time.Since(start), "time that the refusal took")
		count, _ := n.requests()
		require.Equal(t, 1, count, "requests of both")

		e, ok := errors.AsType[*retry.Error](err)
		require.True(t, ok, "type of %v", err)
		time.Sleep(e.RetryAfter)
		got, err = s.Charge(t.Context(), "order 19")
		require.NoError(t, err, "the probe")
		require.Equal(t, shop.Done, got)
	})
}

// Caller cancel in an attempt: what was sent may have arrived.
func TestChargeWhoseCallerGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{replies: []reply{silence}}
		s := open(t, trusted, n, nil)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		start := time.Now()
		got, err := s.Charge(ctx, "order 17")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, retry.ErrOutcomeUnknown)
		require.Equal(t, shop.Checking, got)
		require.Equal(t, 2*time.Second, time.Since(start), "time that it took")
	})
}

// Caller cancel in a wait: synctest.Wait returns when the call does nothing but wait.
func TestChargeWhoseCallerGoesDuringAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{replies: []reply{unreachable}}
		s := open(t, exact, n, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		hungUp := errors.New("customer hung up")
		var got shop.Answer
		var err error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			got, err = s.Charge(ctx, "order 17")
		}()
		synctest.Wait()
		cancel(hungUp)
		<-ended
		require.ErrorIs(t, err, hungUp)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, shop.TryLater, got, "nothing was sent")
		count, _ := n.requests()
		require.Equal(t, 1, count, "requests")
	})
}

// What is not HTTP is a function, and a failure is an error: plain, or marked with what it proves.
func TestReserve(t *testing.T) {
	for _, tt := range []struct {
		name     string
		policy   retry.Policy
		fails    []error // one for each attempt; then it succeeds
		want     shop.Answer
		is       []error
		attempts int
		took     time.Duration
	}{
		{name: "success", policy: exact, want: shop.Done, attempts: 1},
		{name: "retryable", policy: exact, fails: []error{classify.As(classify.Retryable, errDropped)},
			want: shop.Done, attempts: 2, took: 100 * time.Millisecond},
		{name: "permanent", policy: exact, fails: []error{classify.As(classify.Permanent, errDropped)},
			want: shop.Refused, is: []error{retry.ErrPermanent, errDropped}, attempts: 1},
		{name: "ambiguous, under a key", policy: exact, fails: []error{errDropped, errDropped},
			want: shop.Done, attempts: 3, took: 300 * time.Millisecond},
		{name: "ambiguous to the end", policy: exact, fails: []error{errDropped, errDropped, errDropped},
			want: shop.Checking, is: []error{retry.ErrAttempts, retry.ErrOutcomeUnknown, errDropped}, attempts: 3, took: 300 * time.Millisecond},
		{name: "a hint that is longer than the policy waits", policy: exact, fails: []error{classify.After(time.Hour, errDropped)},
			want: shop.TryLater, is: []error{retry.ErrPushback}, attempts: 1},
		{name: "budget empty", policy: with(func(p *retry.Policy) { p.Budget.Burst = 1 }),
			fails: []error{classify.As(classify.Retryable, errDropped), classify.As(classify.Retryable, errDropped)},
			want:  shop.TryLater, is: []error{retry.ErrBudget}, attempts: 2, took: 100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys := map[string]bool{}
				attempts := 0
				s := open(t, tt.policy, &network{}, func(_ context.Context, item, key string) error {
					keys[key] = true
					if attempts++; attempts <= len(tt.fails) {
						return tt.fails[attempts-1]
					}
					return nil
				})
				start := time.Now()
				got, err := s.Reserve(t.Context(), "chair")
				took := time.Since(start)
				require.Equal(t, tt.want, got, "what the customer is told (%v)", err)
				for _, target := range tt.is {
					require.ErrorIs(t, err, target)
				}
				require.Equal(t, tt.attempts, attempts, "attempts")
				require.Len(t, keys, 1, "keys: one for all attempts")
				require.Equal(t, tt.took, took, "time that it took")
			})
		})
	}
}

// Time limits: an operation that waits for its context runs into the limit of the attempt, and at last into that of
// the whole.
func TestReserveAtAWarehouseThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limits []time.Duration
		s := open(t, with(func(p *retry.Policy) { p.MaxAttempts = 9 }), &network{}, func(ctx context.Context, _, _ string) error {
			until, _ := ctx.Deadline()
			limits = append(limits, time.Until(until))
			<-ctx.Done()
			return ctx.Err()
		})
		start := time.Now()
		got, err := s.Reserve(t.Context(), "chair")
		require.ErrorIs(t, err, retry.ErrDeadline)
		require.Equal(t, shop.Checking, got)
		require.Equal(t, 30*time.Second, time.Since(start), "time that it took")
		require.Equal(t, []time.Duration{10 * time.Second, 10 * time.Second, 9700 * time.Millisecond}, limits, "limits of the attempts")
	})
}

func TestNewRefusesABadPolicy(t *testing.T) {
	_, err := shop.New(retry.Organization{Default: retry.Policy{MaxAttempts: -1}}, nil, nil)
	require.ErrorContains(t, err, "MaxAttempts is -1")
}
