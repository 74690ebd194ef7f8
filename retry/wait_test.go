package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

var errShutdown = errors.New("the service is shutting down")

// B97: total time overshoots by one wait: the limit is checked before the sleep only, so a 5 s limit ends at 7 s. Total
// 5 s, delays 1,2,4: no attempt starts and nothing returns after 5 s.
// B99: sleeping into a known expiry: fail fast, keep the last error, mark it 'no time left for another attempt'.
func TestNoWaitBeginsThatNoAttemptCanFollow(t *testing.T) {
	p := retry.Policy{MaxAttempts: 10, BaseDelay: time.Second, Jitter: retry.NoJitter, Deadline: 5 * time.Second, AttemptTimeout: time.Second}
	for _, tt := range []struct {
		name     string
		deadline time.Duration // of the caller
		policy   func(*retry.Policy)
		fail     error
		calls    int
		took     time.Duration
	}{
		{"the policy's deadline", 0, nil, errRefused, 3, 3 * time.Second},
		{"the caller's deadline", 2500 * time.Millisecond, nil, errRefused, 2, time.Second},
		{"a wait of all that is left", 3 * time.Second, nil, errRefused, 2, time.Second},
		{"a wait of a nanosecond less", 3*time.Second + 1, nil, errRefused, 3, 3 * time.Second},
		{"the earlier of both", time.Hour, nil, errRefused, 3, 3 * time.Second},
		{"only the caller's", 8 * time.Second, func(p *retry.Policy) { p.Deadline = retry.NoLimit }, errRefused, 4, 7 * time.Second},
		{"a first wait that is too long", 50 * time.Millisecond, nil, errRefused, 1, 0},
		{"a hint that is too long", 0, nil, classify.After(5*time.Second, errRefused), 1, 0},
		{"a hint that fits", 0, nil, classify.After(4*time.Second, errRefused), 2, 4 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := p
				if tt.policy != nil {
					tt.policy(&p)
				}
				ctx := t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				s, start := always(tt.fail), time.Now()
				err := failure(t, to(t, p).Do(ctx, retry.Unsafe, s.op))
				assert.Equal(t, tt.took, time.Since(start), "Do took")
				assert.Len(t, s.at, tt.calls, "calls")
				assert.ErrorIs(t, err, retry.ErrDeadline, "Do")
				assert.ErrorIs(t, err, context.DeadlineExceeded, "Do")
				assert.ErrorIs(t, err, errRefused, "Do")
				assert.ErrorContains(t, err, "no time left", "Do")
				assert.True(t, err.Timeout(), "Timeout()")
				assert.Zero(t, err.Attempts[len(err.Attempts)-1].Wait, "wait after the last attempt")
				assert.NoError(t, ctx.Err(), "the context at the end")
			})
		})
	}
}

// B100: 'deadline exceeded' hides the real failure: on expiry only the context error is returned. fn always returns
// errOp; assert errors.Is(err, errOp) and errors.Is(err, context.DeadlineExceeded); with WithCancelCause also the cause.
// Same shape whether the limit came from the context or the option.
func TestTheEndOfTimeKeepsTheLastFailure(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", errCut, ctx.Err())
	}
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc, retry.Policy){
		"the policy's deadline": func(ctx context.Context) (context.Context, context.CancelFunc, retry.Policy) {
			return ctx, func() {}, retry.Policy{Deadline: 30 * time.Millisecond}
		},
		"the caller's deadline": func(ctx context.Context) (context.Context, context.CancelFunc, retry.Policy) {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
			return ctx, cancel, retry.Policy{}
		},
		"the caller's deadline with a cause": func(ctx context.Context) (context.Context, context.CancelFunc, retry.Policy) {
			ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Millisecond, errShutdown)
			return ctx, cancel, retry.Policy{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel, p := end(t.Context())
				defer cancel()
				start := time.Now()
				err := failure(t, to(t, p).Do(ctx, retry.Idempotent, hang))
				assert.Equal(t, 30*time.Millisecond, time.Since(start), "Do took")
				assert.ErrorIs(t, err, errCut, "Do")
				assert.ErrorIs(t, err, context.DeadlineExceeded, "Do")
				assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "Do")
				assert.True(t, err.Timeout(), "Timeout()")
				assert.Len(t, err.Attempts, 1, "attempts")
				if ctx.Err() != nil {
					assert.ErrorIs(t, err, ctx.Err(), "Do")
					assert.ErrorIs(t, err, context.Cause(ctx), "Do")
					assert.Equal(t, classify.Caller, err.Attempts[0].Verdict.Origin, "origin")
				} else {
					assert.ErrorIs(t, err, retry.ErrDeadline, "Do")
					assert.Equal(t, classify.Verdict{Reason: "timeout"}, err.Attempts[0].Verdict, "verdict")
				}
			})
		})
	}
}

// B106: wait cannot be interrupted: wait 30 s, cancel after 50 ms: return in < 100 ms with context.Canceled.
// B107: timer left behind for each cancelled wait: NewTimer + Stop on every path (a bubble does not end before its
// goroutines; a timer that nothing refers to is garbage, stopped or not).
// B105: overall timeout only breaks the inner select: after the end no request.
func TestACancelDuringAWaitReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		d := to(t, steady)
		s := always(classify.After(20*time.Second, errRefused))
		start := time.Now()
		time.AfterFunc(50*time.Millisecond, func() { cancel(errShutdown) })
		err := failure(t, d.Do(ctx, retry.Unsafe, s.op))
		assert.Equal(t, 50*time.Millisecond, time.Since(start), "Do took")
		assert.Len(t, s.at, 1, "calls")
		assert.ErrorIs(t, err, context.Canceled, "Do")
		assert.ErrorIs(t, err, errShutdown, "Do")
		assert.ErrorIs(t, err, errRefused, "Do")
		assert.False(t, err.Timeout(), "Timeout()")
		assert.Equal(t, retry.NotApplied, err.Outcome, "outcome")
		assert.Equal(t, 20*time.Second, err.RetryAfter, "RetryAfter")
		assert.Equal(t, 10.0, d.Snapshot().Budget, "what was taken for a retry that was never sent")
	})
}

// B107: 10 000 calls with 1 h wait, cancelled at once: nothing is left of them when the bubble ends.
func TestManyCancelledWaitsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := to(t, retry.Policy{Deadline: retry.NoLimit, MaxRetryAfter: time.Hour, Budget: retry.Budget{Disabled: true}, Breaker: breaker.Settings{Disabled: true}})
		var wg sync.WaitGroup
		for range 10_000 {
			wg.Go(func() {
				if err := d.Do(ctx, retry.Unsafe, failing(classify.After(time.Hour, errRefused)).op); !errors.Is(err, context.Canceled) {
					t.Errorf("Do = %v, want context.Canceled", err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		cancel()
		wg.Wait()
		assert.Zero(t, time.Since(start), "the calls ended after")
		assert.Zero(t, d.Snapshot().Calls, "calls under way")
	})
}

func TestACancelDuringAnAttemptStops(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail error
		want retry.Outcome
	}{
		{"a failure of which nothing is known", errCut, retry.Unknown},
		{"a proof that nothing was sent", errRefused, retry.NotApplied},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			d := to(t, retry.Policy{})
			start, calls := time.Now(), 0
			err := failure(t, d.Do(ctx, retry.Idempotent, func(ctx context.Context) error {
				calls++
				cancel(errShutdown)
				<-ctx.Done()
				return tt.fail
			}))
			assert.Zero(t, time.Since(start), "%s: Do took", tt.name)
			assert.Equal(t, 1, calls, "%s: calls", tt.name)
			assert.ErrorIs(t, err, context.Canceled, tt.name)
			assert.ErrorIs(t, err, errShutdown, tt.name)
			assert.ErrorIs(t, err, tt.fail, tt.name)
			assert.Equal(t, tt.want, err.Outcome, "%s: outcome", tt.name)
			assert.Equal(t, classify.Caller, err.Attempts[0].Verdict.Origin, "%s: origin", tt.name)
			assert.Equal(t, classify.Caller, err.Verdict().Origin, "%s: origin for a layer around", tt.name)
			assert.False(t, err.Timeout(), "%s: Timeout()", tt.name)
		})
	}
}

// Semantics 1.1: the caller is asked whether it has gone, not the error. What was
// cancelled below by somebody else says nothing of the callee either.
func TestACancelOfSomebodyElseIsNotTheCallers(t *testing.T) {
	for name, fail := range map[string]error{
		"as it is": context.Canceled,
		"wrapped":  fmt.Errorf("group: %w", context.Canceled),
		"of a call in another context": func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return to(t, retry.Policy{}).Do(ctx, retry.Idempotent, func(context.Context) error { return nil })
		}(),
	} {
		synctest.Test(t, func(t *testing.T) {
			d := to(t, retry.Policy{Breaker: breaker.Settings{MinResults: 1}})
			err := failure(t, d.Do(t.Context(), retry.Idempotent, always(fail).op))
			for _, a := range err.Attempts {
				assert.Equal(t, classify.Local, a.Verdict.Origin, "%s: origin", name)
			}
			assert.NotEqual(t, classify.Caller, err.Verdict().Origin, "%s: origin for a layer around", name)
			assert.Equal(t, breaker.Closed, d.Snapshot().Breaker, "%s: breaker", name)
		})
	}
}

// A result that is there when the caller leaves is still a result.
func TestASuccessIsASuccessHoweverLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		got, err := retry.Do(ctx, to(t, retry.Policy{AttemptTimeout: time.Millisecond}), retry.Unsafe, func(ctx context.Context) (int, error) {
			cancel()
			time.Sleep(time.Second)
			return 7, nil
		})
		assert.NoError(t, err, "Do")
		assert.Equal(t, 7, got, "Do")
	})
}

// late is a context whose deadline has passed although it has not ended yet, as one whose timer has not been run.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now(), true }

func TestNothingIsSentWhereNoTimeIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errShutdown)
		past, cancelPast := context.WithTimeout(t.Context(), -time.Second)
		defer cancelPast()
		for name, tt := range map[string]struct {
			ctx  context.Context
			want []error
		}{
			"cancelled":              {ended, []error{context.Canceled, errShutdown}},
			"past its deadline":      {past, []error{context.DeadlineExceeded}},
			"past it, not yet ended": {late{t.Context()}, []error{retry.ErrDeadline, context.DeadlineExceeded}},
		} {
			d := to(t, retry.Policy{})
			s := failing()
			err := failure(t, d.Do(tt.ctx, retry.Unsafe, s.op))
			for _, want := range tt.want {
				assert.ErrorIs(t, err, want, name)
			}
			assert.Empty(t, s.at, "%s: calls", name)
			assert.Nil(t, err.Last, "%s: Last", name)
			assert.Equal(t, retry.NotApplied, err.Outcome, "%s: outcome", name)
			assert.Zero(t, d.Snapshot().Calls, "%s: calls under way", name)
		}
	})
}

// B102: attempt timeout mistaken for the caller's cancellation: after an attempt the code asks 'is the error a
// deadline?' and stops, so timeouts are the only failure never retried. Only the parent's ctx.Err() means stop.
func TestAnAttemptsTimeoutIsAnAttemptsFailure(t *testing.T) {
	for name, returned := range map[string]func(context.Context) error{
		"the context's error":   func(ctx context.Context) error { return ctx.Err() },
		"the context's cause":   context.Cause,
		"an error of its own":   func(context.Context) error { return errCut },
		"a cancellation inside": func(context.Context) error { return fmt.Errorf("inside: %w", context.Canceled) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var events []retry.Event
				d := to(t, retry.Policy{AttemptTimeout: 50 * time.Millisecond, Deadline: 5 * time.Second, Jitter: retry.NoJitter},
					func(_ context.Context, e retry.Event) { events = append(events, e) })
				calls, start := 0, time.Now()
				err := d.Do(t.Context(), retry.Idempotent, func(ctx context.Context) error {
					if calls++; calls == 2 {
						return nil
					}
					<-ctx.Done()
					return returned(ctx)
				})
				assert.NoError(t, err, "Do")
				assert.Equal(t, 150*time.Millisecond, time.Since(start), "Do took")
				assert.Equal(t, classify.Verdict{Reason: "timeout"}, events[0].Verdict, "verdict of the first attempt")
			})
		})
	}
}

// B103: ...and the reverse: retrying on a dead parent context. Parent 50 ms; fn returns an error equal to
// DeadlineExceeded; expect no call after 50 ms. A deadline error from the server with a live context may be retried.
func TestADeadlineErrorSaysNothingOfWhose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		end, _ := ctx.Deadline()
		s := always(context.DeadlineExceeded)
		err := to(t, retry.Policy{MaxAttempts: 100, BaseDelay: 20 * time.Millisecond, Jitter: retry.NoJitter}).Do(ctx, retry.Idempotent, s.op)
		assert.ErrorIs(t, err, retry.ErrDeadline, "Do")
		assert.Len(t, s.at, 2, "calls: the error alone does not stop")
		for _, at := range s.at {
			assert.True(t, at.Before(end), "a call at %v, the parent ended at %v", at, end)
		}
	})
}

// B110: slow first attempt leaves no room, and nobody says so. Total 1 s, no attempt timeout, attempt 1 hangs; then
// with attempt timeout 300 ms: at least 2 attempts. Attempt timeout = min(configured, remaining); error lists attempts
// and time used.
func TestTheAttemptTimeoutIsNeverMoreThanWhatIsLeft(t *testing.T) {
	for _, tt := range []struct {
		timeout time.Duration
		want    []time.Duration // of each attempt
	}{
		{retry.NoLimit, []time.Duration{1000 * time.Millisecond}},
		{0, []time.Duration{1000 * time.Millisecond}},
		{600 * time.Millisecond, []time.Duration{600 * time.Millisecond, 300 * time.Millisecond}},
		{300 * time.Millisecond, []time.Duration{300 * time.Millisecond, 300 * time.Millisecond, 100 * time.Millisecond}},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			err := failure(t, to(t, retry.Policy{Deadline: time.Second, AttemptTimeout: tt.timeout, Jitter: retry.NoJitter}).
				Do(t.Context(), retry.Idempotent, func(ctx context.Context) error {
					<-ctx.Done()
					return errCut
				}))
			assert.Equal(t, time.Second, time.Since(start), "Do took with timeout %v", tt.timeout)
			assert.ErrorIs(t, err, context.DeadlineExceeded, "Do with timeout %v", tt.timeout)
			var got []time.Duration
			for _, a := range err.Attempts {
				got = append(got, a.Duration)
			}
			assert.Equal(t, tt.want, got, "attempts with timeout %v", tt.timeout)
			assert.ErrorContains(t, err, fmt.Sprintf("%d attempt", len(tt.want)), "Do with timeout %v", tt.timeout)
			assert.ErrorContains(t, err, "in 1s", "Do with timeout %v", tt.timeout)
		})
	}
}

func TestAnAttemptsContextEndsWithItsTimeAndWithTheOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside context.Context
		look := func(ctx context.Context) error { inside = ctx; return nil }

		require.NoError(t, to(t, retry.Policy{}).Do(t.Context(), retry.Unsafe, look), "Do")
		end, ok := inside.Deadline()
		assert.True(t, ok && time.Until(end) == 10*time.Second, "deadline in %v, %v, want 10s", time.Until(end), ok)
		assert.ErrorIs(t, inside.Err(), context.Canceled, "after Do")

		caller, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, to(t, retry.Policy{}).Do(caller, retry.Unsafe, look), "Do")
		end, _ = inside.Deadline()
		assert.Equal(t, time.Second, time.Until(end), "the caller's deadline is nearer")

		require.NoError(t, to(t, retry.Policy{Deadline: retry.NoLimit, AttemptTimeout: retry.NoLimit}).Do(t.Context(), retry.Unsafe, look), "Do")
		_, ok = inside.Deadline()
		assert.False(t, ok, "a deadline without any limit")
	})
}

// B09: huge hint puts the caller to sleep for hours: if the hint exceeds the wait cap or the time left, give up at
// once: return the last error with the hint attached.
// B10: capping the hint makes the client retry too early: over the cap = stop. Never send before the server's time.
// B19: long hint plus a hidden default total limit = silent single attempt: the error must state that the hint exceeded
// the remaining time (typed, errors.Is-able).
func TestAHintThatDoesNotFitEndsTheCallAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		hint   time.Duration
		want   error
	}{
		{"a hint of half an hour, no limits set by the caller", retry.Policy{}, 1800 * time.Second, retry.ErrPushback},
		{"above the limit", retry.Policy{Deadline: time.Hour, MaxRetryAfter: time.Minute}, 61 * time.Second, retry.ErrPushback},
		{"above the time left", retry.Policy{Deadline: 5 * time.Second, AttemptTimeout: time.Second}, 6 * time.Second, retry.ErrDeadline},
		{"above both", retry.Policy{Deadline: 5 * time.Second, AttemptTimeout: time.Second}, 277403 * time.Second, retry.ErrPushback},
		{"longer than can be said", retry.Policy{Deadline: retry.NoLimit}, math.MaxInt64, retry.ErrPushback},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, start := always(classify.After(tt.hint, errRefused)), time.Now()
				err := failure(t, to(t, tt.policy).Do(t.Context(), retry.Unsafe, s.op))
				assert.Zero(t, time.Since(start), "Do took")
				assert.Len(t, s.at, 1, "calls")
				assert.ErrorIs(t, err, tt.want, "Do")
				assert.ErrorIs(t, err, errRefused, "Do")
				assert.Equal(t, tt.hint, err.RetryAfter, "RetryAfter")
				assert.Equal(t, tt.hint, err.Verdict().RetryAfter, "hint for a layer around")
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := failing(classify.After(time.Minute, errRefused))
		err := to(t, retry.Policy{Deadline: time.Hour, MaxRetryAfter: time.Minute}).Do(t.Context(), retry.Unsafe, s.op)
		assert.NoError(t, err, "Do with a hint of just the limit")
		assert.GreaterOrEqual(t, s.gaps()[0], time.Minute, "gap")
	})
}

// B11: jitter dips under the server's minimum: with a hint, jitter is added only upward. `Retry-After: 2`; 200 runs;
// min gap >= 2.000 s.
func TestJitterOnAHintGoesOnlyUp(t *testing.T) {
	for _, tt := range []struct {
		jitter     retry.Jitter
		hint, most time.Duration
	}{
		{retry.FullJitter, 2 * time.Second, 2200 * time.Millisecond},
		{retry.EqualJitter, 2 * time.Second, 2200 * time.Millisecond},
		{retry.NoJitter, 2 * time.Second, 2 * time.Second},
		{retry.FullJitter, 25 * time.Second, 26 * time.Second}, // by 1 s at most
		{retry.FullJitter, 1, 100 * time.Millisecond},          // the own delay is longer
	} {
		synctest.Test(t, func(t *testing.T) {
			d := to(t, retry.Policy{Jitter: tt.jitter, Budget: retry.Budget{Disabled: true}, Breaker: breaker.Settings{Disabled: true}})
			seen := map[time.Duration]bool{}
			for range 200 {
				s := failing(classify.After(tt.hint, errRefused))
				require.NoError(t, d.Do(t.Context(), retry.Unsafe, s.op), "Do")
				gap := s.gaps()[0]
				if gap < tt.hint || gap > tt.most {
					t.Errorf("jitter %v: a wait of %v after a hint of %v, want up to %v", tt.jitter, gap, tt.hint, tt.most)
				}
				seen[gap] = true
			}
			if tt.jitter != retry.NoJitter {
				assert.Greater(t, len(seen), 100, "jitter %v on %v: different waits of 200", tt.jitter, tt.hint)
			}
		})
	}
}

// B08, B07, B02 in the loop: a hint of zero or below is none: own jittered delay.
func TestAHintOfZeroIsNone(t *testing.T) {
	for _, hint := range []time.Duration{0, -1, math.MinInt64} {
		synctest.Test(t, func(t *testing.T) {
			s := failing(classify.After(hint, errRefused), classify.After(hint, errRefused))
			require.NoError(t, to(t, steady).Do(t.Context(), retry.Unsafe, s.op), "Do")
			assert.Equal(t, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}, s.gaps(), "gaps with a hint of %v", hint)
		})
	}
}

// B16: throttled response without header is not retried: header absent or unusable => own backoff.
func TestAThrottledAnswerUsesTheLongerDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := failing(errRefused, rationed{}, rationed{}, errRefused)
		p := retry.Policy{MaxAttempts: 5, Jitter: retry.NoJitter}
		require.NoError(t, to(t, p).Do(t.Context(), retry.Unsafe, s.op), "Do")
		// Both series advance at each failure.
		assert.Equal(t, []time.Duration{100 * time.Millisecond, 2 * time.Second, 4 * time.Second, 800 * time.Millisecond}, s.gaps(), "gaps")
	})
}

// The time that giving a result up takes, and an observer, count as well.
func TestTheDeadlineHoldsAfterASlowObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{Deadline: time.Second, BaseDelay: 400 * time.Millisecond, Jitter: retry.NoJitter},
			func(_ context.Context, e retry.Event) {
				if e.Kind == retry.EventRetry {
					time.Sleep(700 * time.Millisecond)
				}
			})
		s, start := always(errRefused), time.Now()
		err := failure(t, d.Do(t.Context(), retry.Unsafe, s.op))
		assert.ErrorIs(t, err, retry.ErrDeadline, "Do")
		assert.Equal(t, 700*time.Millisecond, time.Since(start), "Do took")
		assert.Len(t, s.at, 1, "calls")
		assert.Zero(t, err.Attempts[0].Wait, "a wait that was not made")
	})
}
