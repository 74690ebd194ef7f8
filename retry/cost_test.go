package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// The paths whose cost is held. Each operation reads ctx.Done, as real ones do.
var costs = []struct {
	name   string
	policy retry.Policy
	fail   int  // attempts of a call that fail
	open   bool // the breaker is
	allocs float64
}{
	{"success, no limits", retry.Policy{
		Deadline: retry.NoLimit, AttemptTimeout: retry.NoLimit, Budget: retry.Budget{Disabled: true}, Breaker: breaker.Settings{Disabled: true},
	}, 0, false, 1},
	{"success, default policy", retry.Policy{}, 0, false, 6},
	// Of these, 15 are the contexts of three attempts with their timers, 3 the timer of the waits. A pool of timers would
	// spare some, but a timer may not leave the synctest bubble that it was made in.
	{"two failures", retry.Policy{
		BaseDelay: time.Microsecond, MaxDelay: time.Microsecond, Jitter: retry.NoJitter, Budget: retry.Budget{Burst: 1 << 40}, Breaker: breaker.Settings{FailureRatio: 0.99},
	}, 2, false, 20},
	{"open breaker", retry.Policy{Breaker: breaker.Settings{MinResults: 1, OpenFor: time.Hour, MaxOpenFor: time.Hour}}, 0, true, 3},
}

// costly returns a call of one of these paths.
func costly(t testing.TB, i int) func() {
	t.Helper()
	c := costs[i]
	d, ctx, n := to(t, c.policy), t.Context(), 0
	op := func(ctx context.Context) (int, error) {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		default:
		}
		if n++; n%(c.fail+1) != 0 {
			return 0, errRefused
		}
		return n, nil
	}
	if c.open {
		require.Error(t, d.Do(ctx, retry.Unsafe, failing(errRefused).op))
	}
	return func() {
		if _, err := retry.Do(ctx, d, retry.Unsafe, op); errors.Is(err, breaker.ErrOpen) != c.open || err != nil && !c.open {
			t.Fatalf("%s: Do = %v", c.name, err)
		}
	}
}

func TestACallAllocatesLittle(t *testing.T) {
	for i, c := range costs {
		if got := testing.AllocsPerRun(200, costly(t, i)); got > c.allocs {
			t.Errorf("%s: %v allocations a call, want at most %v", c.name, got, c.allocs)
		}
	}
	d, ctx := to(t, costs[0].policy), t.Context()
	op := func(ctx context.Context) error { return ctx.Err() }
	if got := testing.AllocsPerRun(200, func() { _ = d.Do(ctx, retry.Unsafe, op) }); got > 1 {
		t.Errorf("Destination.Do, no limits: %v allocations a call, want at most 1", got)
	}
	v := error(status{classify.Permanent, 404})
	if got := testing.AllocsPerRun(200, func() { _, _, _ = retry.Mark(ctx); _ = retry.AttemptOf(ctx); _ = v }); got > 0 {
		t.Errorf("Mark and AttemptOf: %v allocations, want none", got)
	}
}

func BenchmarkDo(b *testing.B) {
	for i, c := range costs {
		b.Run(c.name, func(b *testing.B) {
			call := costly(b, i)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

func BenchmarkDoParallel(b *testing.B) {
	l, err := retry.NewLayer(retry.Organization{}, nil)
	require.NoError(b, err, "NewLayer")
	for name, d := range map[string]*retry.Destination{"destination": to(b, retry.Policy{}), "layer": l.To("payments")} {
		for _, goroutines := range []int{1, 8} { // a core
			b.Run(fmt.Sprint(name, "-", goroutines), func(b *testing.B) {
				b.SetParallelism(goroutines)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						_ = d.Do(context.Background(), retry.Unsafe, func(ctx context.Context) error {
							select {
							case <-ctx.Done():
								return ctx.Err()
							default:
								return nil
							}
						})
					}
				})
			})
		}
	}
}
