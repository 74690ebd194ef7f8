package retry_test

import (
	"context"
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

// fragile opens at the first failure and closes after one good probe.
var fragile = retry.Policy{Jitter: retry.NoJitter, Breaker: breaker.Settings{MinResults: 1, Probes: 1}}

// B127: open breaker burns the retry loop: the refused call is treated as one more transient failure. Open = final for
// this call, with the time until half-open attached: no wait, no budget spent, 0 requests.
func TestAnOpenBreakerRefusesWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []breaker.State
		d := to(t, fragile, func(ctx context.Context, e retry.Event) {
			if e.Kind == retry.EventBreakerChange {
				changes = append(changes, e.Breaker.To)
				assert.Equal(t, "payments", e.Destination, "Destination of the event")
			}
		})
		start := time.Now()
		s := always(errRefused)
		err := failure(t, d.Do(t.Context(), retry.Unsafe, s.op))
		assert.Len(t, s.at, 1, "calls of the one that opened it")
		assert.ErrorIs(t, err, breaker.ErrOpen, "Do")
		assert.ErrorIs(t, err, errRefused, "Do")
		assert.Equal(t, time.Until(d.Snapshot().RetryAt), err.RetryAfter, "RetryAfter")

		for range 5 {
			s = failing()
			err = failure(t, d.Do(t.Context(), retry.Idempotent, s.op))
			assert.Empty(t, s.at, "calls")
			assert.ErrorIs(t, err, breaker.ErrOpen, "Do")
			assert.Empty(t, err.Attempts, "Attempts")
			assert.Nil(t, err.Last, "Last")
			assert.Equal(t, retry.NotApplied, err.Outcome, "Outcome")
			assert.Equal(t, time.Until(d.Snapshot().RetryAt), err.RetryAfter, "RetryAfter")
			assert.Equal(t, classify.Permanent, err.Verdict().Class, "class for a layer around")
			assert.Equal(t, classify.Local, err.Verdict().Origin, "origin for a layer around")
		}
		assert.Zero(t, time.Since(start), "time passed")
		assert.Equal(t, 10.0, d.Snapshot().Budget, "budget")

		time.Sleep(time.Until(d.Snapshot().RetryAt))
		assert.NoError(t, d.Do(t.Context(), retry.Unsafe, failing().op), "the probe")
		assert.Equal(t, []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Closed}, changes, "changes")
	})
}

// B128: one logical call trips the breaker by itself: trip after 3; a single Do with 5 attempts. The unit is the attempt.
func TestEachAttemptCountsAtTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{MaxAttempts: 5, Breaker: breaker.Settings{MinResults: 3}})
		s := always(errRefused)
		err := d.Do(t.Context(), retry.Unsafe, s.op)
		assert.ErrorIs(t, err, breaker.ErrOpen, "Do")
		assert.Len(t, s.at, 3, "calls")
		assert.Equal(t, breaker.Open, d.Snapshot().Breaker, "breaker")
	})
}

// A wait that outlasts the open breaker is made.
func TestARepeatMayWaitForTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, fragile)
		s := failing(classify.After(7*time.Second, errRefused))
		assert.NoError(t, d.Do(t.Context(), retry.Unsafe, s.op), "Do: it is open for 6 s at most")
		assert.Len(t, s.at, 2, "calls")
		assert.Equal(t, breaker.Closed, d.Snapshot().Breaker, "the repeat was the probe")
	})
}

// B117: caller's cancellation trips the breaker: 10 calls cancelled by the caller, server fine; state closed.
// B113: probe cancelled by its caller: next call admitted; state neither closed nor re-opened by the cancel.
// B111: half-open for ever after an ignored or excluded outcome: every admitted call settles exactly once.
func TestWhatSaysNothingOfTheCalleeMovesNothing(t *testing.T) {
	cancelled := func(d *retry.Destination) error {
		ctx, cancel := context.WithCancel(context.Background())
		return d.Do(ctx, retry.Idempotent, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
	}
	for name, call := range map[string]func(*retry.Destination) error{
		"cancelled by the caller": cancelled,
		"a fault of this process": func(d *retry.Destination) error {
			return d.Do(context.Background(), retry.Unsafe, func(context.Context) error { return localFault{} })
		},
		"turned away for load": func(d *retry.Destination) error {
			return d.Do(context.Background(), retry.Unsafe, failing(rationed{time.Hour}).op)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := fragile
				p.PrivatePushback = true
				d := to(t, p)
				for range 10 {
					require.Error(t, call(d))
				}
				assert.Equal(t, breaker.Closed, d.Snapshot().Breaker, "breaker after ten")

				require.Error(t, d.Do(t.Context(), retry.Unsafe, failing(errRefused).op))
				time.Sleep(time.Until(d.Snapshot().RetryAt))
				for range 3 {
					require.NotErrorIs(t, call(d), breaker.ErrOpen, "Do as the probe")
					assert.Equal(t, breaker.HalfOpen, d.Snapshot().Breaker, "breaker after the probe")
				}
				assert.NoError(t, d.Do(t.Context(), retry.Unsafe, failing().op), "the next probe")
				assert.Equal(t, breaker.Closed, d.Snapshot().Breaker, "breaker")
			})
		})
	}
}

// An attempt's own timeout is a failure; an answer that refuses is none.
func TestWhatTheBreakerCounts(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want breaker.State
	}{
		{"nothing is known", errCut, breaker.Open},
		{"refused", errRefused, breaker.Open},
		{"a deadline that is not the caller's", context.DeadlineExceeded, breaker.Open},
		{"408", status{classify.Ambiguous, 408}, breaker.Open},
		{"503", status{classify.Retryable, 503}, breaker.Open},
		{"404", status{classify.Permanent, 404}, breaker.Closed},
		{"501", status{classify.Permanent, 501}, breaker.Closed},
		{"permanent", errNo, breaker.Closed},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := to(t, fragile)
			require.Error(t, d.Do(t.Context(), retry.Unsafe, failing(tt.err).op))
			assert.Equal(t, tt.want, d.Snapshot().Breaker, tt.name)
		})
	}
}

// B119: more than one probe gets through: trip; wait; 100 goroutines start together; probes reaching fn = configured
// number; others get refused at once.
func TestAHalfOpenBreakerLetsItsProbesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fragile
		p.Breaker.Probes = 4
		d := to(t, p)
		require.Error(t, d.Do(t.Context(), retry.Unsafe, failing(errRefused).op))
		time.Sleep(time.Until(d.Snapshot().RetryAt))
		start := time.Now()
		var mu sync.Mutex
		probes, refused := 0, 0
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				err := d.Do(t.Context(), retry.Unsafe, func(context.Context) error {
					mu.Lock()
					probes++
					mu.Unlock()
					time.Sleep(time.Second)
					return nil
				})
				if err != nil {
					mu.Lock()
					refused++
					mu.Unlock()
					assert.ErrorIs(t, err, breaker.ErrOpen, "Do")
					assert.Zero(t, failure(t, err).RetryAfter, "RetryAfter: it depends on the probes")
					assert.Zero(t, time.Since(start), "Do took")
				}
			})
		}
		wg.Wait()
		assert.Equal(t, []int{4, 96}, []int{probes, refused}, "probes and calls refused")
		assert.Equal(t, breaker.Closed, d.Snapshot().Breaker, "breaker")
	})
}

// A breaker that opens while a call waits for its repeat refuses that too; what it took comes back.
func TestABreakerOpensDuringADelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{BaseDelay: time.Second, Jitter: retry.NoJitter, Breaker: breaker.Settings{MinResults: 2}})
		s := failing(errRefused)
		time.AfterFunc(500*time.Millisecond, func() { _ = d.Do(t.Context(), retry.Unsafe, failing(errRefused).op) })
		err := failure(t, d.Do(t.Context(), retry.Unsafe, s.op))
		assert.ErrorIs(t, err, breaker.ErrOpen, "Do")
		assert.ErrorIs(t, err, errRefused, "Do")
		assert.Len(t, s.at, 1, "calls")
		assert.Equal(t, 10.0, d.Snapshot().Budget, "budget")
	})
}

func TestABreakerMayBeSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{MaxAttempts: 1, Breaker: breaker.Settings{Disabled: true, MinResults: 1}})
		for range 100 {
			assert.NotErrorIs(t, d.Do(t.Context(), retry.Unsafe, failing(errRefused).op), breaker.ErrOpen, "Do")
		}
	})
}
