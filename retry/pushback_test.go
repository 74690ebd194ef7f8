package retry_test

import (
	"context"
	"errors"
	"slices"
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

// pushedBack returns a destination that has just asked for a wait.
func pushedBack(t *testing.T, p retry.Policy, wait time.Duration, observers ...retry.Observer) *retry.Destination {
	t.Helper()
	d := to(t, p, observers...)
	once, err := d.With(retry.Policy{MaxAttempts: 1})
	require.NoError(t, err, "With")
	require.Error(t, once.Do(t.Context(), retry.Unsafe, failing(rationed{wait}).op), "Do")
	return d
}

// A valid hint on any 429 or 503, final or not, pauses the destination for this process. At most Burst calls wait for
// its end, and only if that fits their deadline; the others stop at once with ErrPushback and the time. Waiters leave
// at its end plus a uniform 0..max(1 s, half the pause).
func TestAPauseLetsBurstCallsWait(t *testing.T) {
	for _, tt := range []struct {
		pause  time.Duration
		budget retry.Budget
		places int
		spread time.Duration
	}{
		{10 * time.Second, retry.Budget{}, 10, 5 * time.Second},
		{10 * time.Second, retry.Budget{Burst: 40}, 40, 5 * time.Second},
		{time.Second, retry.Budget{Burst: 40, Disabled: true}, 40, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := pushedBack(t, retry.Policy{Budget: tt.budget}, tt.pause)
			start := time.Now()
			assert.Equal(t, tt.pause, d.Snapshot().PausedFor, "PausedFor")
			var mu sync.Mutex
			var left []time.Duration
			refused := 0
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					s := failing()
					err := d.Do(t.Context(), retry.Unsafe, s.op)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						left = append(left, s.at[0].Sub(start))
						return
					}
					refused++
					e := failure(t, err)
					assert.ErrorIs(t, e, retry.ErrPushback, "Do")
					assert.Equal(t, tt.pause, e.RetryAfter, "RetryAfter")
					assert.Zero(t, time.Since(start), "Do took")
					assert.Empty(t, s.at, "calls")
					assert.Empty(t, e.Attempts, "Attempts")
					assert.Equal(t, retry.NotApplied, e.Outcome, "Outcome")
				})
			}
			wg.Wait()
			assert.Equal(t, 100-tt.places, refused, "calls refused")
			slices.Sort(left)
			require.Len(t, left, tt.places, "calls that waited")
			first, last := left[0]-tt.pause, left[len(left)-1]-tt.pause
			assert.True(t, first >= 0 && last <= tt.spread, "waiters left %v to %v after the end, want 0 to %v", first, last, tt.spread)
			assert.Greater(t, last-first, tt.spread/3, "spread of the waiters")
			assert.Zero(t, d.Snapshot().PausedFor, "PausedFor at the end")
			assert.Zero(t, d.Snapshot().Calls, "calls under way at the end")
			assert.NoError(t, d.Do(t.Context(), retry.Unsafe, failing().op), "Do after the pause")
		})
	}
}

func TestWhatPausesADestination(t *testing.T) {
	hint := func(v classify.Verdict) error { v.RetryAfter = 5 * time.Second; return verdict(v) }
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		err    error
		want   time.Duration
	}{
		{"a 429", retry.Policy{}, hint(classify.Verdict{Class: classify.Retryable, Reason: "http_429", Throttled: true}), 5 * time.Second},
		{"a 503", retry.Policy{}, hint(classify.Verdict{Class: classify.Ambiguous, Reason: "http_503"}), 5 * time.Second},
		{"what rations without a status", retry.Policy{}, hint(classify.Verdict{Class: classify.Retryable, Reason: "quota", Throttled: true}), 5 * time.Second},
		{"a 403", retry.Policy{}, hint(classify.Verdict{Class: classify.Retryable, Reason: "http_403", Throttled: true}), 0},
		{"a 500", retry.Policy{}, hint(classify.Verdict{Class: classify.Ambiguous, Reason: "http_500"}), 0},
		{"a mark of the program", retry.Policy{}, classify.After(5*time.Second, errCut), 0},
		{"a failure of this process", retry.Policy{}, hint(classify.Verdict{Class: classify.Retryable, Origin: classify.Local, Reason: "local", Throttled: true}), 0},
		{"a 429 without hint", retry.Policy{}, rationed{}, 0},
		{"a hint above the limit", retry.Policy{MaxRetryAfter: 2 * time.Second}, rationed{time.Hour}, 2 * time.Second},
		{"a private hint", retry.Policy{PrivatePushback: true}, rationed{5 * time.Second}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var told []retry.Event
			tt.policy.MaxAttempts = 1
			d := to(t, tt.policy, func(_ context.Context, e retry.Event) {
				if e.Kind == retry.EventPushback {
					told = append(told, e)
				}
			})
			require.Error(t, d.Do(t.Context(), retry.Unsafe, failing(tt.err).op))
			assert.Equal(t, tt.want, d.Snapshot().PausedFor, tt.name)
			if tt.want == 0 {
				assert.Empty(t, told, "%s: events", tt.name)
			} else if assert.Len(t, told, 1, "%s: events", tt.name) {
				assert.Equal(t, tt.want, told[0].Wait, "%s: Wait", tt.name)
				assert.Equal(t, 1, told[0].Attempt, "%s: Attempt", tt.name)
			}
		})
	}
}

// verdict is an error that says what it is.
type verdict classify.Verdict

func (verdict) Error() string { return "it failed" }

func (v verdict) Verdict() classify.Verdict { return classify.Verdict(v) }

// A pause as long as a whole call, which the default limits allow, leaves no time
// for an attempt: an attempt without time would only make its outcome unknown.
func TestAPauseAsLongAsACallStopsTheNextOneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := pushedBack(t, retry.Policy{}, time.Minute) // capped at MaxRetryAfter, which is the default Deadline
		start := time.Now()
		s := failing()
		err := d.Do(t.Context(), retry.Unsafe, s.op)
		assert.ErrorIs(t, err, retry.ErrPushback)
		assert.NotErrorIs(t, err, retry.ErrOutcomeUnknown)
		assert.Zero(t, time.Since(start), "time spent")
		assert.Empty(t, s.at, "attempts")
		e, ok := errors.AsType[*retry.Error](err)
		require.True(t, ok, "Do = %v", err)
		assert.Equal(t, 30*time.Second, e.RetryAfter, "RetryAfter")
	})
}

func TestAPauseThatDoesNotFitEndsTheCallAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := pushedBack(t, retry.Policy{}, 20*time.Second)
		for name, tt := range map[string]struct {
			deadline time.Duration
			ok       bool
		}{
			"too short":                      {20 * time.Second, false},
			"too short for an attempt after": {20500 * time.Millisecond, false},
			"long enough":                    {21*time.Second + 2, true},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
			defer cancel()
			start := time.Now()
			err := d.Do(ctx, retry.Unsafe, failing().op)
			if tt.ok {
				assert.NoError(t, err, name)
				continue
			}
			if d.Snapshot().PausedFor > 0 {
				assert.ErrorIs(t, err, retry.ErrPushback, name)
				assert.Zero(t, time.Since(start), "%s: Do took", name)
			}
		}
	})
}

func TestACancelWhileADestinationIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := pushedBack(t, retry.Policy{Budget: retry.Budget{Burst: 1}}, 20*time.Second)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errShutdown) })
		start := time.Now()
		err := failure(t, d.Do(ctx, retry.Unsafe, failing().op))
		assert.Equal(t, time.Second, time.Since(start), "Do took")
		assert.ErrorIs(t, err, errShutdown, "Do")
		assert.ErrorIs(t, err, context.Canceled, "Do")
		assert.NoError(t, d.Do(t.Context(), retry.Unsafe, failing().op), "the place of the one that has left is free")
	})
}

// The time of an attempt begins after the pause.
func TestAnAttemptAfterAPauseHasItsWholeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := pushedBack(t, retry.Policy{}, 15*time.Second)
		start := time.Now()
		e := failure(t, d.Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			assert.NoError(t, ctx.Err(), "the attempt's context")
			end, _ := ctx.Deadline()
			assert.Equal(t, min(10*time.Second, time.Until(start.Add(30*time.Second))), time.Until(end), "time of the attempt")
			in, _ := retry.IntentionOf(ctx)
			assert.Equal(t, time.Now(), in.FirstSent, "FirstSent")
			time.Sleep(time.Second)
			return errNo
		}))
		assert.Equal(t, time.Second, e.Attempts[0].Duration, "Duration")
		assert.GreaterOrEqual(t, e.Attempts[0].Start.Sub(start), 15*time.Second, "Start")
		assert.Equal(t, e.Attempts[0].Start, e.Intention.FirstSent, "FirstSent")
	})
}

// A pause that begins while a call waits for its own repeat holds for that too; what it took for the repeat comes back.
func TestAPauseMeetsACallInItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{BaseDelay: time.Second, Jitter: retry.NoJitter, Deadline: 10 * time.Second})
		s, start := failing(errRefused), time.Now()
		time.AfterFunc(500*time.Millisecond, func() {
			_ = d.Do(t.Context(), retry.Unsafe, failing(rationed{9800 * time.Millisecond}).op)
		})
		err := failure(t, d.Do(t.Context(), retry.Unsafe, s.op))
		assert.ErrorIs(t, err, retry.ErrPushback, "Do: 9.3 s of pause, 9 s left")
		assert.ErrorIs(t, err, errRefused, "Do")
		assert.Equal(t, time.Second, time.Since(start), "Do took")
		assert.Len(t, s.at, 1, "calls")
		time.Sleep(30 * time.Second)
		assert.Equal(t, 10.0, d.Snapshot().Budget, "budget")
	})
}

func TestALongerPauseReplacesAShorterOneAndNotTheReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{MaxAttempts: 1})
		var wg sync.WaitGroup
		for _, after := range []time.Duration{10, 25, 5} { // three answers on their way at once
			wg.Go(func() {
				_ = d.Do(t.Context(), retry.Unsafe, func(context.Context) error {
					time.Sleep((30 - after) * time.Millisecond) // the longest wait comes first
					return rationed{after * time.Second}
				})
			})
		}
		wg.Wait()
		assert.Equal(t, 25*time.Second-20*time.Millisecond, d.Snapshot().PausedFor, "PausedFor")
		start := time.Now()
		s := failing()
		require.NoError(t, d.Do(t.Context(), retry.Unsafe, s.op), "Do")
		assert.GreaterOrEqual(t, s.at[0].Sub(start), 24*time.Second, "wait")
	})
}

// The pause of a nested call's destination is not also that of the operation around it.
func TestAPauseBelongsToTheDestinationThatAskedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := to(t, retry.Policy{MaxAttempts: 1}), to(t, retry.Policy{MaxAttempts: 1})
		err := outer.Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			return inner.Do(ctx, retry.Unsafe, failing(rationed{5 * time.Second}).op)
		})
		assert.ErrorIs(t, err, rationed{5 * time.Second}, "Do")
		assert.Equal(t, 5*time.Second, inner.Snapshot().PausedFor, "inner destination")
		assert.Zero(t, outer.Snapshot().PausedFor, "outer destination")
	})
}

// The caller that is told to stay away is told for how long, also through a breaker's eyes: a 429 opens none.
func TestAThrottledDestinationStaysClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{MaxAttempts: 1, Breaker: breaker.Settings{MinResults: 2}})
		for range 10 {
			err := d.Do(t.Context(), retry.Unsafe, failing(rationed{time.Second}).op)
			require.True(t, errors.As(err, new(rationed)), "Do = %v", err)
			time.Sleep(time.Second)
		}
		assert.Equal(t, breaker.Closed, d.Snapshot().Breaker, "breaker after ten 429")
	})
}
