package retry_test

import (
	"context"
	"errors"
	"math"
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

// bucket is a policy whose only limit is its budget.
func bucket(b retry.Budget, attempts int) retry.Policy {
	return retry.Policy{
		MaxAttempts: attempts, BaseDelay: 1, MaxDelay: 1, ThrottleDelay: 1, Jitter: retry.NoJitter, PrivatePushback: true,
		Budget: b, Breaker: breaker.Settings{Disabled: true},
	}
}

// Full with 10, a retry takes 1 when it is decided, a first-try success puts in 0.2, a retry that is never sent or is
// answered with anything but 408, 429 and 5xx puts its 1 back, plus 0.01 a second; never above Burst or below 0; empty
// means drop, never wait; first attempts never pay.
func TestTheArithmeticOfTheBudget(t *testing.T) {
	do := func(t *testing.T, d *retry.Destination, errs ...error) error {
		return d.Do(t.Context(), retry.Idempotent, failing(errs...).op)
	}
	for _, tt := range []struct {
		name  string
		fail  []error
		costs float64
	}{
		{"a success at once earns no more than is missing", nil, 0},
		{"a first attempt that fails is free", []error{errNo}, 0},
		{"a repeat that succeeds", []error{errRefused}, 0},
		{"a second repeat that succeeds", []error{errRefused, errRefused}, 1},
		{"a repeat that is refused", []error{errRefused, errRefused, errNo}, 1},
		{"a repeat answered with 404", []error{errRefused, status{classify.Permanent, 404}}, 0},
		{"a repeat answered with 409", []error{errRefused, status{classify.Retryable, 409}}, 0},
		{"a repeat answered with 408", []error{errRefused, status{classify.Ambiguous, 408}}, 1},
		{"a repeat answered with 429", []error{errRefused, status{classify.Retryable, 429}}, 1},
		{"a repeat answered with 500", []error{errRefused, status{classify.Ambiguous, 500}}, 1},
		{"a repeat answered with 501", []error{errRefused, status{classify.Permanent, 501}}, 1},
		{"a repeat that could not be sent from here", []error{errRefused, localFault{}}, 0},
		{"repeats that could not be sent from here", []error{errRefused, classify.As(classify.Retryable, localFault{}), errNo}, 0},
		{"a repeat that somebody below has cancelled", []error{errRefused, context.Canceled, errNo}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := to(t, bucket(retry.Budget{PerSecond: 1e-12}, 3))
			_ = do(t, d, tt.fail...)
			assert.InDelta(t, 10-tt.costs, d.Snapshot().Budget, 1e-9, tt.name)
		})
	}

	synctest.Test(t, func(t *testing.T) { // what is earned
		d := to(t, bucket(retry.Budget{Burst: 4, PerSecond: 1e-12}, 5))
		start := time.Now()
		err := do(t, d, errRefused, errRefused, errRefused, errRefused, errRefused)
		assert.ErrorIs(t, err, retry.ErrAttempts, "the fifth attempt of five")
		assert.InDelta(t, 0, d.Snapshot().Budget, 1e-9, "budget")
		err = do(t, d, errRefused)
		assert.ErrorIs(t, err, retry.ErrBudget, "an empty budget drops")
		assert.ErrorIs(t, err, errRefused, "an empty budget drops")
		assert.Less(t, time.Since(start), time.Millisecond, "and never waits")
		for i := range 4 {
			require.NoError(t, do(t, d))
			assert.InDelta(t, 0.2*float64(i+1), d.Snapshot().Budget, 1e-9, "budget after %d successes at once", i+1)
		}
		assert.ErrorIs(t, do(t, d, errRefused), retry.ErrBudget, "0.8 is not 1")
		require.NoError(t, do(t, d))
		assert.NoError(t, do(t, d, errRefused), "five successes pay for a repeat")
		assert.InDelta(t, 1, d.Snapshot().Budget, 1e-9, "the repeat succeeded: its 1 is back")
		for range 100 {
			require.NoError(t, do(t, d))
		}
		assert.InDelta(t, 4, d.Snapshot().Budget, 1e-9, "never above Burst")
	})

	synctest.Test(t, func(t *testing.T) { // ten tenths are one
		d := to(t, bucket(retry.Budget{Burst: 1, Ratio: 0.1, PerSecond: 1e-15}, 3))
		require.ErrorIs(t, do(t, d, errRefused, errRefused, errRefused), retry.ErrBudget, "Do")
		for range 10 {
			require.NoError(t, do(t, d))
		}
		assert.NoError(t, do(t, d, errRefused), "Do after ten successes at once")
	})

	synctest.Test(t, func(t *testing.T) { // under a layer that repeats, only its first attempt earns
		d := to(t, bucket(retry.Budget{Burst: 4, PerSecond: 1e-12}, 5))
		require.Error(t, do(t, d, errRefused, errRefused, errRefused, errRefused, errRefused))
		for n, want := range []float64{0.2, 0.2, 0.2} {
			ctx, done := retry.WithMark(t.Context(), n+1, 3)
			require.NoError(t, d.Do(ctx, retry.Unsafe, failing().op))
			done()
			assert.InDelta(t, want, d.Snapshot().Budget, 1e-9, "budget after attempt %d of the layer above", n+1)
		}
	})

	synctest.Test(t, func(t *testing.T) { // time
		d := to(t, bucket(retry.Budget{}, 11))
		require.Error(t, d.Do(t.Context(), retry.Idempotent, always(errRefused).op))
		assert.InDelta(t, 0, d.Snapshot().Budget, 1e-6, "budget")
		time.Sleep(100 * time.Second)
		assert.InDelta(t, 1, d.Snapshot().Budget, 1e-6, "budget after 100 s")
		assert.NoError(t, do(t, d, errRefused), "Do")
		time.Sleep(time.Hour)
		assert.InDelta(t, 10, d.Snapshot().Budget, 1e-6, "budget after an hour")
	})
}

// localFault is a failure of this process.
type localFault struct{}

func (localFault) Error() string { return "too many open files" }

func (localFault) Verdict() classify.Verdict {
	return classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "local"}
}

// B92: token not given back when a retry ends in a final error: attempt 1 = 503, attempt 2 = 404; 1000 calls; budget
// must stay near full. Also: cancel during the wait returns the token.
func TestHarmlessAnswersDoNotDrainTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, bucket(retry.Budget{}, 3))
		for range 1000 {
			err := d.Do(t.Context(), retry.Unsafe, failing(status{classify.Retryable, 503}, status{classify.Permanent, 404}).op)
			require.ErrorIs(t, err, retry.ErrPermanent, "Do")
		}
		assert.Equal(t, 10.0, d.Snapshot().Budget, "budget")
	})
	for name, p := range map[string]retry.Policy{
		"cancelled in the wait":    {Deadline: retry.NoLimit},
		"no time for the wait":     {Deadline: time.Minute},
		"a hint above the limit":   {MaxRetryAfter: time.Second},
		"the breaker has opened":   {Deadline: retry.NoLimit, Breaker: breaker.Settings{MinResults: 1, OpenFor: 2 * time.Hour, MaxOpenFor: 3 * time.Hour}},
		"the schedule has no more": {Deadline: retry.NoLimit, Backoff: stopAtOnce},
	} {
		synctest.Test(t, func(t *testing.T) {
			if p.MaxRetryAfter == 0 {
				p.MaxRetryAfter = time.Hour
			}
			d := to(t, p)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			err := d.Do(ctx, retry.Unsafe, failing(classify.After(time.Hour, errRefused)).op)
			assert.Error(t, err, name)
			assert.Equal(t, 10.0, d.Snapshot().Budget, "%s: budget", name)
			cancel()
			synctest.Wait()
		})
	}
}

// B95: budget documented but not wired, or shared by accident. All calls fail, MaxAttempts 100: total retries must be
// limited by the budget. Two clients built from one config must not share a bucket unless asked to.
func TestTheBudgetBoundsAllCallsOfADestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bucket(retry.Budget{Burst: 7}, 100)
		a, b := to(t, p), to(t, p)
		variant, err := a.With(bucket(retry.Budget{Burst: 1000}, 100))
		require.NoError(t, err, "With")
		sent := 0
		for range 50 {
			for _, d := range []*retry.Destination{a, variant} {
				s := always(errRefused)
				assert.ErrorIs(t, d.Do(t.Context(), retry.Unsafe, s.op), retry.ErrBudget, "Do")
				sent += len(s.at)
			}
		}
		assert.Equal(t, 100+7, sent, "attempts of 100 calls: first ones are never refused")
		assert.InDelta(t, 7, b.Snapshot().Budget, 1e-9, "budget of another destination with the same policy")
	})
	synctest.Test(t, func(t *testing.T) {
		d := to(t, bucket(retry.Budget{Disabled: true}, 100))
		s := always(errRefused)
		assert.ErrorIs(t, d.Do(t.Context(), retry.Unsafe, s.op), retry.ErrAttempts, "Do without budget")
		assert.Equal(t, -1.0, d.Snapshot().Budget, "budget that is disabled")
	})
}

// FuzzBudget compares a destination with a sum made by hand: never above Burst or below 0.
func FuzzBudget(f *testing.F) {
	f.Add(uint8(10), 0.2, 0.01, []byte("s1234snrrrrttts"))
	f.Add(uint8(1), 1.0, 0.0001, []byte{0, 9, 18, 27, 255, 3, 4, 5})
	f.Add(uint8(3), 0.1, 100.0, []byte("ssssssssss1s1s1"))
	f.Fuzz(func(t *testing.T, burst uint8, ratio, perSecond float64, steps []byte) {
		p := bucket(retry.Budget{Burst: int(burst), Ratio: ratio, PerSecond: perSecond}, 4)
		if p.Validate() != nil || burst == 0 || ratio == 0 || perSecond == 0 {
			return // not a policy, or one with defaults
		}
		synctest.Test(t, func(t *testing.T) {
			d := to(t, p)
			tokens, filled := float64(burst), time.Now()
			fill := func() {
				now := time.Now()
				tokens = min(tokens+now.Sub(filled).Seconds()*perSecond, float64(burst))
				filled = now
			}
			for _, b := range steps[:min(len(steps), 200)] {
				if b%8 == 7 {
					time.Sleep(time.Duration(b) * time.Second / 8)
					continue
				}
				// A call whose attempts end as its bits say, after which every attempt succeeds.
				var errs []error
				for bits := b; bits > 0 && len(errs) < 3; bits /= 4 {
					errs = append(errs, []error{errRefused, status{classify.Permanent, 404}, status{classify.Retryable, 409}, errRefused}[bits%4])
				}
				s := failing(errs...)
				err := d.Do(t.Context(), retry.Idempotent, s.op)
				fill()
				for i := range s.at {
					answered := i >= len(errs) || errs[i] != errRefused
					switch {
					case i == 0 && len(errs) == 0:
						tokens = min(tokens+ratio, float64(burst))
					case i > 0 && !answered:
						tokens--
					}
				}
				got := d.Snapshot().Budget
				if got < 0 || got > float64(burst) || math.IsNaN(got) {
					t.Fatalf("the budget is %v after %d attempts and %v, want 0 to %d", got, len(s.at), err, burst)
				}
				// A time of up to 3 ns passes between the attempts: that much may lie between the two sums.
				if math.Abs(got-tokens) > 1e-6*(1+perSecond) {
					t.Fatalf("the budget is %v after %d attempts of %v and %v, want %v", got, len(s.at), errs, err, tokens)
				}
				if errors.Is(err, retry.ErrBudget) && got >= 1 {
					t.Fatalf("Do = %v with a budget of %v", err, got)
				}
				tokens = got
			}
		})
	})
}

// stopAtOnce is an own schedule without a wait in it.
func stopAtOnce() backoff.BackOff { return &backoff.StopBackOff{} }
