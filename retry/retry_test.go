package retry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// What an operation fails with, by what it proves.
var (
	errCut     = errors.New("the answer was lost")
	errRefused = classify.As(classify.Retryable, errors.New("connection refused"))
	errNo      = classify.As(classify.Permanent, errors.New("no such account"))
)

// rationed is an error that tells what a callee said about load.
type rationed struct{ after time.Duration }

func (e rationed) Error() string { return "too many requests" }

func (e rationed) Verdict() classify.Verdict {
	return classify.Verdict{Class: classify.Retryable, Reason: "http_429", RetryAfter: e.after, Throttled: true}
}

// status is an error that tells of a status.
type status struct {
	class classify.Class
	code  int
}

func (e status) Error() string { return fmt.Sprintf("status %d", e.code) }

func (e status) Verdict() classify.Verdict {
	return classify.Verdict{Class: e.class, Reason: fmt.Sprintf("http_%d", e.code)}
}

// to returns a destination of its own.
func to(t testing.TB, p retry.Policy, observers ...retry.Observer) *retry.Destination {
	t.Helper()
	opts := &retry.Options{}
	for _, o := range observers {
		opts.Observer = o
	}
	d, err := retry.NewDestination("payments", p, opts)
	require.NoError(t, err, "NewDestination(%+v)", p)
	return d
}

// script is an operation that fails with each error in turn, and then no more.
type script struct {
	fail []error
	at   []time.Time // of each attempt
}

func failing(errs ...error) *script { return &script{fail: errs} }

// always is an operation that fails with err however often it is called.
func always(err error) *script {
	s := &script{fail: make([]error, 1000)}
	for i := range s.fail {
		s.fail[i] = err
	}
	return s
}

func (s *script) op(context.Context) error {
	s.at = append(s.at, time.Now())
	if n := len(s.at); n <= len(s.fail) {
		return s.fail[n-1]
	}
	return nil
}

// gaps returns the times between the attempts.
func (s *script) gaps() []time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(s.at); i++ {
		gaps = append(gaps, s.at[i].Sub(s.at[i-1]))
	}
	return gaps
}

// failure returns the *retry.Error that err must be.
func failure(t testing.TB, err error) *retry.Error {
	t.Helper()
	e, ok := errors.AsType[*retry.Error](err)
	require.True(t, ok, "Do returned %v (%T), want a *retry.Error", err, err)
	return e
}

// steady waits without jitter, so that times are exact.
var steady = retry.Policy{Jitter: retry.NoJitter}

func TestDoReturnsWhatTheOperationReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, steady)
		n := 0
		got, err := retry.Do(t.Context(), d, retry.Unsafe, func(context.Context) (string, error) {
			if n++; n < 3 {
				return "half", errRefused
			}
			return "whole", nil
		})
		assert.NoError(t, err, "Do")
		assert.Equal(t, "whole", got, "Do")

		got, err = retry.Do(t.Context(), d, retry.Unsafe, func(context.Context) (string, error) { return "half", errNo })
		assert.ErrorIs(t, err, retry.ErrPermanent, "Do")
		assert.Equal(t, "half", got, "what the last attempt returned with its error")
	})
}

// B150: 0 means 'default', 'none' or 'for ever': zero retries asked for, three (or endless) done; retries and attempts mixed up by one.
func TestMaxAttemptsCountsTheFirst(t *testing.T) {
	for _, tt := range []struct{ max, want int }{{0, 3}, {1, 1}, {2, 2}, {7, 7}} {
		synctest.Test(t, func(t *testing.T) {
			s := always(errRefused)
			err := to(t, retry.Policy{MaxAttempts: tt.max}).Do(t.Context(), retry.Unsafe, s.op)
			assert.ErrorIs(t, err, retry.ErrAttempts, "MaxAttempts %d", tt.max)
			assert.Len(t, s.at, tt.want, "calls with MaxAttempts %d", tt.max)
			assert.Len(t, failure(t, err).Attempts, tt.want, "records with MaxAttempts %d", tt.max)
		})
	}
	_, err := retry.NewDestination("payments", retry.Policy{MaxAttempts: -1}, nil)
	assert.ErrorContains(t, err, "MaxAttempts is -1: allowed is 1 or more, or 0 for 3", "NewDestination")
}

// B86: counter shared by all calls of a client: parallel or later calls get fewer retries. 20 parallel calls, each
// failing twice then succeeding, MaxAttempts 3; all must succeed.
func TestEachCallCountsItsOwnAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{Budget: retry.Budget{Burst: 40}, Breaker: breaker.Settings{Disabled: true}})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				assert.NoError(t, d.Do(t.Context(), retry.Unsafe, failing(errRefused, errRefused).op), "Do")
			})
		}
		wg.Wait()
	})
}

// B81: private random source shared without lock: parallel calls race and can corrupt the generator. 1000 goroutines
// call the same policy under -race.
func TestManyGoroutinesShareADestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events, waits atomic.Int64
		never := breaker.Settings{MinResults: 1_000_000} // or few would come to draw a wait
		d := to(t, retry.Policy{Budget: retry.Budget{Burst: 1000}, Breaker: never}, func(_ context.Context, e retry.Event) {
			if events.Add(1); e.Kind == retry.EventRetry {
				waits.Add(1)
			}
		})
		variant, err := d.With(retry.Policy{MaxAttempts: 2})
		require.NoError(t, err, "With")
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				dest := d
				if i%2 == 0 {
					dest = variant
				}
				s := failing(errRefused, errRefused)
				err := dest.Do(t.Context(), retry.Keyed, func(ctx context.Context) error {
					if retry.Key(ctx) == "" || retry.AttemptOf(ctx) != len(s.at)+1 {
						return errNo
					}
					return s.op(ctx)
				})
				if err != nil && !errors.Is(err, retry.ErrAttempts) && !errors.Is(err, breaker.ErrOpen) && !errors.Is(err, retry.ErrBudget) {
					t.Errorf("Do = %v", err)
				}
			})
		}
		wg.Wait()
		assert.GreaterOrEqual(t, events.Load(), int64(1000), "events")
		assert.GreaterOrEqual(t, waits.Load(), int64(1000), "waits drawn")
		s := d.Snapshot()
		assert.Zero(t, s.Calls, "calls under way at the end")
		assert.True(t, s.Budget >= 0 && s.Budget <= 1000, "Budget is %v", s.Budget)
	})
}

// B62: wrapped 'permanent' is not recognised: a type assertion instead of errors.As: permanent errors are retried once
// wrapped. errors.As at any depth, incl. errors.Join.
// B71: matching on message text: same error value with another text; classification must not change.
func TestAMarkedErrorIsRecognisedAtAnyDepth(t *testing.T) {
	inner := errors.New("temporary connection reset, please try again")
	for name, err := range map[string]error{
		"marked":               classify.As(classify.Permanent, inner),
		"wrapped":              fmt.Errorf("x: %w", classify.As(classify.Permanent, inner)),
		"wrapped twice":        fmt.Errorf("y: %w", fmt.Errorf("x: %w", classify.As(classify.Permanent, inner))),
		"joined":               errors.Join(errors.New("more"), classify.As(classify.Permanent, inner)),
		"of cenkalti/backoff":  backoff.Permanent(inner),
		"of backoff, wrapped":  fmt.Errorf("x: %w", backoff.Permanent(inner)),
		"with a text like 503": classify.As(classify.Permanent, errors.Join(inner, errors.New("503"))),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := always(err)
			got := to(t, retry.Policy{}).Do(t.Context(), retry.Idempotent, s.op)
			assert.ErrorIs(t, got, retry.ErrPermanent, name)
			assert.ErrorIs(t, got, inner, name)
			assert.Len(t, s.at, 1, "%s: calls", name)
		})
	}
}

func TestAUsersClassifierComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type odd struct{ error }
		var asked []string
		d, err := retry.NewDestination("payments", retry.Policy{}, &retry.Options{Classifiers: []classify.Classifier{
			func(err error) (v classify.Verdict, ok bool) { asked = append(asked, "first"); return v, false },
			func(err error) (v classify.Verdict, ok bool) {
				asked = append(asked, "second")
				_, ok = errors.AsType[odd](err)
				return classify.Verdict{Class: classify.Retryable, Reason: "odd"}, ok
			},
			func(err error) (v classify.Verdict, ok bool) { asked = append(asked, "third"); return v, false },
		}})
		require.NoError(t, err, "NewDestination")
		s := failing(odd{errNo}, errNo)
		got := failure(t, d.Do(t.Context(), retry.Unsafe, s.op))
		assert.Len(t, s.at, 2, "calls")
		assert.Equal(t, "odd", got.Attempts[0].Verdict.Reason, "reason")
		assert.ErrorIs(t, got, retry.ErrPermanent, "the second error is left to the rules")
		assert.Equal(t, []string{"first", "second", "first", "second", "third"}, asked, "classifiers asked")
	})
}

// B115: panic in a probe sticks half-open: a panicking call passes through the policy with no outcome recorded.
// A panic and runtime.Goexit count as a failure, free everything and pass through.
func TestAPanicAndGoexitPassThroughAndLeaveNothing(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := to(t, retry.Policy{Breaker: breaker.Settings{MinResults: 1, Probes: 1}, Jitter: retry.NoJitter})
				var inside context.Context
				once := func() (recovered any) {
					done := make(chan struct{})
					go func() {
						defer close(done)
						defer func() { recovered = recover() }()
						_ = d.Do(t.Context(), retry.Idempotent, func(ctx context.Context) error { inside = ctx; end(); return nil })
					}()
					<-done
					return recovered
				}
				got := once()
				if name == "panic" {
					assert.Equal(t, "boom", got, "what came out of Do")
				}
				assert.Equal(t, breaker.Open, d.Snapshot().Breaker, "breaker after the %s", name)
				assert.Zero(t, d.Snapshot().Calls, "calls under way")
				assert.Error(t, inside.Err(), "the attempt's context must have ended")
				assert.Zero(t, retry.AttemptOf(inside), "the attempt's mark must be dead")

				time.Sleep(time.Until(d.Snapshot().RetryAt))
				once() // as the probe
				assert.Equal(t, breaker.Open, d.Snapshot().Breaker, "breaker after the %s of its probe", name)
				time.Sleep(time.Until(d.Snapshot().RetryAt))
				assert.NoError(t, d.Do(t.Context(), retry.Unsafe, failing().op), "the next probe must be let through")
				assert.Equal(t, breaker.Closed, d.Snapshot().Breaker, "breaker at the end")
			})
		})
	}
}

func TestACallThatCannotBeMadeIsRefusedWithAReason(t *testing.T) {
	d := to(t, retry.Policy{})
	ok := func(context.Context) error { t.Error("the operation was called"); return nil }
	long := strings.Repeat("k", 256)
	var none *retry.Destination
	var noContext context.Context
	for _, tt := range []struct {
		name string
		call func() error
		want string
	}{
		{"nil destination", func() error { return none.Do(t.Context(), retry.Unsafe, ok) }, "destination is nil or zero"},
		{"zero destination", func() error { return new(retry.Destination).Do(t.Context(), retry.Unsafe, ok) }, "destination is nil or zero"},
		{"nil context", func() error { return d.Do(noContext, retry.Unsafe, ok) }, "context is nil"},
		{"nil operation", func() error { return d.Do(t.Context(), retry.Unsafe, nil) }, "operation is nil"},
		{"a safety that does not exist", func() error { return d.Do(t.Context(), retry.Safety(3), ok) }, "safety is invalid: allowed are Unsafe, Keyed and Idempotent"},
		{"an empty key", func() error { return d.Do(t.Context(), retry.Unsafe, ok, retry.WithKey("")) }, "idempotency key has 0 characters: allowed are 1 to 255"},
		{"a long key", func() error { return d.Do(t.Context(), retry.Unsafe, ok, retry.WithKey(long)) }, "idempotency key has 256 characters: allowed are 1 to 255"},
		{"a blank in a key", func() error { return d.Do(t.Context(), retry.Unsafe, ok, retry.WithKey("a b")) }, `idempotency key "a b" has ' ' at 1`},
		{"a bad key of an intention", func() error {
			return d.Do(retry.WithIntention(t.Context(), retry.Intention{Key: `a"b`}), retry.Unsafe, ok)
		}, `idempotency key "a\"b" has '"' at 1`},
		{"a lookup of another type", func() error {
			return d.Do(t.Context(), retry.Unsafe, ok, retry.Reconcile(func(context.Context, retry.Intention) (int, error) { return 0, nil }))
		}, "the lookup given to Reconcile is a func(context.Context, retry.Intention) (int, error): allowed is one that returns a struct {}"},
		{"a nil lookup", func() error {
			return d.Do(t.Context(), retry.Unsafe, ok, retry.Reconcile[struct{}](nil))
		}, "the lookup given to Reconcile is nil"},
	} {
		err := failure(t, tt.call())
		assert.ErrorContains(t, err, tt.want, tt.name)
		assert.ErrorIs(t, err, retry.ErrPermanent, tt.name)
		assert.Equal(t, retry.NotApplied, err.Outcome, "%s: outcome", tt.name)
		assert.Empty(t, err.Attempts, "%s: attempts", tt.name)
		assert.Equal(t, classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "request"}, err.Verdict(), "%s: verdict", tt.name)
	}
	assert.Zero(t, d.Snapshot().Calls, "calls under way")
}

func TestTheLastOfEqualOptionsCountsAndTheZeroOneChangesNothing(t *testing.T) {
	var in retry.Intention
	err := to(t, retry.Policy{}).Do(t.Context(), retry.Keyed, func(ctx context.Context) error {
		in, _ = retry.IntentionOf(ctx)
		return nil
	}, retry.WithKey("a"), retry.Named("refund"), retry.CallOption{}, retry.WithKey("b"), retry.Named("charge"))
	assert.NoError(t, err, "Do")
	assert.Equal(t, "b", in.Key, "key")
	assert.Equal(t, "charge", in.Operation, "operation")
}
