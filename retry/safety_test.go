package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// repeatable is an ambiguous failure that says of itself that a repeat doubles nothing.
type repeatable struct{}

func (repeatable) Error() string { return "a read was cut" }

func (repeatable) Verdict() classify.Verdict {
	return classify.Verdict{Reason: "closed", Repeatable: true}
}

// B141: write without key repeated after a timeout: network errors and 5xx are retried whatever the method. Only
// idempotent methods or keyed writes are repeated after an ambiguous failure.
func TestWhatIsRepeatedByClassAndSafety(t *testing.T) {
	for _, tt := range []struct {
		name    string
		fail    error
		safety  retry.Safety
		calls   int
		stop    error
		outcome retry.Outcome
	}{
		{"retryable, unsafe", errRefused, retry.Unsafe, 3, retry.ErrAttempts, retry.NotApplied},
		{"retryable, keyed", errRefused, retry.Keyed, 3, retry.ErrAttempts, retry.NotApplied},
		{"retryable, idempotent", errRefused, retry.Idempotent, 3, retry.ErrAttempts, retry.NotApplied},

		{"ambiguous, unsafe", errCut, retry.Unsafe, 1, retry.ErrOutcomeUnknown, retry.Unknown},
		{"ambiguous, keyed", errCut, retry.Keyed, 3, retry.ErrAttempts, retry.Unknown},
		{"ambiguous, idempotent", errCut, retry.Idempotent, 3, retry.ErrAttempts, retry.Unknown},
		{"ambiguous but repeatable, unsafe", repeatable{}, retry.Unsafe, 3, retry.ErrAttempts, retry.Unknown},

		{"permanent, unsafe", errNo, retry.Unsafe, 1, retry.ErrPermanent, retry.NotApplied},
		{"permanent, keyed", errNo, retry.Keyed, 1, retry.ErrPermanent, retry.NotApplied},
		{"permanent, idempotent", errNo, retry.Idempotent, 1, retry.ErrPermanent, retry.NotApplied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := always(tt.fail)
				err := failure(t, to(t, retry.Policy{}).Do(t.Context(), tt.safety, s.op))
				assert.Len(t, s.at, tt.calls, "calls")
				assert.ErrorIs(t, err, tt.stop, "Do")
				assert.ErrorIs(t, err, tt.fail, "Do")
				assert.Equal(t, tt.outcome, err.Outcome, "outcome")
				assert.Equal(t, tt.outcome == retry.Unknown, errors.Is(err, retry.ErrOutcomeUnknown), "Is(ErrOutcomeUnknown)")
			})
		})
	}
}

// Stickiness. After an ambiguous attempt a later permanent or retryable failure leaves the outcome unknown.
// B72: 404/409 after an ambiguous first attempt: do not report a plain failure: mark the result 'maybe done earlier'.
// B139: 409 'still in progress' reported as failure: if time runs out report 'ambiguous', not 'failed'.
func TestAnUnknownOutcomeStaysUnknown(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail []error
		stop error
		want retry.Outcome
	}{
		{"then permanent", []error{errCut, status{classify.Permanent, 404}}, retry.ErrPermanent, retry.Unknown},
		{"then turned away", []error{errCut, rationed{}, rationed{}}, retry.ErrAttempts, retry.Unknown},
		{"between refusals", []error{errRefused, errCut, errRefused}, retry.ErrAttempts, retry.Unknown},
		{"never ambiguous", []error{errRefused, rationed{}, errNo}, retry.ErrPermanent, retry.NotApplied},
	} {
		synctest.Test(t, func(t *testing.T) {
			err := failure(t, to(t, retry.Policy{}).Do(t.Context(), retry.Idempotent, failing(tt.fail...).op))
			assert.ErrorIs(t, err, tt.stop, tt.name)
			assert.Equal(t, tt.want, err.Outcome, "%s: outcome", tt.name)
			assert.Equal(t, tt.want == retry.Unknown, errors.Is(err, retry.ErrOutcomeUnknown), "%s: Is(ErrOutcomeUnknown)", tt.name)
			if tt.want == retry.Unknown {
				assert.ErrorContains(t, err, "it may have been applied", tt.name)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		assert.NoError(t, to(t, retry.Policy{}).Do(t.Context(), retry.Idempotent, failing(errCut).op), "a success proves it")
	})
}

// A key older than ValidFor, counted from FirstSent, is untrusted again.
func TestAnExpiredKeyIsNoLongerTrusted(t *testing.T) {
	for _, tt := range []struct {
		name  string
		age   time.Duration // of the stored intention
		valid time.Duration
		calls int
	}{
		{"never sent", 0, 0, 3},
		{"sent a day ago", 24 * time.Hour, 0, 1},
		{"sent a little later", 24*time.Hour - time.Second, 0, 3},
		{"remembered for a week", 6 * 24 * time.Hour, 7 * 24 * time.Hour, 3},
		{"expires between two attempts", time.Hour - 250*time.Millisecond, time.Hour, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := retry.Intention{Key: "order-17"}
				if tt.age > 0 {
					in.FirstSent = time.Now().Add(-tt.age)
				}
				s := always(errCut)
				d := to(t, retry.Policy{Jitter: retry.NoJitter, Key: retry.KeyPolicy{ValidFor: tt.valid}})
				err := failure(t, d.Do(retry.WithIntention(t.Context(), in), retry.Keyed, func(ctx context.Context) error {
					time.Sleep(time.Millisecond)
					return s.op(ctx)
				}))
				assert.Len(t, s.at, tt.calls, "calls")
				assert.Equal(t, retry.Unknown, err.Outcome, "outcome")
				if tt.age > 0 {
					assert.Equal(t, in.FirstSent, err.Intention.FirstSent, "FirstSent")
				} else {
					assert.Equal(t, err.Attempts[0].Start, err.Intention.FirstSent, "FirstSent stays that of the first attempt")
				}
			})
		})
	}
}

// What is unknown inside is unknown outside, also of several errors, and of one that was found out it is not.
func TestAnOutcomeInsideAnErrorCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unknown := to(t, retry.Policy{}).Do(t.Context(), retry.Unsafe, failing(errCut).op)
		known := to(t, retry.Policy{}).Do(t.Context(), retry.Unsafe, failing(errNo).op)
		for name, tt := range map[string]struct {
			err  error
			want retry.Outcome
		}{
			"unknown":                 {fmt.Errorf("x: %w", unknown), retry.Unknown},
			"known":                   {fmt.Errorf("x: %w", known), retry.NotApplied},
			"both":                    {errors.Join(known, unknown), retry.Unknown},
			"unknown, said permanent": {classify.As(classify.Permanent, unknown), retry.Unknown},
		} {
			s := always(tt.err)
			err := failure(t, to(t, retry.Policy{}).Do(t.Context(), retry.Idempotent, s.op))
			assert.Len(t, s.at, 1, "%s: an exhausted error is not repeated", name)
			assert.ErrorIs(t, err, retry.ErrPermanent, name)
			assert.Equal(t, tt.want, err.Outcome, "%s: outcome", name)
		}

		s := always(classify.As(classify.Retryable, known))
		_ = to(t, retry.Policy{}).Do(t.Context(), retry.Unsafe, s.op)
		assert.Len(t, s.at, 3, "calls where the outer layer opts in")
	})
}

func TestTheWordsOfSafetyAndOutcome(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"unsafe": retry.Unsafe, "keyed": retry.Keyed, "idempotent": retry.Idempotent, "unknown": retry.Unknown, "applied": retry.Applied,
		"not applied": retry.NotApplied, "full": retry.FullJitter, "equal": retry.EqualJitter, "none": retry.NoJitter, "raw": retry.Raw,
		"structured_string": retry.StructuredString,
	} {
		assert.Equal(t, want, got.String(), "%T.String()", got)
	}
	for _, got := range []fmt.Stringer{retry.Safety(3), retry.Outcome(3), retry.Jitter(3), retry.KeyFormat(2), retry.EventKind(0), retry.EventKind(7)} {
		assert.Equal(t, "invalid", got.String(), "%T.String()", got)
	}
}
