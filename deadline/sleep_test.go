package deadline_test

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/deadline"
)

var errStopped = errors.New("the service is shutting down")

// timed returns how long Sleep took and what it returned.
func timed(ctx context.Context, d time.Duration) (time.Duration, error) {
	start := time.Now()
	err := deadline.Sleep(ctx, d)
	return time.Since(start), err
}

func TestSleep(t *testing.T) {
	cancelled := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(errStopped)
		return ctx
	}
	for _, tt := range []struct {
		name     string
		limit    time.Duration // of the context; 0: none
		as       func(context.Context) context.Context
		d        time.Duration
		want     error
		wantTook time.Duration
	}{
		{"a whole wait", 0, nil, time.Second, nil, time.Second},
		{"a wait before the deadline", time.Hour, nil, time.Minute, nil, time.Minute},
		{"a wait up to the last nanosecond", time.Minute, nil, time.Minute - 1, nil, time.Minute - 1},
		{"no wait", 0, nil, 0, nil, 0},
		{"a negative wait", 0, nil, -time.Hour, nil, 0},
		{"the most negative wait", time.Hour, nil, math.MinInt64, nil, 0},

		{"cancelled before", 0, cancelled, time.Second, errStopped, 0},
		{"cancelled before, no wait", 0, cancelled, 0, errStopped, 0},
		{"cancelled before, a negative wait", 0, cancelled, -1, errStopped, 0},
		{"cancelled before, a wait that would not fit", time.Hour, cancelled, 2 * time.Hour, errStopped, 0},
		{"ended by its deadline before", -1, nil, time.Second, context.DeadlineExceeded, 0},

		{"a wait up to the deadline", time.Hour, nil, time.Hour, deadline.ErrNoTime, 0},
		{"a wait past the deadline", time.Hour, nil, 2 * time.Hour, deadline.ErrNoTime, 0},
		{"a wait without end", time.Hour, nil, math.MaxInt64, deadline.ErrNoTime, 0},
		{"no wait past a deadline that has not ended the context yet", -time.Hour, late, 0, deadline.ErrNoTime, 0},
		{"a negative wait past such a deadline", -time.Hour, late, -2 * time.Hour, deadline.ErrNoTime, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.limit != 0 {
					ctx = until(t, tt.limit)
				}
				if tt.as != nil {
					ctx = tt.as(ctx)
				}
				took, err := timed(ctx, tt.d)
				if err != tt.want || took != tt.wantTook {
					t.Errorf("Sleep(%v) = %v after %v, want %v after %v", tt.d, err, took, tt.want, tt.wantTook)
				}
			})
		})
	}
}

// late returns a context with the deadline of ctx that has not ended, as if its timer had not run yet.
func late(ctx context.Context) context.Context {
	end, _ := ctx.Deadline()
	return stuck{context.WithoutCancel(ctx), end}
}

func TestErrNoTime(t *testing.T) {
	err := deadline.ErrNoTime
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("errors.Is(ErrNoTime, context.DeadlineExceeded) = false, want true")
	}
	if errors.Is(err, context.Canceled) {
		t.Errorf("errors.Is(ErrNoTime, context.Canceled) = true, want false")
	}
	if errors.Is(context.DeadlineExceeded, deadline.ErrNoTime) {
		t.Errorf("errors.Is(context.DeadlineExceeded, ErrNoTime) = true, want false: nothing was refused")
	}
	if to, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); !ok || !to.Timeout() {
		t.Errorf("ErrNoTime.Timeout() is missing or false, want true")
	}
	if !os.IsTimeout(err) {
		t.Errorf("os.IsTimeout(ErrNoTime) = false, want true")
	}
}

// B97: the limit is checked before the sleep only, so a 5 s limit ends at 7 s. Total 5 s, delays 1, 2, 4: no attempt
// starts and nothing returns after 5 s.
func TestWaitsNeverOvershootTheTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := until(t, 5*time.Second)
		start := time.Now()
		var attempts []time.Duration
		var err error
		for delay := time.Second; err == nil; delay *= 2 {
			attempts = append(attempts, time.Since(start))
			err = deadline.Sleep(ctx, delay)
		}
		if err != deadline.ErrNoTime || time.Since(start) != 3*time.Second {
			t.Errorf("Sleep(4s) = %v at %v, want ErrNoTime at 3s", err, time.Since(start))
		}
		if len(attempts) != 3 || attempts[2] != 3*time.Second {
			t.Errorf("attempts at %v, want at 0s, 1s, 3s", attempts)
		}
	})
}

// B99: the wait is longer than the context has left; the caller blocks until the deadline only to get 'deadline
// exceeded'. Context 50 ms, wait 10 s: return at once.
func TestAWaitThatCannotEndInTimeIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := until(t, 50*time.Millisecond)
		took, err := timed(ctx, 10*time.Second)
		if err != deadline.ErrNoTime || took != 0 {
			t.Errorf("Sleep(10s) with 50ms left = %v after %v, want ErrNoTime at once", err, took)
		}
		if ctx.Err() != nil {
			t.Errorf("the context has ended (%v), want the rest of its time left to the caller", ctx.Err())
		}
	})
}

// B105: when the overall timer fired during a wait, only that wait ended; the remaining retries then ran back to back.
// An overall limit that is no deadline of the context cannot be foreseen: the wait begins, and every one from then on
// ends at once with the cause.
func TestAfterAnInterruptedWaitEveryWaitFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(errStopped) })
		start := time.Now()
		for n := range 5 {
			if err := deadline.Sleep(ctx, time.Second); err != errStopped || time.Since(start) != 100*time.Millisecond {
				t.Errorf("wait %d: Sleep(1s) = %v at %v, want %v at 100ms", n+1, err, time.Since(start), errStopped)
			}
		}
	})
}

// B106: time.Sleep (or waiting on the timer after cancel) keeps shutdown waiting for the full backoff. Wait 30 s, cancel
// after 50 ms: return at once with context.Canceled.
func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if took, err := timed(ctx, 30*time.Second); err != context.Canceled || took != 50*time.Millisecond {
			t.Errorf("Sleep(30s) = %v after %v, want %v after 50ms", err, took, context.Canceled)
		}

		ctx, cancelCause := context.WithCancelCause(until(t, time.Hour))
		time.AfterFunc(50*time.Millisecond, func() { cancelCause(errStopped) })
		if took, err := timed(ctx, 30*time.Second); err != errStopped || took != 50*time.Millisecond {
			t.Errorf("Sleep(30s) = %v after %v, want the cause %v after 50ms", err, took, errStopped)
		}
	})
}

// settled is a context that is asked for its error only when all that happens in this moment has happened.
type settled struct{ context.Context }

func (s settled) Err() error {
	synctest.Wait()
	return s.Context.Err()
}

// The end of a context and that of a wait in the same moment: never a nil error with an ended context, whichever of the
// two the wait sees first.
func TestSleepNeverSucceedsWithAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errStopped) })
			took, err := timed(settled{ctx}, time.Second)
			if err != errStopped || took != time.Second {
				t.Fatalf("Sleep(1s) = %v after %v with a context that ends after 1s, want %v", err, took, errStopped)
			}
		}
	})
}

// lazy is a context that has ended by the time anybody asks for its error, but whose channel is never closed.
type lazy struct {
	context.Context
	end time.Time
}

func (l lazy) Err() error {
	if time.Now().Before(l.end) {
		return nil
	}
	return context.DeadlineExceeded
}

func TestSleepAsksTheContextAgainAfterTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := lazy{t.Context(), time.Now().Add(time.Second)}
		took, err := timed(ctx, time.Second)
		if took != time.Second || ctx.Err() == nil {
			t.Fatalf("Sleep(1s) took %v", took)
		}
		// context.Cause knows nothing of this kind of context beyond its Err.
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sleep(1s) = %v, want %v: the context has ended", err, context.DeadlineExceeded)
		}
	})
}

// B107: time.After in a loop kept timers alive until they fire, growing memory with long waits. 10 000 calls with 1 h
// wait, cancelled at once; heap and goroutines back to base.
func TestACancelledWaitLeavesNothingBehind(t *testing.T) {
	const calls = 10_000
	cancelledWaits := func() {
		ctx, cancel := context.WithCancel(t.Context())
		var waiting, done sync.WaitGroup
		waiting.Add(calls)
		for range calls {
			done.Go(func() {
				waiting.Done()
				if err := deadline.Sleep(ctx, time.Hour); err != context.Canceled {
					t.Errorf("Sleep(1h) = %v, want %v", err, context.Canceled)
				}
			})
		}
		waiting.Wait()
		cancel()
		done.Wait()
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	cancelledWaits() // the runtime keeps the 10 000 goroutines for reuse
	goroutines, before := runtime.NumGoroutine(), heap()
	cancelledWaits()
	// A timer and its channel take more than 200 bytes.
	if grown := heap() - before; grown > calls*50 {
		t.Errorf("the heap has grown by %d bytes after %d cancelled waits", grown, calls)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, want %d as before", n, goroutines)
	}
}

func TestSleepMayBeCalledByManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := until(t, time.Second)
		start := time.Now()
		var wg sync.WaitGroup
		for n := range 100 {
			wg.Go(func() {
				d := time.Duration(n*20) * time.Millisecond
				want := error(nil)
				if d >= time.Second {
					want = deadline.ErrNoTime
				}
				if err := deadline.Sleep(ctx, d); err != want {
					t.Errorf("Sleep(%v) = %v, want %v", d, err, want)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took != 980*time.Millisecond {
			t.Errorf("100 waits took %v, want 980ms", took)
		}
	})
}

func BenchmarkSleepRefused(b *testing.B) {
	ctx := until(b, time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		_ = deadline.Sleep(ctx, time.Hour)
	}
}

func BenchmarkSleepMicrosecond(b *testing.B) {
	ctx := until(b, time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		_ = deadline.Sleep(ctx, time.Microsecond)
	}
}
