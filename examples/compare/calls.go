package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	sethvargo "github.com/sethvargo/go-retry"
	"github.com/sony/gobreaker/v2"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/retry"
)

// errUnavailable is what an operation fails with. It is made once, so that
// nobody pays for it.
var errUnavailable = errors.New("unavailable")

// work stands for an operation over the network. It looks whether its context
// has ended, as every real one does; that makes the context's channel.
func work(ctx context.Context) (int, error) {
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	default:
		return 1, nil
	}
}

// workWith is work for those who are handed a key.
func workWith(ctx context.Context, _ string) (int, error) { return work(ctx) }

// times makes n calls that succeed.
func times(call func() (int, error)) func(n int) error {
	return func(n int) error {
		for range n {
			if v, err := call(); v != 1 || err != nil {
				return fmt.Errorf("call gave %d, %v, want 1, nil", v, err)
			}
		}
		return nil
	}
}

// caller is the context of a caller that could go away, as that of a request
// that a server handles.
func caller(ctx context.Context) (context.Context, func()) { return context.WithCancel(ctx) }

// plainPolicy leaves nothing but the loop.
var plainPolicy = retry.Policy{
	Deadline: retry.NoLimit, AttemptTimeout: retry.NoLimit,
	Budget: retry.Budget{Disabled: true}, Breaker: breaker.Settings{Disabled: true},
}

// plainCalls compares loops with the same waits. What sethvargo's are made of
// belongs to one call, so each makes its own.
func plainCalls(ctx context.Context) ([]contender, func(), error) {
	ctx, stop := caller(ctx)
	d, err := retry.NewDestination("payments", plainPolicy, nil)
	return []contender{
		{sdk, times(func() (int, error) { return retry.Do(ctx, d, retry.Idempotent, work) })},
		{"sethvargo", times(func() (int, error) {
			b := sethvargo.WithFullJitter(sethvargo.WithCappedDuration(maxDelay, sethvargo.NewExponential(baseDelay)))
			return sethvargo.DoValue(ctx, sethvargo.WithMaxRetries(attempts-1, b), work)
		})},
		{"sethvargo, neither cap nor jitter", times(func() (int, error) {
			return sethvargo.DoValue(ctx, sethvargo.WithMaxRetries(attempts-1, sethvargo.NewExponential(baseDelay)), work)
		})},
	}, stop, err
}

// failsafePolicies are what failsafe-go needs for the same: a limit for the
// whole, repeats, a breaker, and a limit for each attempt.
func failsafePolicies[T any](repeats retrypolicy.Builder[T], cb circuitbreaker.CircuitBreaker[T]) []failsafe.Policy[T] {
	return []failsafe.Policy[T]{
		timeout.New[T](deadline), repeats.WithMaxAttempts(attempts).ReturnLastFailure().Build(), cb, timeout.New[T](attemptTimeout),
	}
}

func failsafeBreaker[T any](ratio float64, openFor time.Duration) circuitbreaker.CircuitBreaker[T] {
	return circuitbreaker.NewBuilder[T]().WithFailureRateThreshold(ratio, 20, 30*time.Second).WithDelay(openFor).Build()
}

func wholeCalls(ctx context.Context) ([]contender, func(), error) {
	ctx, stop := caller(ctx)
	d, err := retry.NewDestination("payments", retry.Policy{}, nil)
	h := newHandMade[int](defaultWaits, defaultRatio)
	f := failsafe.With(failsafePolicies(retrypolicy.NewBuilder[int]().WithBackoff(baseDelay, maxDelay).WithJitterFactor(1), failsafeBreaker[int](defaultRatio, 5*time.Second))...)
	return []contender{
		{sdk, times(func() (int, error) { return retry.Do(ctx, d, retry.Idempotent, work) })},
		{"hand-made", times(func() (int, error) { return h.do(ctx, workWith) })},
		{"reintento, with a key", times(func() (int, error) {
			return retry.Do(ctx, d, retry.Keyed, func(ctx context.Context) (int, error) { return workWith(ctx, retry.Key(ctx)) })
		})},
		{"failsafe-go, no key", times(func() (int, error) {
			return f.WithContext(ctx).GetWithExecution(func(e failsafe.Execution[int]) (int, error) { return work(e.Context()) })
		})},
	}, stop, err
}

// failingCalls fail twice and succeed then. Two of three results are failures,
// so that the breakers are told to open only on more; a budget that lasts for a
// benchmark is as good as none, but it is asked.
func failingCalls(ctx context.Context) ([]contender, func(), error) {
	ctx, stop := caller(ctx)
	d, err := retry.NewDestination("payments", retry.Policy{
		BaseDelay: hardlyAny.base, MaxDelay: hardlyAny.most, Jitter: retry.NoJitter,
		Budget: retry.Budget{Burst: 1 << 40}, Breaker: breaker.Settings{FailureRatio: higherRatio},
	}, nil)
	h := newHandMade[int](hardlyAny, higherRatio)
	repeats := retrypolicy.NewBuilder[int]().WithDelay(hardlyAny.base)
	f := failsafe.With(failsafePolicies(repeats, failsafeBreaker[int](higherRatio, 5*time.Second))...)

	left := 0 // failures of the call under way
	failing := func(ctx context.Context) (int, error) {
		if left--; left >= 0 {
			return 0, errUnavailable
		}
		return work(ctx)
	}
	return []contender{
		{sdk, times(func() (int, error) {
			left = 2
			return retry.Do(ctx, d, retry.Idempotent, failing)
		})},
		{"hand-made", times(func() (int, error) {
			left = 2
			return h.do(ctx, func(ctx context.Context, _ string) (int, error) { return failing(ctx) })
		})},
		{"sethvargo, loop only", times(func() (int, error) {
			left = 2
			b := sethvargo.WithMaxRetries(attempts-1, sethvargo.NewConstant(hardlyAny.base))
			return sethvargo.DoValue(ctx, b, func(ctx context.Context) (int, error) {
				v, err := failing(ctx)
				return v, sethvargo.RetryableError(err)
			})
		})},
		{"failsafe-go, no key", times(func() (int, error) {
			left = 2
			return f.WithContext(ctx).GetWithExecution(func(e failsafe.Execution[int]) (int, error) { return failing(e.Context()) })
		})},
	}, stop, err
}

// refusals makes n calls that an open breaker refuses.
func refusals(open error, call func() error) func(n int) error {
	return func(n int) error {
		for range n {
			if err := call(); !errors.Is(err, open) {
				return fmt.Errorf("call gave %v, want %v", err, open)
			}
		}
		return nil
	}
}

func refusedCalls(ctx context.Context) ([]contender, func(), error) {
	const openFor = time.Hour // longer than it is measured
	ctx, stop := caller(ctx)
	d, err := retry.NewDestination("payments", retry.Policy{Breaker: breaker.Settings{OpenFor: openFor}}, nil)
	if err != nil {
		return nil, stop, err
	}
	once, err := d.With(retry.Policy{MaxAttempts: 1})
	if err != nil {
		return nil, stop, err
	}
	alone := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{Timeout: openFor})
	h := newHandMade[int](defaultWaits, defaultRatio)
	h.breaker = alone
	cb := failsafeBreaker[int](defaultRatio, openFor)
	cb.Open()
	f := failsafe.With(failsafePolicies(retrypolicy.NewBuilder[int]().WithBackoff(baseDelay, maxDelay).HandleIf(func(_ int, err error) bool {
		return err != nil && !errors.Is(err, circuitbreaker.ErrOpen)
	}), cb)...)
	fails := func(context.Context) error { return errUnavailable }
	for range 20 { // results that the default breaker wants to see
		once.Do(ctx, retry.Idempotent, fails)
		alone.Execute(func() (int, error) { return 0, errUnavailable })
	}
	return []contender{
		{sdk, refusals(breaker.ErrOpen, func() error {
			_, err := retry.Do(ctx, d, retry.Idempotent, work)
			return err
		})},
		{"gobreaker", refusals(gobreaker.ErrOpenState, func() error {
			_, err := alone.Execute(func() (int, error) { return work(ctx) })
			return err
		})},
		{"hand-made", refusals(gobreaker.ErrOpenState, func() error {
			_, err := h.do(ctx, workWith)
			return err
		})},
		{"failsafe-go", refusals(circuitbreaker.ErrOpen, func() error {
			_, err := f.WithContext(ctx).GetWithExecution(func(e failsafe.Execution[int]) (int, error) { return work(e.Context()) })
			return err
		})},
	}, stop, nil
}

// parallelCalls share one destination, as all requests to one host do.
func parallelCalls(ctx context.Context) ([]contender, func(), error) {
	ctx, stop := caller(ctx)
	d, err := retry.NewDestination("payments", retry.Policy{}, nil)
	calls := times(func() (int, error) { return retry.Do(ctx, d, retry.Idempotent, work) })
	cores := runtime.GOMAXPROCS(0)
	return []contender{
		{sdk, inParallel(8*cores, calls)},
		{"1 a core", inParallel(cores, calls)},
		{"1 in all", calls},
	}, stop, err
}

// inParallel makes the calls from so many goroutines, which take a few at a time.
func inParallel(goroutines int, calls func(n int) error) func(n int) error {
	const few = 16
	return func(n int) error {
		var taken atomic.Int64
		errs := make([]error, goroutines)
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for errs[g] == nil {
					from := int(taken.Add(few)) - few
					if from >= n {
						return
					}
					errs[g] = calls(min(few, n-from))
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
}
