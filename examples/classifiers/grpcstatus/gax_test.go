package grpcstatus_test

import (
	"context"
	"testing"
	"time"

	gax "github.com/googleapis/gax-go/v2"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// examples/LAYERS.md: Google's clients repeat through gax, without a limit on
// the number. What a client has set is replaced by an option of the call.
func TestGooglesOwnRepeatsMultiplyUnlessSwitchedOff(t *testing.T) {
	t.Parallel()
	set := []gax.CallOption{gax.WithRetry(func() gax.Retryer {
		return gax.OnCodes([]codes.Code{codes.Unavailable}, gax.Backoff{Initial: time.Millisecond, Max: time.Millisecond})
	})}
	for _, c := range []struct {
		name  string
		opts  []gax.CallOption
		calls int
		err   error
	}{
		{"as the client has it", nil, 21, nil},
		{"with WithRetry(nil)", []gax.CallOption{gax.WithRetry(nil)}, 3, retry.ErrAttempts},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := serve(t, always(fails(status.Error(codes.Unavailable, "no")), 20)...)
			conn := connect(t, l, retry.Policy{}, grpc.WithDisableRetry())
			err := conn.dest.Do(t.Context(), retry.Idempotent, func(ctx context.Context) error {
				return gax.Invoke(ctx, func(ctx context.Context, _ gax.CallSettings) error {
					return conn.Invoke(ctx, add, wrapperspb.Int64(100), new(wrapperspb.Int64Value))
				}, append(set, c.opts...)...)
			})
			assert.ErrorIs(t, err, c.err, "a call through gax")
			calls, _ := l.seen()
			assert.Len(t, calls, c.calls, "calls seen by the server")
		})
	}
}
