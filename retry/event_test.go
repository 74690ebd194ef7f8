package retry_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
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

// kinds returns the kinds of events, in order.
func kinds(events []retry.Event) []retry.EventKind {
	var all []retry.EventKind
	for _, e := range events {
		all = append(all, e.Kind)
	}
	return all
}

// B144: OnRetry fires although nothing will be retried: the hook runs after every failure, the last included. 3
// attempts all fail: OnRetry called twice. Call it after the decision and before the wait, with the chosen delay; a
// separate hook for give-up.
// B148: retries invisible in traces: per-attempt events (attempt, delay, reason, status) besides the call result.
func TestEventsTellWhatHappensInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type name struct{}
		ctx := context.WithValue(t.Context(), name{}, "value")
		var events []retry.Event
		var at []time.Duration
		start := time.Now()
		d := to(t, steady, func(ctx context.Context, e retry.Event) {
			assert.Equal(t, "value", ctx.Value(name{}), "a value of the caller's context")
			events, at = append(events, e), append(at, time.Since(start))
		})
		s := failing(errRefused, hinted{2 * time.Second}, errRefused)
		err := failure(t, d.Do(ctx, retry.Keyed, func(ctx context.Context) error {
			time.Sleep(10 * time.Millisecond)
			_ = retry.Key(ctx)
			return s.op(ctx)
		}, retry.Named("charge")))

		const ms = time.Millisecond
		dial := classify.Verdict{Class: classify.Retryable, Reason: "retryable"}
		lost := hinted{2 * time.Second}
		in := retry.Intention{Key: err.Intention.Key, Operation: "charge", FirstSent: start}
		base := retry.Event{Destination: "payments", Operation: "charge", Intention: in, Safety: retry.Keyed, MaxAttempts: 3, Failed: true}
		event := func(k retry.EventKind, change func(*retry.Event)) retry.Event {
			e := base
			e.Kind = k
			change(&e)
			return e
		}
		want := []retry.Event{
			event(retry.EventAttempt, func(e *retry.Event) {
				e.Attempt, e.Start, e.Duration, e.Elapsed, e.Verdict, e.Err = 1, start, 10*ms, 10*ms, dial, errRefused
			}),
			event(retry.EventRetry, func(e *retry.Event) {
				e.Attempt, e.Start, e.Duration, e.Verdict, e.Err, e.Wait = 1, start, 10*ms, dial, errRefused, 100*ms
			}),
			event(retry.EventAttempt, func(e *retry.Event) {
				e.Attempt, e.Start, e.Duration, e.Elapsed, e.Verdict, e.Err = 2, start.Add(110*ms), 10*ms, 120*ms, lost.Verdict(), lost
			}),
			event(retry.EventPushback, func(e *retry.Event) {
				e.Attempt, e.Verdict, e.Wait, e.Failed = 2, lost.Verdict(), 2*time.Second, false
			}),
			event(retry.EventRetry, func(e *retry.Event) {
				e.Attempt, e.Start, e.Duration, e.Verdict, e.Err, e.Wait = 2, start.Add(110*ms), 10*ms, lost.Verdict(), lost, 2*time.Second
			}),
			event(retry.EventAttempt, func(e *retry.Event) {
				e.Attempt, e.Start, e.Duration, e.Elapsed, e.Verdict, e.Err = 3, start.Add(2120*ms), 10*ms, 2130*ms, dial, errRefused
			}),
			event(retry.EventStop, func(e *retry.Event) {
				e.Attempt, e.Start, e.Duration, e.Verdict, e.Err, e.Stop, e.Outcome = 3, start, 2130*ms, dial, errRefused, retry.ErrAttempts, retry.Unknown
			}),
		}
		assert.Equal(t, want, events, "events")
		assert.Equal(t, []time.Duration{10 * ms, 10 * ms, 120 * ms, 120 * ms, 120 * ms, 2130 * ms, 2130 * ms}, at, "times of the events")
		assert.Equal(t, 100*ms, err.Attempts[0].Wait, "wait after the first attempt")
		assert.Equal(t, 2*time.Second, err.Attempts[1].Wait, "wait after the second attempt")
		assert.Zero(t, err.Attempts[2].Wait, "wait after the last attempt")

		events = nil
		require.NoError(t, d.Do(ctx, retry.Unsafe, failing().op), "Do")
		assert.Equal(t, []retry.Event{{
			Kind: retry.EventAttempt, Destination: "payments", Intention: retry.Intention{FirstSent: time.Now()}, Attempt: 1, MaxAttempts: 3, Start: time.Now(),
		}}, events, "events of a success at once")
	})
}

// What a call waits for before its first attempt is a part of the call.
func TestElapsedCountsThePauseBeforeTheFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last retry.Event
		d := to(t, retry.Policy{MaxAttempts: 1}, func(_ context.Context, e retry.Event) { last = e })
		require.Error(t, d.Do(t.Context(), retry.Unsafe, failing(rationed{7 * time.Second}).op), "Do that is told to wait")
		start := time.Now()
		require.NoError(t, d.Do(t.Context(), retry.Unsafe, func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		}), "Do that waits for the end of the pause")
		assert.Equal(t, retry.EventAttempt, last.Kind, "last event")
		assert.Equal(t, time.Second, last.Duration, "Duration of the attempt")
		assert.GreaterOrEqual(t, last.Elapsed, 8*time.Second, "Elapsed")
		assert.Equal(t, time.Since(start), last.Elapsed, "Elapsed")
	})
}

// A panic in an observer leaks nothing and passes on.
func TestAPanicInAnObserverPassesOnAndLeavesNothing(t *testing.T) {
	for _, kind := range []retry.EventKind{retry.EventAttempt, retry.EventRetry, retry.EventStop, retry.EventBreakerChange, retry.EventPushback, retry.EventLayerSuppressed} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := retry.Policy{MaxAttempts: 2, BaseDelay: 7 * time.Second, MaxDelay: 7 * time.Second, ThrottleDelay: 7 * time.Second, Jitter: retry.NoJitter, Breaker: breaker.Settings{MinResults: 1, Probes: 1}}
				armed := true
				d := to(t, p, func(_ context.Context, e retry.Event) {
					if armed && e.Kind == kind {
						panic(kind)
					}
				})
				ctx, done := t.Context(), func() {}
				if kind == retry.EventLayerSuppressed {
					ctx, done = retry.WithMark(ctx, 1, 2)
				}
				defer done()
				fail := error(errRefused)
				if kind == retry.EventPushback {
					fail = rationed{7 * time.Second}
				}
				var inside context.Context
				assert.PanicsWithValue(t, kind, func() {
					_ = d.Do(ctx, retry.Idempotent, func(ctx context.Context) error { inside = ctx; return fail })
				}, "Do")
				armed = false
				s := d.Snapshot()
				assert.Zero(t, s.Calls, "calls under way")
				if inside != nil {
					assert.Zero(t, retry.AttemptOf(inside), "AttemptOf")
				}
				if s.Budget != 10 && kind != retry.EventStop {
					t.Errorf("the budget is %v, want what was taken back", s.Budget)
				}
				time.Sleep(20 * time.Second)
				assert.NoError(t, d.Do(t.Context(), retry.Unsafe, failing().op), "Do afterwards")
				assert.Equal(t, breaker.Closed, d.Snapshot().Breaker, "breaker afterwards")
			})
		})
	}
}

// An observer is called with no lock held: it may use the destination and its layer.
func TestAnObserverMayUseTheDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *retry.Layer
		seen := map[retry.EventKind]int{}
		opts := &retry.Options{Observer: func(ctx context.Context, e retry.Event) {
			seen[e.Kind]++
			l.Snapshot()
			l.To(e.Destination).Snapshot()
			if len(seen) < 20 && seen[e.Kind] == 1 {
				_ = l.To("other").Do(ctx, retry.Unsafe, failing().op)
				require.NoError(t, l.Replace(retry.Organization{Default: fragile}))
			}
		}}
		var err error
		l, err = retry.NewLayer(retry.Organization{Default: fragile}, opts)
		require.NoError(t, err, "NewLayer")
		require.Error(t, l.To("payments").Do(t.Context(), retry.Unsafe, failing(hintedRefusal).op))
		for _, kind := range []retry.EventKind{retry.EventAttempt, retry.EventStop, retry.EventBreakerChange, retry.EventPushback} {
			assert.NotZero(t, seen[kind], "events of kind %v", kind)
		}
	})
}

// hintedRefusal is a 503 that says when to come back.
var hintedRefusal = verdict{Class: classify.Retryable, Reason: "http_503", RetryAfter: time.Second, Throttled: true}

func TestLogToWritesALineForWhatMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		lines := func() string {
			s := out.String()
			out.Reset()
			return s
		}
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		d := to(t, steady, retry.LogTo(logger))
		require.NoError(t, d.Do(t.Context(), retry.Unsafe, failing().op))
		assert.Empty(t, lines(), "a success at once")

		require.NoError(t, d.Do(t.Context(), retry.Keyed, failing(errRefused).op, retry.Named("charge"), retry.WithKey("K")))
		assert.Equal(t, "level=DEBUG msg=retry destination=payments operation=charge key=K attempt=1 max=3 class=retryable reason=retryable wait=100ms\n", lines(), "a retry")

		require.Error(t, d.Do(t.Context(), retry.Unsafe, failing(errCut).op))
		assert.Equal(t, `level=WARN msg="gave up" destination=payments attempts=1 outcome=unknown stop="outcome unknown" elapsed=0s class=ambiguous reason=unknown error="the answer was lost"`+"\n", lines(), "a call given up")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, d.Do(ctx, retry.Unsafe, failing(errCut).op))
		assert.Equal(t, `level=WARN msg="gave up" destination=payments attempts=0 outcome="not applied" stop="context canceled" elapsed=0s`+"\n", lines(), "a call that was never sent")

		require.NoError(t, d.Do(t.Context(), retry.Unsafe, failing(rationed{2 * time.Second}).op))
		assert.Equal(t, "level=DEBUG msg=pushback destination=payments wait=2s\n"+
			"level=DEBUG msg=retry destination=payments attempt=1 max=3 class=retryable reason=http_429 wait=2s hint=2s\n", lines(), "a pushback")

		ctx, done := retry.WithMark(t.Context(), 2, 3)
		require.NoError(t, d.Do(ctx, retry.Unsafe, failing().op))
		done()
		assert.Equal(t, `level=DEBUG msg="retry left to the layer above" destination=payments`+"\n", lines(), "a suppressed layer")

		ctx, done = retry.WithMark(t.Context(), 1, 3)
		require.Error(t, d.Do(ctx, retry.Unsafe, failing(errCut).op))
		done()
		assert.Equal(t, `level=DEBUG msg="retry left to the layer above" destination=payments`+"\n"+
			`level=DEBUG msg="gave up" destination=payments attempts=1 outcome=unknown stop="outcome unknown" elapsed=0s class=ambiguous reason=unknown error="the answer was lost"`+"\n",
			lines(), "a failure that is the layer above's to repeat")

		d = to(t, fragile, retry.LogTo(logger))
		_ = d.Do(t.Context(), retry.Unsafe, failing(errRefused).op)
		assert.Contains(t, lines(), "level=INFO msg=\"breaker changed\" destination=payments from=closed to=open retry_at=2000-01-01T00:00:0", "a breaker's change")

		quiet := to(t, steady, retry.LogTo(slog.New(slog.NewTextHandler(&out, nil))))
		require.NoError(t, quiet.Do(t.Context(), retry.Unsafe, failing(errRefused).op))
		assert.Empty(t, lines(), "a retry at level info")
	})
}

// Each suppressed layer emits one event in an attempt, however many calls are made.
func TestASuppressedLayerIsToldOnceInAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		told := map[string]int{}
		observe := func(_ context.Context, e retry.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == retry.EventLayerSuppressed {
				told[fmt.Sprint(e.Destination, " ", e.Attempt)]++
			}
		}
		l, err := retry.NewLayer(retry.Organization{Default: steady}, &retry.Options{Observer: observe})
		require.NoError(t, err, "NewLayer")
		s := failing(errRefused)
		require.NoError(t, to(t, steady).Do(t.Context(), retry.Idempotent, func(ctx context.Context) error {
			var wg sync.WaitGroup
			for range 5 {
				for _, name := range []string{"a", "b"} {
					wg.Go(func() { assert.NoError(t, l.To(name).Do(ctx, retry.Unsafe, failing().op), "Do") })
				}
			}
			wg.Wait()
			return s.op(ctx)
		}))
		assert.Equal(t, map[string]int{"a 1": 1, "b 1": 1, "a 2": 1, "b 2": 1}, told, "events")
	})
}

func TestEventKindsAreWords(t *testing.T) {
	var words []string
	for k := retry.EventAttempt; k <= retry.EventLayerSuppressed; k++ {
		words = append(words, k.String())
	}
	assert.Equal(t, "attempt retry stop breaker_change pushback layer_suppressed", strings.Join(words, " "))
}
