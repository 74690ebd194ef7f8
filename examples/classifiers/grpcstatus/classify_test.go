package grpcstatus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/examples/classifiers/grpcstatus"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// after is a status that invites to come again after d.
func after(t *testing.T, code codes.Code, d time.Duration) error {
	t.Helper()
	s, err := status.New(code, "come again").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	require.NoError(t, err, "WithDetails")
	return s.Err()
}

func TestEachStatusIsRepeatedAsItsMeaningAllows(t *testing.T) {
	t.Parallel()
	plain := func(c codes.Code) error { return status.Error(c, "no") }
	for _, c := range []struct {
		name       string
		answer     error
		class      classify.Class
		unsafe     int // calls that the server sees
		idempotent int
	}{
		{"Canceled", plain(codes.Canceled), classify.Ambiguous, 1, 3},
		{"Unknown", plain(codes.Unknown), classify.Ambiguous, 1, 3},
		{"DeadlineExceeded", plain(codes.DeadlineExceeded), classify.Ambiguous, 1, 3},
		{"ResourceExhausted", plain(codes.ResourceExhausted), classify.Ambiguous, 1, 3},
		{"Internal", plain(codes.Internal), classify.Ambiguous, 1, 3},
		{"Unavailable", plain(codes.Unavailable), classify.Ambiguous, 1, 3},
		{"DataLoss", plain(codes.DataLoss), classify.Ambiguous, 1, 3},
		{"a code that gRPC does not have", plain(77), classify.Ambiguous, 1, 3},

		{"Aborted", plain(codes.Aborted), classify.Retryable, 3, 3},
		{"Unavailable with an invitation", after(t, codes.Unavailable, time.Millisecond), classify.Retryable, 3, 3},
		{"ResourceExhausted with an invitation", after(t, codes.ResourceExhausted, time.Millisecond), classify.Retryable, 3, 3},

		{"InvalidArgument", plain(codes.InvalidArgument), classify.Permanent, 1, 1},
		{"NotFound", plain(codes.NotFound), classify.Permanent, 1, 1},
		{"AlreadyExists", plain(codes.AlreadyExists), classify.Permanent, 1, 1},
		{"PermissionDenied", plain(codes.PermissionDenied), classify.Permanent, 1, 1},
		{"Unauthenticated", plain(codes.Unauthenticated), classify.Permanent, 1, 1},
		{"FailedPrecondition", plain(codes.FailedPrecondition), classify.Permanent, 1, 1},
		{"FailedPrecondition with an invitation", after(t, codes.FailedPrecondition, time.Millisecond), classify.Permanent, 1, 1},
		{"OutOfRange", plain(codes.OutOfRange), classify.Permanent, 1, 1},
		{"Unimplemented", plain(codes.Unimplemented), classify.Permanent, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for safety, want := range map[retry.Safety]int{retry.Unsafe: c.unsafe, retry.Idempotent: c.idempotent} {
				l := serve(t, always(fails(c.answer), 5)...)
				_, err := connect(t, l, retry.Policy{}, grpc.WithDisableRetry()).add(t.Context(), safety, 100)
				e, ok := errors.AsType[*retry.Error](err)
				require.True(t, ok, "error of add(%v) is %T %v, want a *retry.Error", safety, err, err)
				calls, _ := l.seen()
				assert.Len(t, calls, want, "calls seen by the server for %v", safety)
				assert.Equal(t, c.class, e.Attempts[0].Verdict.Class, "class for %v", safety)
				assert.Equal(t, c.class == classify.Ambiguous, errors.Is(err, retry.ErrOutcomeUnknown), "%v Is ErrOutcomeUnknown", err)
				assert.Equal(t, status.Code(c.answer), status.Code(e.Last), "code of the last error")
			}
		})
	}
}

func TestALostAnswerIsRepeatedUnderItsKeyOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		safety  retry.Safety
		calls   int
		unknown bool
	}{
		{retry.Keyed, 3, false},
		{retry.Unsafe, 1, true},
	} {
		t.Run(c.safety.String(), func(t *testing.T) {
			t.Parallel()
			l := serve(t, loses, loses)
			sum, err := connect(t, l, retry.Policy{}, grpc.WithDisableRetry()).add(t.Context(), c.safety, 100)
			assert.Equal(t, c.unknown, errors.Is(err, retry.ErrOutcomeUnknown), "add = %v, %v: Is ErrOutcomeUnknown", sum, err)
			calls, keys := l.seen()
			assert.Len(t, calls, c.calls, "calls seen by the server")
			assert.Len(t, keys, 1, "keys seen by the server")
			assert.NotContains(t, keys, "", "keys seen by the server")
			assert.EqualValues(t, 100, l.sum(), "sum in the ledger")
		})
	}
}

func TestAnInvitationIsWaitedForAndNeverCutShort(t *testing.T) {
	t.Parallel()
	const wait = 60 * time.Millisecond
	l := serve(t, fails(after(t, codes.Unavailable, wait)))
	sum, err := connect(t, l, retry.Policy{}, grpc.WithDisableRetry()).add(t.Context(), retry.Unsafe, 100)
	require.NoError(t, err, "add through an invitation")
	assert.EqualValues(t, 100, sum, "answer")
	calls, _ := l.seen()
	require.Len(t, calls, 2, "calls seen by the server")
	assert.GreaterOrEqual(t, calls[1].Sub(calls[0]), wait, "wait after a RetryInfo of %v", wait)
}

func TestAnAttemptThatHangsEndsWithItsTimeout(t *testing.T) {
	t.Parallel()
	l := serve(t, hangs)
	p := retry.Policy{AttemptTimeout: 200 * time.Millisecond}
	sum, err := connect(t, l, p, grpc.WithDisableRetry()).add(t.Context(), retry.Idempotent, 100)
	require.NoError(t, err, "add whose first attempt hangs")
	assert.EqualValues(t, 100, sum, "answer")
	calls, _ := l.seen()
	assert.Len(t, calls, 2, "calls seen by the server")
}

func TestACallThatItsCallerCancelsEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	l := serve(t, func(ctx context.Context, _ *ledger, _ func()) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	_, err := connect(t, l, retry.Policy{}, grpc.WithDisableRetry()).add(ctx, retry.Idempotent, 100)
	assert.ErrorIs(t, err, context.Canceled, "add that was cancelled")
	assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "add that was cancelled under way")
	calls, _ := l.seen()
	assert.Len(t, calls, 1, "calls seen by the server")
}

// examples/LAYERS.md: the service config's retryPolicy multiplies, and
// WithDisableRetry switches it off, wherever the config comes from.
func TestGRPCsOwnRepeatsMultiplyUnlessSwitchedOff(t *testing.T) {
	t.Parallel()
	config := grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["UNAVAILABLE"]}}]}`)
	for _, c := range []struct {
		name  string
		opts  []grpc.DialOption
		calls int
	}{
		{"no config", nil, 3},
		{"a config with a retryPolicy", []grpc.DialOption{config}, 12},
		{"the same with WithDisableRetry", []grpc.DialOption{config, grpc.WithDisableRetry()}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := serve(t, always(fails(status.Error(codes.Unavailable, "no")), 50)...)
			_, err := connect(t, l, retry.Policy{}, c.opts...).add(t.Context(), retry.Idempotent, 100)
			assert.ErrorIs(t, err, retry.ErrAttempts, "add")
			calls, _ := l.seen()
			assert.Len(t, calls, c.calls, "calls seen by the server")
		})
	}
}

func TestClassifyKnowsOnlyStatuses(t *testing.T) {
	t.Parallel()
	unavailable := status.Error(codes.Unavailable, "no")
	v, ok := grpcstatus.Classify(fmt.Errorf("adding: %w", unavailable))
	assert.True(t, ok, "Classify of a wrapped status")
	assert.Equal(t, classify.Verdict{Reason: "grpc_unavailable"}, v, "Classify of a wrapped status")
	for _, err := range []error{
		errors.New("another error"),
		&retry.Error{Last: unavailable}, // a layer below has judged it
	} {
		_, ok := grpcstatus.Classify(err)
		assert.False(t, ok, "Classify(%v) knows it", err)
	}
	assert.Empty(t, retry.Key(t.Context()), "key outside of retry.Do: Keys sends none")
}
