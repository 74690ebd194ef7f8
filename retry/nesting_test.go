package retry_test

import (
	"context"
	"errors"
	"runtime"
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

// B88: stacked retries multiply: two or three layers each retry: 12 instead of 4 requests, 45 in a three-layer stack.
// Expected count is the outer limit. The inner verdict and hint reach the outermost layer; each suppressed layer emits
// one event an attempt.
func TestThreeLayersMakeAsManyCallsAsTheOuterOneAllows(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fail   error
		safety [3]retry.Safety // outermost first
		calls  int
		stop   error
		took   time.Duration
	}{
		{"turned away, with a hint", rationed{2 * time.Second}, [3]retry.Safety{}, 4, retry.ErrAttempts, 8 * time.Second},
		{"refused", errRefused, [3]retry.Safety{}, 4, retry.ErrAttempts, 700 * time.Millisecond},
		{"unknown, all unsafe", errCut, [3]retry.Safety{}, 1, retry.ErrOutcomeUnknown, 0},
		{"unknown, the innermost idempotent", errCut, [3]retry.Safety{retry.Unsafe, retry.Unsafe, retry.Idempotent}, 4, retry.ErrAttempts, 700 * time.Millisecond},
		{"unknown, the innermost keyed", errCut, [3]retry.Safety{retry.Unsafe, retry.Unsafe, retry.Keyed}, 4, retry.ErrAttempts, 700 * time.Millisecond},
		{"unknown, the outermost idempotent", errCut, [3]retry.Safety{retry.Idempotent, retry.Unsafe, retry.Unsafe}, 4, retry.ErrAttempts, 700 * time.Millisecond},
		{"permanent", errNo, [3]retry.Safety{}, 1, retry.ErrPermanent, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				suppressed := 0
				observe := func(_ context.Context, e retry.Event) {
					switch e.Kind {
					case retry.EventLayerSuppressed:
						suppressed++
					case retry.EventRetry:
						if e.MaxAttempts != 4 {
							t.Errorf("a retry of a layer with %d attempts, want only the outermost to repeat", e.MaxAttempts)
						}
					}
				}
				p := retry.Policy{MaxAttempts: 4, Jitter: retry.NoJitter, PrivatePushback: true}
				outer, middle, inner := to(t, p, observe), to(t, retry.Policy{MaxAttempts: 3, PrivatePushback: true}, observe), to(t, retry.Policy{MaxAttempts: 5, PrivatePushback: true}, observe)
				s, start := always(tt.fail), time.Now()
				err := failure(t, outer.Do(t.Context(), tt.safety[0], func(ctx context.Context) error {
					return middle.Do(ctx, tt.safety[1], func(ctx context.Context) error {
						return inner.Do(ctx, tt.safety[2], func(ctx context.Context) error {
							n, limit, ok := retry.Mark(ctx)
							assert.True(t, ok && n == len(s.at)+1 && limit == 4, "Mark = %d, %d, %v in call %d", n, limit, ok, len(s.at)+1)
							assert.Equal(t, n, retry.AttemptOf(ctx), "AttemptOf")
							return s.op(ctx)
						})
					})
				}))
				assert.Len(t, s.at, tt.calls, "calls")
				assert.ErrorIs(t, err, tt.stop, "Do")
				assert.ErrorIs(t, err, tt.fail, "Do")
				assert.Equal(t, 2*tt.calls, suppressed, "events of suppressed layers")
				if r, ok := errors.AsType[rationed](tt.fail); ok {
					assert.Equal(t, r.after, err.RetryAfter, "RetryAfter")
					assert.Equal(t, r.Verdict(), err.Attempts[0].Verdict, "verdict")
				}
				assert.Equal(t, tt.took, time.Since(start), "Do took")
			})
		})
	}
}

func TestALayerUnderASingleAttemptRepeatsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var suppressed int
		inner := to(t, steady, func(_ context.Context, e retry.Event) {
			if e.Kind == retry.EventLayerSuppressed {
				suppressed++
			}
		})
		s := always(errRefused)
		err := failure(t, to(t, retry.Policy{MaxAttempts: 1}).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			return inner.Do(ctx, retry.Unsafe, func(ctx context.Context) error {
				assert.Equal(t, len(s.at)+1, retry.AttemptOf(ctx), "AttemptOf")
				return s.op(ctx)
			})
		}))
		assert.Len(t, s.at, 3, "calls")
		assert.Zero(t, suppressed, "suppressed layers")
		assert.ErrorIs(t, err, retry.ErrPermanent, "an exhausted error is not repeated")
	})
}

func TestALayerOfOneAttemptIsNotToldToBeSuppressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := to(t, retry.Policy{MaxAttempts: 1}, func(_ context.Context, e retry.Event) {
			if e.Kind == retry.EventLayerSuppressed {
				t.Errorf("event %+v", e)
			}
		})
		require.NoError(t, to(t, steady).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			return inner.Do(ctx, retry.Unsafe, failing().op)
		}))
	})
}

// A mark counts only while its attempt runs.
func TestAMarkIsDeadAfterItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, steady)
		var inside context.Context
		require.NoError(t, d.Do(t.Context(), retry.Keyed, func(ctx context.Context) error {
			inside = context.WithoutCancel(ctx)
			assert.Equal(t, 1, retry.AttemptOf(inside), "AttemptOf")
			return nil
		}, retry.WithKey("K")))
		assert.Zero(t, retry.AttemptOf(inside), "AttemptOf after the attempt")
		_, _, ok := retry.Mark(inside)
		assert.False(t, ok, "Mark after the attempt")

		s, key := failing(errRefused, errRefused), ""
		require.NoError(t, d.Do(inside, retry.Unsafe, func(ctx context.Context) error {
			key = retry.Key(ctx)
			return s.op(ctx)
		}), "Do after the attempt repeats by itself")
		assert.NotEqual(t, "K", key, "the key of what happens after the attempt")
	})
}

// Background work under Detach repeats by itself: no end, no deadline, no mark, no key, but the values.
func TestDetachedWorkHasALayerOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type name struct{}
		d := to(t, steady)
		var wg sync.WaitGroup
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), name{}, "value"), time.Second)
		defer cancel()
		require.NoError(t, d.Do(ctx, retry.Keyed, func(ctx context.Context) error {
			ctx = retry.Detach(ctx)
			wg.Go(func() {
				s := failing(errRefused, errRefused)
				assert.NoError(t, d.Do(ctx, retry.Unsafe, func(ctx context.Context) error {
					assert.NotEqual(t, "K", retry.Key(ctx), "key")
					assert.Equal(t, len(s.at)+1, retry.AttemptOf(ctx), "AttemptOf")
					assert.Equal(t, "value", ctx.Value(name{}), "value")
					return s.op(ctx)
				}), "Do")
			})
			_, ok := ctx.Deadline()
			assert.False(t, ok, "deadline")
			assert.Zero(t, retry.AttemptOf(ctx), "AttemptOf")
			assert.Empty(t, retry.Key(ctx), "Key")
			_, ok = retry.CallOf(ctx)
			assert.False(t, ok, "CallOf")
			return nil
		}, retry.WithKey("K")))
		cancel()
		wg.Wait()
	})
}

// Across processes the mark is received.
func TestAReceivedMarkSuppresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []retry.Event
		d := to(t, steady, func(_ context.Context, e retry.Event) { events = append(events, e) })
		for _, tt := range []struct{ number, limit, calls, events int }{{2, 3, 1, 1}, {1, 1, 3, 0}} {
			events = nil
			ctx, done := retry.WithMark(t.Context(), tt.number, tt.limit)
			s := always(errRefused)
			err := failure(t, d.Do(ctx, retry.Unsafe, s.op))
			assert.Len(t, s.at, tt.calls, "calls for attempt %d of %d", tt.number, tt.limit)
			if tt.limit > 1 {
				assert.Equal(t, classify.Retryable, err.Verdict().Class, "class handed up")
				assert.Equal(t, retry.EventLayerSuppressed, events[0].Kind, "first event")
				assert.Equal(t, 2, events[0].Attempt, "attempt of the layer above")
			}
			done()
			s = always(errRefused)
			_ = d.Do(ctx, retry.Unsafe, s.op)
			assert.Len(t, s.at, 3, "calls after the work has been answered")
		}
	})
}

// A layer that could not even begin says that nothing was sent.
func TestALateCallBelowIsHandedUpAsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, done := retry.WithMark(late{t.Context()}, 1, 3)
		defer done()
		err := failure(t, to(t, steady).Do(ctx, retry.Idempotent, failing().op))
		assert.ErrorIs(t, err, retry.ErrDeadline, "Do")
		assert.Equal(t, classify.Verdict{Class: classify.Retryable, Origin: classify.Local, Reason: "timeout"}, err.Verdict(), "Verdict")
	})
}

// The worst failed call of an attempt stands in for an error that says nothing itself.
func TestTheWorstCallBelowStandsInForAnUnclassifiedError(t *testing.T) {
	for name, results := range map[string][]retry.Result{"worst last": {refused, cut}, "worst first": {cut, refused}} {
		synctest.Test(t, func(t *testing.T) {
			d, calls := to(t, retry.Policy{MaxAttempts: 1, Breaker: breaker.Settings{Disabled: true}}), 0
			err := failure(t, to(t, steady).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
				calls++
				for _, r := range results {
					_, err := d.Exchange(ctx, writing(r))
					require.Error(t, err, "Exchange")
				}
				return errors.New("it did not work")
			}))
			assert.Equal(t, 1, calls, "%s: calls", name)
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, name)
			assert.Equal(t, "closed", err.Attempts[0].Verdict.Reason, "%s: reason", name)
		})
	}
}

// What the innermost layer was refused by reaches the outermost: an open breaker, a pause.
func TestARefusalReachesTheOutermostLayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := to(t, retry.Policy{MaxAttempts: 1, Breaker: breaker.Settings{MinResults: 1}})
		require.Error(t, inner.Do(t.Context(), retry.Unsafe, failing(errRefused).op))
		outer, start := to(t, steady), time.Now()
		err := failure(t, outer.Do(t.Context(), retry.Unsafe, func(ctx context.Context) error { return inner.Do(ctx, retry.Unsafe, failing().op) }))
		assert.Zero(t, time.Since(start), "Do took")
		assert.ErrorIs(t, err, breaker.ErrOpen, "Do")
		assert.Len(t, err.Attempts, 1, "attempts")
		assert.Equal(t, time.Until(inner.Snapshot().RetryAt), err.RetryAfter, "RetryAfter")
		assert.Equal(t, retry.NotApplied, err.Outcome, "outcome")
		assert.Equal(t, breaker.Closed, outer.Snapshot().Breaker, "the outer destination was not asked")
	})
	synctest.Test(t, func(t *testing.T) {
		inner := to(t, retry.Policy{MaxAttempts: 1, Budget: retry.Budget{Burst: 1}})
		require.Error(t, inner.Do(t.Context(), retry.Unsafe, failing(rationed{5 * time.Second}).op))
		var wg sync.WaitGroup
		wg.Go(func() { // takes the only place of those that wait
			assert.NoError(t, inner.Do(t.Context(), retry.Unsafe, failing().op), "Do of the one that waits")
		})
		synctest.Wait()
		outer, start, s := to(t, steady), time.Now(), failing()
		err := outer.Do(t.Context(), retry.Unsafe, func(ctx context.Context) error { return inner.Do(ctx, retry.Unsafe, s.op) })
		assert.NoError(t, err, "Do: the outer layer waits for the end of the pause")
		assert.GreaterOrEqual(t, time.Since(start), 5*time.Second, "Do took")
		assert.Equal(t, 10.0, outer.Snapshot().Budget, "budget of the outer layer")
		wg.Wait()
	})
}

// An attempt is only as repeatable as its writes.
func TestAnAttemptIsOnlyAsRepeatableAsItsWrites(t *testing.T) {
	errDecode := errors.New("cannot decode the answer")
	trusted := retry.Policy{Key: retry.KeyPolicy{Honored: true}}
	for _, tt := range []struct {
		name    string
		safety  retry.Safety
		policy  retry.Policy
		x       func() *request // which succeeds, or fails as it says
		then    error           // nil: the exchange's own error
		calls   int
		stop    error
		outcome retry.Outcome
	}{
		{"an untrusted write, then refused", retry.Unsafe, retry.Policy{}, func() *request { return writing() }, errRefused, 1, retry.ErrOutcomeUnknown, retry.Unknown},
		{"an untrusted write, then no decoding", retry.Unsafe, retry.Policy{}, func() *request { return writing() }, errDecode, 1, retry.ErrOutcomeUnknown, retry.Unknown},
		{"an untrusted write, then permanent", retry.Unsafe, retry.Policy{}, func() *request { return writing() }, errNo, 1, retry.ErrOutcomeUnknown, retry.Unknown},
		{"an untrusted write in an idempotent operation", retry.Idempotent, retry.Policy{}, func() *request { return writing() }, errRefused, 3, retry.ErrAttempts, retry.Unknown},
		{"an untrusted write in a keyed operation is trusted", retry.Keyed, retry.Policy{}, func() *request { return writing() }, errRefused, 3, retry.ErrAttempts, retry.Unknown},
		{"a trusted write, then refused", retry.Unsafe, trusted, func() *request { return writing() }, errRefused, 3, retry.ErrAttempts, retry.Unknown},
		{"a trusted write, then permanent", retry.Unsafe, trusted, func() *request { return writing() }, errNo, 1, retry.ErrPermanent, retry.Unknown},
		{"a read, then refused", retry.Unsafe, retry.Policy{}, func() *request { return reading() }, errRefused, 3, retry.ErrAttempts, retry.NotApplied},
		{"a read, then permanent", retry.Unsafe, retry.Policy{}, func() *request { return reading() }, errNo, 1, retry.ErrPermanent, retry.NotApplied},
		{"a read, then no decoding", retry.Unsafe, retry.Policy{}, func() *request { return reading() }, errDecode, 1, retry.ErrOutcomeUnknown, retry.Unknown},
		{"a write that was refused", retry.Unsafe, retry.Policy{}, func() *request { return writing(refused) }, nil, 3, retry.ErrAttempts, retry.NotApplied},
		{"a write that was refused, in an error of its own", retry.Unsafe, retry.Policy{}, func() *request { return writing(refused) }, errDecode, 3, retry.ErrAttempts, retry.NotApplied},
		{"a write that was cut", retry.Unsafe, retry.Policy{}, func() *request { return writing(cut) }, nil, 1, retry.ErrOutcomeUnknown, retry.Unknown},
		{"a read that was cut, in an error of its own", retry.Unsafe, retry.Policy{}, func() *request {
			c := cut
			c.Verdict.Repeatable, c.Outcome = true, retry.NotApplied
			return reading(c)
		}, errDecode, 3, retry.ErrAttempts, retry.NotApplied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, calls := to(t, tt.policy), 0
				err := failure(t, to(t, steady).Do(t.Context(), tt.safety, func(ctx context.Context) error {
					calls++
					_, err := d.Exchange(ctx, tt.x())
					if tt.then != nil {
						return tt.then
					}
					return err
				}))
				assert.Equal(t, tt.calls, calls, "calls")
				assert.ErrorIs(t, err, tt.stop, "Do")
				assert.Equal(t, tt.outcome, err.Outcome, "outcome")
				assert.Equal(t, tt.outcome == retry.Unknown, errors.Is(err, retry.ErrOutcomeUnknown), "Is(ErrOutcomeUnknown)")
			})
		})
	}
}

// The same of operations below: those that are declared repeatable are free of it, and those that panic are not.
func TestAnAttemptIsOnlyAsRepeatableAsTheOperationsBelow(t *testing.T) {
	d := to(t, retry.Policy{})
	read := func(ctx context.Context) error { _, err := d.Exchange(ctx, reading()); return err }
	for _, tt := range []struct {
		name   string
		safety retry.Safety
		op     func(context.Context) error
		calls  int
	}{
		{"an unsafe one that was done", retry.Unsafe, func(context.Context) error { return nil }, 1},
		{"an idempotent one that was done", retry.Idempotent, func(context.Context) error { return nil }, 3},
		{"a keyed one that was done", retry.Keyed, func(context.Context) error { return nil }, 3},
		{"an unsafe one that did nothing but read", retry.Unsafe, read, 3},
		{"an unsafe one that was refused", retry.Unsafe, func(context.Context) error { return errRefused }, 3},
		{"an unsafe one that panicked", retry.Unsafe, func(context.Context) error { panic("boom") }, 1},
		{"an unsafe one whose goroutine ended", retry.Unsafe, func(context.Context) error { runtime.Goexit(); return nil }, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			err := to(t, steady).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
				calls++
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					_ = d.Do(ctx, tt.safety, tt.op)
				}()
				<-done
				return errRefused
			})
			assert.Error(t, err, tt.name)
			assert.Equal(t, tt.calls, calls, "%s, then refused: calls", tt.name)
		})
	}
}

// If two equal writes of one attempt overlap, their order is unknown and the second is untrusted; one after the other
// each has its own key in every attempt.
// What an operation did beside its calls is not known when it panics, however well these went: around it, that is an
// untrusted write.
func TestAPanicBelowIsAnUntrustedWrite(t *testing.T) {
	for _, attempt := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			limit := 3
			if attempt > 1 { // else the operation below makes one attempt
				limit = 1
			}
			outer := to(t, retry.Policy{MaxAttempts: limit, Jitter: retry.NoJitter})
			inner := to(t, steady)
			calls := 0
			err := failure(t, outer.Do(t.Context(), retry.Keyed, func(ctx context.Context) error {
				calls++
				func() {
					defer func() { assert.Equal(t, "boom", recover(), "panic") }()
					_ = inner.Do(ctx, retry.Unsafe, func(ctx context.Context) error {
						n := retry.AttemptOf(ctx)
						fail := error(errCut)
						if n == attempt {
							fail = nil
						}
						err := to(t, retry.Policy{MaxAttempts: 1}).Do(ctx, retry.Idempotent, failing(fail).op)
						if n == attempt {
							panic("boom")
						}
						return err
					})
				}()
				return errRefused
			}))
			assert.Equal(t, 1, calls, "attempts, with a panic in attempt %d below", attempt)
			assert.ErrorIs(t, err.Stop, retry.ErrOutcomeUnknown, "Stop, with a panic in attempt %d below", attempt)
			assert.Equal(t, retry.Unknown, err.Outcome, "Outcome, with a panic in attempt %d below", attempt)
		})
	}
}

func TestEqualWritesOfOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{Key: retry.KeyPolicy{Honored: true}})
		for _, safety := range []retry.Safety{retry.Unsafe, retry.Keyed} {
			calls := 0
			err := failure(t, to(t, steady).Do(t.Context(), safety, func(ctx context.Context) error {
				calls++
				var wg sync.WaitGroup
				var xs [2]*request
				for i := range xs {
					xs[i] = writing()
					xs[i].under = func(context.Context) { time.Sleep(time.Second) }
					wg.Go(func() {
						_, err := d.Exchange(ctx, xs[i])
						assert.NoError(t, err, "Exchange")
					})
				}
				wg.Wait()
				got := map[retry.Safety]int{xs[0].tries[0].Safety: 1}
				got[xs[1].tries[0].Safety]++
				assert.Equal(t, map[retry.Safety]int{retry.Keyed: 1, retry.Unsafe: 1}, got, "safety of two writes that overlap")
				assert.NotEqual(t, xs[0].tries[0].Key, xs[1].tries[0].Key, "keys of two writes")
				return errRefused
			}))
			assert.Equal(t, 1, calls, "calls of an operation that is %v", safety)
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "Do of an operation that is %v", safety)
		}

		var attempts [][]string
		s := failing(errRefused, errRefused)
		require.NoError(t, to(t, steady).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			var keys []string
			for i := range 4 {
				x := writing()
				if i == 1 { // another target in between
					x.Target = "POST https://bank/mails"
				}
				_, err := d.Exchange(ctx, x)
				require.NoError(t, err, "Exchange")
				assert.Equal(t, retry.Keyed, x.tries[0].Safety, "safety of write %d", i+1)
				keys = append(keys, x.tries[0].Key)
				_, err = d.Exchange(ctx, reading()) // carries none and counts for nothing
				require.NoError(t, err, "Exchange")
			}
			attempts = append(attempts, append(keys, retry.Key(ctx)))
			return s.op(ctx)
		}), "Do")
		assert.Equal(t, attempts[0], attempts[1], "keys of the second attempt")
		assert.Equal(t, attempts[0], attempts[2], "keys of the third attempt")
		assert.Equal(t, attempts[0][4], attempts[0][0], "the first write takes the key itself")
		assert.Len(t, map[string]bool{attempts[0][0]: true, attempts[0][1]: true, attempts[0][2]: true, attempts[0][3]: true}, 4, "different keys of four writes: %v", attempts[0])
	})
}

// An answer speaks for its own write only: with another one in the attempt, what was unknown stays so.
func TestAFinalAnswerOfOneWriteOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{Key: retry.KeyPolicy{Honored: true}})
		cut := cut
		cut.Verdict.Repeatable = true
		final := response(classify.Permanent, 402, retry.NotApplied)
		final.Final = true
		n := 0
		err := failure(t, to(t, steady).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			if n++; n == 2 {
				_, err := d.Exchange(ctx, writing(final))
				require.NoError(t, err, "Exchange")
				return errNo
			}
			for _, target := range []string{"POST https://bank/charges", "POST https://bank/mails"} {
				x := writing(cut)
				x.Target = target
				_, err := d.Exchange(ctx, x)
				require.Error(t, err, "Exchange")
			}
			return errCut
		}))
		assert.Equal(t, 2, n, "calls")
		assert.Equal(t, retry.Unknown, err.Outcome, "outcome")
	})
}
