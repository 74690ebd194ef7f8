package retry_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/retry"
)

// An attempt is only as repeatable as its writes. One that is still under way
// when the operation returns may be applied: a failure of another one, that was
// turned away, does not repeat it.
func TestAWriteUnderWayIsNotRepeated(t *testing.T) {
	for _, tt := range []struct {
		name   string
		safety retry.Safety // of the write
		calls  int
		stop   error
		want   retry.Outcome
	}{
		{"untrusted", retry.Unsafe, 1, retry.ErrOutcomeUnknown, retry.Unknown},
		{"keyed", retry.Keyed, 3, retry.ErrAttempts, retry.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outer, inner := to(t, steady), to(t, steady)
				calls := 0
				var left sync.WaitGroup
				err := failure(t, outer.Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
					calls++
					begun := make(chan struct{})
					left.Go(func() {
						err := inner.Do(ctx, tt.safety, func(ctx context.Context) error {
							close(begun)
							<-ctx.Done()
							return ctx.Err()
						})
						assert.Error(t, err, "the write that was left")
					})
					<-begun
					return errRefused
				}))
				left.Wait()
				assert.Equal(t, tt.calls, calls, "calls")
				assert.ErrorIs(t, err, tt.stop)
				assert.Equal(t, tt.want, err.Outcome, "outcome")
			})
		})
	}
}

// A write in a goroutine that ended in time stands in no way.
func TestWhatEndedInTimeMayBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := to(t, steady), to(t, steady)
		calls := 0
		err := outer.Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			if calls++; calls > 1 {
				return nil
			}
			done := make(chan error)
			go func() { done <- inner.Do(ctx, retry.Unsafe, always(errRefused).op) }()
			select {
			case err := <-done:
				return err
			case <-time.After(time.Second):
				t.Error("the call below does not end")
				return nil
			}
		})
		assert.NoError(t, err)
		assert.Equal(t, 2, calls)
	})
}

// An attempt's keys are not used for what happens after it. A key that the caller
// states is another matter: background work that was begun in an attempt, or in a
// handler of a marked request, sends the stored key and no other.
func TestAStatedKeyOutlivesTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, steady)
		marked, done := retry.WithMark(t.Context(), 1, 3)
		var inAttempt context.Context
		require.NoError(t, d.Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			inAttempt = ctx
			return nil
		}))
		done()
		for name, ctx := range map[string]context.Context{"attempt": inAttempt, "handler": marked} {
			ctx = retry.WithIntention(context.WithoutCancel(ctx), retry.Intention{Key: "order-17"})
			for want, ctx := range map[string]context.Context{"order-17": ctx, retry.Key(retry.SubKey(ctx, "fee")): retry.SubKey(ctx, "fee")} {
				var key string
				require.NoError(t, d.Do(ctx, retry.Unsafe, func(ctx context.Context) error {
					key = retry.Key(ctx)
					return nil
				}))
				assert.Equal(t, want, key, "key after the %s", name)
			}
		}
		var key string
		require.NoError(t, d.Do(context.WithoutCancel(inAttempt), retry.Unsafe, func(ctx context.Context) error {
			key = retry.Key(ctx)
			return nil
		}))
		assert.NotEqual(t, retry.Key(inAttempt), key, "key of what happens after the attempt")
	})
}

// A layer that nobody made is an error that says so, and no panic.
func TestAZeroLayerIsRefused(t *testing.T) {
	err := failure(t, new(retry.Layer).To("payments").Do(t.Context(), retry.Unsafe, failing().op))
	assert.ErrorContains(t, err, "NewLayer")
	assert.Equal(t, retry.NotApplied, err.Outcome)
	for _, d := range []*retry.Destination{nil, {}, new(retry.Layer).To("payments")} {
		assert.Zero(t, d.Snapshot())
	}
}

// A key in a header that net/http keeps for itself would never be sent, and yet be
// trusted.
func TestAKeyNeedsAHeaderThatIsSent(t *testing.T) {
	for _, name := range []string{"Host", "content-length", "Transfer-Encoding", "Trailer", "TE", "connection", "Proxy-Connection", "Keep-Alive", "Upgrade"} {
		p := retry.Policy{Key: retry.KeyPolicy{Header: name}}
		assert.ErrorContains(t, p.Validate(), "Key.Header is \""+name+"\"", name)
		_, err := retry.ReadOrganization(strings.NewReader(`{"default": {"key": {"header": "` + name + `"}}}`))
		assert.ErrorContains(t, err, "default.key.header", name)
	}
}

// The error about a file that consists of problems stays of a size that can be
// read, and says that there are more.
func TestAFileOfNothingButProblems(t *testing.T) {
	text := `{"default": {` + strings.TrimSuffix(strings.Repeat("\n\"a\": 1,", 100_000), ",") + `}}`
	_, err := retry.ReadOrganization(strings.NewReader(text))
	lines := strings.Split(err.Error(), "\n")
	assert.Len(t, lines, 1001, "problems")
	assert.Regexp(t, `^line \d+: and \d+ more problems$`, lines[1000])
}
