package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// The error's text says in one line what happened, what is known of the effect, and what the caller can do.
func TestTheTextOfAnErrorIsForPeople(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, tt := range []struct {
		name string
		call func(*testing.T) error
		want string
	}{
		{"attempts used up", func(t *testing.T) error {
			return to(t, steady).Do(t.Context(), retry.Unsafe, always(errRefused).op, retry.Named("charge"))
		}, "retry: charge to payments: attempts used up after 3 attempts in 300ms: connection refused; it was not applied: it can be repeated later"},
		{"several errors joined", func(t *testing.T) error {
			return to(t, steady).Do(t.Context(), retry.Unsafe, failing(errors.Join(errNo, errCut)).op)
		}, "retry: to payments: permanent failure after 1 attempt in 0s: no such account; the answer was lost; it was not applied: mend the cause before repeating it"},
		{"unknown", func(t *testing.T) error {
			return to(t, steady).Do(t.Context(), retry.Unsafe, failing(errCut).op)
		}, "retry: to payments: outcome unknown after 1 attempt in 0s: the answer was lost; it may have been applied: find out before repeating it"},
		{"unknown with a key", func(t *testing.T) error {
			return to(t, steady).Do(t.Context(), retry.Unsafe, failing(errCut).op, retry.WithKey("order-17"))
		}, "retry: to payments: outcome unknown after 1 attempt in 0s: the answer was lost; it may have been applied: find out before repeating it (its key is order-17)"},
		{"unknown with a key that is honoured", func(t *testing.T) error {
			return to(t, steady).Do(t.Context(), retry.Keyed, always(errCut).op, retry.WithKey("order-17"))
		}, "retry: to payments: attempts used up after 3 attempts in 300ms: the answer was lost; it may have been applied: repeat it only under the same key, order-17"},
		{"permanent", func(t *testing.T) error {
			return to(t, steady).Do(t.Context(), retry.Unsafe, failing(errNo).op)
		}, "retry: to payments: permanent failure after 1 attempt in 0s: no such account; it was not applied: mend the cause before repeating it"},
		{"permanent after an unknown one", func(t *testing.T) error {
			return to(t, steady).Do(t.Context(), retry.Idempotent, failing(errCut, errNo).op)
		}, "retry: to payments: permanent failure after 2 attempts in 100ms: no such account; it may have been applied: repeating it does no harm"},
		{"a deadline", func(t *testing.T) error {
			return to(t, retry.Policy{Deadline: 1234567 * time.Microsecond}).Do(t.Context(), retry.Unsafe, hang)
		}, "retry: to payments: no time left after 1 attempt in 1.23s: context deadline exceeded; it may have been applied: find out before repeating it"},
		{"a cause", func(t *testing.T) error {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errShutdown)
			return to(t, steady).Do(ctx, retry.Unsafe, failing().op)
		}, "retry: to payments: context canceled: the service is shutting down after no attempt; it was not applied: it can be repeated later"},
		{"pushback", func(t *testing.T) error {
			return to(t, steady).Do(t.Context(), retry.Unsafe, failing(rationed{time.Hour}).op)
		}, "retry: to payments: callee asked to be left alone after 1 attempt in 0s: too many requests; it was not applied: repeat it in 1h0m0s"},
		{"an open breaker", func(t *testing.T) error {
			d := to(t, retry.Policy{MaxAttempts: 1, Breaker: breaker.Settings{MinResults: 1, OpenFor: time.Hour, MaxOpenFor: time.Hour}})
			_ = d.Do(t.Context(), retry.Unsafe, failing(errRefused).op)
			time.Sleep(time.Until(d.Snapshot().RetryAt) - 2*time.Second)
			err := d.Do(t.Context(), retry.Unsafe, failing().op)
			open, ok := errors.AsType[*breaker.OpenError](err)
			require.True(t, ok, "Do = %v", err)
			open.RetryAt = time.Date(2000, 1, 1, 0, 0, 2, 0, time.UTC) // which is drawn
			return err
		}, `retry: to payments: breaker: "payments" is open until 2000-01-01T00:00:02.000Z after no attempt; it was not applied: repeat it in 2s`},
		{"an empty budget", func(t *testing.T) error {
			return to(t, bucket(retry.Budget{Burst: 1}, 5)).Do(t.Context(), retry.Unsafe, always(errRefused).op)
		}, "retry: to payments: retry budget empty after 2 attempts in 1ns: connection refused; it was not applied: it can be repeated later"},
		{"a lookup that found nothing", func(t *testing.T) error {
			return to(t, steady).Do(t.Context(), retry.Unsafe, failing(errCut).op, retry.Reconcile(func(context.Context, retry.Intention) (none struct{}, _ error) {
				return none, errors.New("not found")
			}))
		}, "retry: to payments: outcome unknown; the lookup failed: not found after 1 attempt in 100ms: the answer was lost; it may have been applied: find out before repeating it"},
		{"a call that cannot be made", func(t *testing.T) error {
			return to(t, steady).Do(t.Context(), retry.Unsafe, failing().op, retry.WithKey("order 17"))
		}, `retry: to payments: permanent failure after no attempt: idempotency key "order 17" has ' ' at 5: allowed is visible ASCII without quote, backslash, comma and blank; it was not applied: mend the cause before repeating it`},
		{"no destination", func(t *testing.T) error {
			return (*retry.Destination)(nil).Do(t.Context(), retry.Unsafe, failing().op)
		}, "retry: permanent failure after no attempt: destination is nil or zero: make one with NewDestination or Layer.To; it was not applied: mend the cause before repeating it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				assert.EqualError(t, tt.call(t), tt.want)
			})
		})
	}
	assert.EqualError(t, &retry.Error{Destination: "payments", Operation: "POST", Outcome: retry.Applied, Stop: retry.ErrPermanent, Last: errors.New("303"), Attempts: make([]retry.Attempt, 1)},
		"retry: POST to payments: permanent failure after 1 attempt in 0s: 303; it was applied: do not repeat it")
}

// B146: exhausted error breaks errors.Is/As. fn fails with errA then errB (permanent on attempt 2 of 5): errors.Is(err,
// errB) true, errors.Unwrap chain has no nil surprises; decide on errA.
func TestAnErrorMatchesTheStopAndTheLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errA := classify.As(classify.Retryable, &fs.PathError{Op: "a", Path: "b", Err: errCut})
		errB := classify.As(classify.Permanent, fmt.Errorf("b: %w", fs.ErrExist))
		err := failure(t, to(t, retry.Policy{MaxAttempts: 5}).Do(t.Context(), retry.Unsafe, failing(errA, errB).op))
		for _, want := range []error{errB, fs.ErrExist, retry.ErrPermanent} {
			assert.ErrorIs(t, err, want)
		}
		assert.NotErrorIs(t, err, errA, "an earlier attempt's error stands in Attempts only")
		assert.Equal(t, errA, err.Attempts[0].Err, "the first attempt's error")
		assert.Equal(t, errB, err.Last, "Last")
		assert.Equal(t, []error{retry.ErrPermanent, errB}, err.Unwrap(), "Unwrap")

		err = failure(t, to(t, steady).Do(t.Context(), retry.Unsafe, always(errA).op))
		path, ok := errors.AsType[*fs.PathError](err)
		assert.True(t, ok && path.Op == "a", "AsType[*fs.PathError] = %v, %v", path, ok)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err = failure(t, to(t, steady).Do(ctx, retry.Unsafe, failing().op))
		assert.Equal(t, []error{context.Canceled}, err.Unwrap(), "Unwrap where nothing was sent")
		assert.Empty(t, new(retry.Error).Unwrap(), "Unwrap of the zero value")
	})
}

// An outcome that has been found out since is not unknown any more, though the failure inside once was.
func TestAnErrorWhoseOutcomeWasFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := to(t, retry.Policy{MaxAttempts: 1})
		never := retry.Reconcile(func(context.Context, retry.Intention) (none struct{}, _ error) { return none, retry.ErrNotApplied })
		err := failure(t, to(t, retry.Policy{MaxAttempts: 1}).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			return inner.Do(ctx, retry.Unsafe, failing(hinted{}).op)
		}, never))
		assert.Equal(t, retry.NotApplied, err.Outcome, "outcome")
		assert.NotErrorIs(t, err, retry.ErrOutcomeUnknown, "Do")
		assert.ErrorIs(t, err, hinted{}, "what failed can still be found")
		assert.ErrorIs(t, err.Last, retry.ErrOutcomeUnknown, "Last as it was")
		lost, ok := errors.AsType[hinted](err)
		assert.True(t, ok, "AsType[hinted] = %v", lost)
	})
}

func TestTimeoutIsTrueWhereTimeWasLacking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		past, cancelPast := context.WithTimeout(t.Context(), -1)
		defer cancelPast()
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		for name, tt := range map[string]struct {
			err  error
			want bool
		}{
			"attempts refused":             {to(t, steady).Do(t.Context(), retry.Unsafe, always(errRefused).op), false},
			"attempts timed out":           {to(t, retry.Policy{AttemptTimeout: time.Second}).Do(t.Context(), retry.Idempotent, hang), true},
			"a deadline":                   {to(t, retry.Policy{Deadline: time.Second}).Do(t.Context(), retry.Unsafe, hang), true},
			"the caller's deadline":        {to(t, steady).Do(past, retry.Unsafe, hang), true},
			"the caller's cancel":          {to(t, steady).Do(cancelled, retry.Unsafe, hang), false},
			"a pause":                      {pushedBack(t, retry.Policy{Deadline: time.Second}, 30*time.Second).Do(t.Context(), retry.Unsafe, hang), false},
			"a deadline error of a callee": {to(t, steady).Do(t.Context(), retry.Unsafe, failing(context.DeadlineExceeded).op), true},
		} {
			got := failure(t, tt.err)
			assert.Equal(t, tt.want, got.Timeout(), "%s: Timeout() of %v", name, got)
			net, ok := errors.AsType[interface {
				error
				Timeout() bool
			}](fmt.Errorf("x: %w", got))
			assert.True(t, ok && net.Timeout() == tt.want, "%s: Timeout() of what wraps it", name)
		}
	})
	assert.True(t, retry.ErrDeadline.(interface{ Timeout() bool }).Timeout(), "ErrDeadline.Timeout()")
}
