package retry_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// hinted is a failure of unknown effect that asks for a wait.
type hinted struct{ after time.Duration }

func (hinted) Error() string { return "the answer was lost" }

func (h hinted) Verdict() classify.Verdict {
	return classify.Verdict{Reason: "http_503", RetryAfter: h.after}
}

func TestALookupFindsOutWhatIsUnknown(t *testing.T) {
	var (
		found = func(context.Context, retry.Intention) (string, error) { return "found", nil }
		never = func(context.Context, retry.Intention) (string, error) {
			return "", errors.Join(errors.New("order 17"), retry.ErrNotApplied)
		}
		errNotFound = errors.New("not found")
		notYet      = func(context.Context, retry.Intention) (string, error) { return "", errNotFound }
	)
	for _, tt := range []struct {
		name    string
		safety  retry.Safety
		fail    []error
		lookup  func(context.Context, retry.Intention) (string, error)
		value   string
		calls   int
		lookups int
		is      []error
		outcome retry.Outcome
	}{
		{"it was applied", retry.Unsafe, []error{errCut}, found, "found", 1, 1, nil, 0},
		{"it was not and cannot be", retry.Unsafe, []error{errCut}, never, "sent", 2, 1, nil, 0},
		{"it was not, each time", retry.Unsafe, []error{errCut, errCut, errCut}, never, "", 3, 3, []error{retry.ErrAttempts, errCut}, retry.NotApplied},
		{"it was not, and then is refused", retry.Unsafe, []error{errCut, errNo}, never, "", 2, 1, []error{retry.ErrPermanent, errNo}, retry.NotApplied},
		{"nobody knows", retry.Unsafe, []error{errCut}, notYet, "", 1, 1, []error{retry.ErrOutcomeUnknown, errCut, errNotFound}, retry.Unknown},
		{"no need to ask: permanent", retry.Unsafe, []error{errNo}, found, "", 1, 0, []error{retry.ErrPermanent}, retry.NotApplied},
		{"no need to ask: repeated and done", retry.Unsafe, []error{errRefused}, found, "sent", 2, 0, nil, 0},
		{"no need to ask: keyed and done", retry.Keyed, []error{errCut}, found, "sent", 2, 0, nil, 0},
		{"attempts used up, applied", retry.Keyed, []error{errCut, errCut, errCut}, found, "found", 3, 1, nil, 0},
		{"attempts used up, not applied", retry.Keyed, []error{errCut, errCut, errCut}, never, "", 3, 1, []error{retry.ErrAttempts, errCut}, retry.NotApplied},
		{"a refusal that may be the work of the first, applied", retry.Keyed, []error{errCut, errNo}, found, "found", 2, 1, nil, 0},
		{"a refusal that may be the work of the first, not applied", retry.Keyed, []error{errCut, errNo}, never, "", 2, 1, []error{retry.ErrPermanent, errNo}, retry.NotApplied},
		{"a refusal after which nobody knows", retry.Keyed, []error{errCut, errNo}, notYet, "", 2, 1, []error{retry.ErrPermanent, errNo, errNotFound, retry.ErrOutcomeUnknown}, retry.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, lookups := failing(tt.fail...), 0
				d := to(t, steady)
				got, err := retry.Do(t.Context(), d, tt.safety, func(ctx context.Context) (string, error) {
					if err := s.op(ctx); err != nil {
						return "", err
					}
					return "sent", nil
				}, retry.Reconcile(func(ctx context.Context, in retry.Intention) (string, error) {
					lookups++
					return tt.lookup(ctx, in)
				}))
				assert.Equal(t, tt.value, got, "Do")
				assert.Len(t, s.at, tt.calls, "calls")
				assert.Equal(t, tt.lookups, lookups, "lookups")
				if tt.is == nil {
					assert.NoError(t, err, "Do")
					return
				}
				for _, want := range tt.is {
					assert.ErrorIs(t, err, want, "Do")
				}
				assert.Equal(t, tt.outcome, failure(t, err).Outcome, "outcome")
				assert.Equal(t, tt.outcome == retry.Unknown, errors.Is(err, retry.ErrOutcomeUnknown), "Is(ErrOutcomeUnknown)")
				assert.False(t, strings.Contains(err.Error(), "\n"), "the text must be one line: %q", err)
				assert.Zero(t, d.Snapshot().Calls, "calls under way")
			})
		})
	}
}

// The lookup runs after the delay, within the deadline, without mark or key.
func TestALookupHasTheDelayBeforeItAndNoMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "value")
		var events []retry.Event
		d := to(t, steady, func(_ context.Context, e retry.Event) { events = append(events, e) })
		s, asked := failing(hinted{3 * time.Second}), time.Time{}
		err := d.Do(ctx, retry.Unsafe, func(ctx context.Context) error {
			_ = retry.Key(ctx)
			return s.op(ctx)
		}, retry.Named("charge"), retry.Reconcile(func(ctx context.Context, in retry.Intention) (none struct{}, _ error) {
			asked = time.Now()
			assert.Zero(t, retry.AttemptOf(ctx), "attempt")
			assert.Empty(t, retry.Key(ctx), "key")
			_, ok := retry.IntentionOf(ctx)
			assert.False(t, ok, "IntentionOf")
			_, ok = retry.CallOf(ctx)
			assert.False(t, ok, "CallOf")
			assert.Equal(t, "value", ctx.Value(key{}), "the caller's values")
			end, ok := ctx.Deadline()
			assert.True(t, ok && time.Until(end) == 10*time.Second, "the time of a lookup is that of an attempt, not %v", time.Until(end))
			assert.NotEmpty(t, in.Key, "the intention's key")
			assert.Equal(t, "charge", in.Operation, "operation")
			assert.Equal(t, s.at[0], in.FirstSent, "FirstSent")
			return none, retry.ErrNotApplied
		}))
		require.NoError(t, err, "Do")
		assert.Equal(t, 3*time.Second, asked.Sub(s.at[0]), "the hint before the lookup")
		assert.Equal(t, 3*time.Second, s.at[1].Sub(s.at[0]), "no second delay before the repeat")
		assert.Equal(t, []retry.EventKind{retry.EventAttempt, retry.EventPushback, retry.EventRetry, retry.EventAttempt}, kinds(events), "events")
		// The call paid for the repeat, and its first attempt had failed: a full budget stays full.
		assert.Equal(t, 10.0, d.Snapshot().Budget, "budget")
	})
}

func TestALookupInsideAnAttemptHasItsOwnLayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookups := 0
		require.NoError(t, to(t, steady).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			return to(t, steady).Do(ctx, retry.Unsafe, failing(errCut).op, retry.Reconcile(func(ctx context.Context, _ retry.Intention) (none struct{}, _ error) {
				assert.Zero(t, retry.AttemptOf(ctx), "AttemptOf")
				assert.Empty(t, retry.Key(ctx), "Key")
				return none, to(t, steady).Do(ctx, retry.Unsafe, func(context.Context) error {
					if lookups++; lookups < 3 {
						return errRefused
					}
					return nil
				})
			}))
		}), "Do")
		assert.Equal(t, 3, lookups, "attempts of the lookup, which repeats by itself")
	})
}

func TestALookupThatCannotRunInTimeIsNotRun(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		fail   error
		stop   error
		took   time.Duration
	}{
		{"the delay does not fit", retry.Policy{Deadline: time.Second, BaseDelay: 2 * time.Second, Jitter: retry.NoJitter}, errCut, retry.ErrOutcomeUnknown, 0},
		{"the hint does not fit", retry.Policy{Deadline: time.Second}, hinted{2 * time.Second}, retry.ErrOutcomeUnknown, 0},
		{"the hint is above the limit", retry.Policy{Deadline: retry.NoLimit}, hinted{time.Hour}, retry.ErrOutcomeUnknown, 0},
		{"the attempt used up the time", retry.Policy{Deadline: time.Second, AttemptTimeout: retry.NoLimit}, nil, retry.ErrDeadline, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := failure(t, to(t, tt.policy).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
					if tt.fail == nil {
						<-ctx.Done()
						return errCut
					}
					return tt.fail
				}, retry.Reconcile(func(context.Context, retry.Intention) (none struct{}, _ error) {
					t.Error("the lookup was called")
					return none, nil
				})))
				assert.Equal(t, tt.took, time.Since(start), "Do took")
				assert.ErrorIs(t, err, tt.stop, "Do")
				assert.Equal(t, retry.Unknown, err.Outcome, "outcome")
			})
		})
	}
}

func TestALookupIsCutOffWithTheCallAndItsCaller(t *testing.T) {
	hang := func(ctx context.Context, _ retry.Intention) (none struct{}, _ error) {
		<-ctx.Done()
		return none, ctx.Err()
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := retry.Policy{Deadline: 2 * time.Second, AttemptTimeout: 1500 * time.Millisecond, BaseDelay: time.Second, Jitter: retry.NoJitter}
		err := to(t, p).Do(t.Context(), retry.Unsafe, failing(errCut).op, retry.Reconcile(hang))
		assert.Equal(t, 2*time.Second, time.Since(start), "Do took")
		assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "Do")
		assert.ErrorIs(t, err, context.DeadlineExceeded, "the lookup's error")
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Second, func() { cancel(errShutdown) })
		start := time.Now()
		err := to(t, steady).Do(ctx, retry.Unsafe, failing(errCut).op, retry.Reconcile(hang))
		assert.Equal(t, 5*time.Second, time.Since(start), "Do took")
		for _, want := range []error{context.Canceled, errShutdown, errCut, retry.ErrOutcomeUnknown} {
			assert.ErrorIs(t, err, want, "Do")
		}
	})
	synctest.Test(t, func(t *testing.T) { // in the delay before it
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(errShutdown) })
		start := time.Now()
		err := to(t, steady).Do(ctx, retry.Unsafe, failing(errCut).op, retry.Reconcile(hang))
		assert.Equal(t, 50*time.Millisecond, time.Since(start), "Do took")
		assert.ErrorIs(t, err, errShutdown, "Do")
		assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "Do")
	})
}

// A call that was only found to have been applied is no success at the first attempt: it earns nothing.
func TestAFoundResultEarnsNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{Jitter: retry.NoJitter})
		for range 5 { // away from full
			require.Error(t, d.Do(t.Context(), retry.Unsafe, always(errRefused).op))
		}
		before, start := d.Snapshot().Budget, time.Now()
		require.Less(t, before, 5.0, "budget")
		found := retry.Reconcile(func(context.Context, retry.Intention) (none struct{}, _ error) { return none, nil })
		require.NoError(t, d.Do(t.Context(), retry.Unsafe, failing(errCut).op, found), "Do")
		assert.InDelta(t, before+0.01*time.Since(start).Seconds(), d.Snapshot().Budget, 1e-9, "budget")
	})
}

// A lookup that finds the intention applied is told, for nothing else says that
// the call ended well.
func TestALookupThatFindsItAppliedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []retry.Event
		var log strings.Builder
		write := retry.LogTo(slog.New(slog.NewTextHandler(&log, nil)))
		d := to(t, steady, func(ctx context.Context, e retry.Event) {
			events = append(events, e)
			write(ctx, e)
		})
		err := d.Do(t.Context(), retry.Unsafe, failing(errCut).op, retry.Reconcile(func(context.Context, retry.Intention) (none struct{}, _ error) {
			return none, nil
		}))
		require.NoError(t, err, "Do")
		require.Equal(t, []retry.EventKind{retry.EventAttempt, retry.EventStop}, kinds(events), "events")
		e := events[1]
		assert.False(t, e.Failed, "Failed")
		assert.Equal(t, retry.Applied, e.Outcome, "Outcome")
		assert.Equal(t, retry.ErrOutcomeUnknown, e.Stop, "Stop: why there was no further attempt")
		assert.ErrorIs(t, e.Err, errCut, "Err")
		assert.Contains(t, log.String(), "level=INFO msg=\"found applied\"")
	})
}
