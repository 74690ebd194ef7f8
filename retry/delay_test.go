package retry_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// endless has no limit but that of its attempts.
func endless(attempts int) retry.Policy {
	return retry.Policy{
		MaxAttempts: attempts, Deadline: retry.NoLimit, AttemptTimeout: retry.NoLimit,
		Budget: retry.Budget{Disabled: true}, Breaker: breaker.Settings{Disabled: true},
	}
}

// waits returns the waits of one call whose attempts all fail, as its observer is told of them.
func waits(t testing.TB, p retry.Policy, err error) []time.Duration {
	t.Helper()
	var got []time.Duration
	d := to(t, p, func(_ context.Context, e retry.Event) {
		if e.Kind == retry.EventRetry {
			got = append(got, e.Wait)
		}
	})
	assert.Error(t, d.Do(t.Context(), retry.Idempotent, func(context.Context) error { return err }), "Do")
	return got
}

// B83: no delay before the first retry / off-by-one growth: base 100 ms, factor 2, jitter off: gaps 100, 200, 400 ms.
func TestTheSeriesOfDelays(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name   string
		policy func(*retry.Policy)
		err    error
		want   []time.Duration
	}{
		{"the default", nil, errRefused, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms}},
		{"throttled", nil, rationed{}, []time.Duration{1000 * ms, 2000 * ms, 4000 * ms, 5000 * ms, 5000 * ms, 5000 * ms, 5000 * ms, 5000 * ms}},
		{"an own base", func(p *retry.Policy) { p.BaseDelay = 3 * time.Second }, errRefused, []time.Duration{3000 * ms, 5000 * ms, 5000 * ms, 5000 * ms, 5000 * ms, 5000 * ms, 5000 * ms, 5000 * ms}},
		{"an own end", func(p *retry.Policy) { p.MaxDelay = 50 * ms }, rationed{}, []time.Duration{50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms}},
		{"a base for throttled answers", func(p *retry.Policy) { p.ThrottleDelay = 7 * ms }, rationed{}, []time.Duration{7 * ms, 14 * ms, 28 * ms, 56 * ms, 112 * ms, 224 * ms, 448 * ms, 896 * ms}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := endless(9)
			p.Jitter = retry.NoJitter
			if tt.policy != nil {
				tt.policy(&p)
			}
			assert.Equal(t, tt.want, waits(t, p, tt.err), tt.name)
		})
	}
}

func FuzzDelays(f *testing.F) {
	f.Add(int64(100*time.Millisecond), int64(5*time.Second), uint8(0), uint8(9), false, int64(0))
	f.Add(int64(1), int64(1), uint8(1), uint8(20), true, int64(1))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), uint8(2), uint8(3), false, int64(math.MaxInt64))
	f.Add(int64(3), int64(1<<40), uint8(1), uint8(70), false, int64(time.Second))
	f.Fuzz(func(t *testing.T, base, limit int64, jitter, attempts uint8, rations bool, hint int64) {
		p := endless(int(attempts))
		p.BaseDelay, p.ThrottleDelay, p.MaxDelay, p.Jitter = time.Duration(base), time.Duration(base), time.Duration(limit), retry.Jitter(jitter)
		p.MaxRetryAfter = math.MaxInt64
		if p.Validate() != nil || base == 0 || limit == 0 || attempts == 0 {
			return // not a policy, or one with defaults
		}
		if limit > int64(24*time.Hour) || hint > int64(24*time.Hour) {
			p.MaxAttempts = min(p.MaxAttempts, 2) // virtual time ends after 292 years
		}
		var err error = errRefused
		if rations {
			err = rationed{after: max(0, time.Duration(hint))}
		} else {
			err = classify.After(time.Duration(hint), err)
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var got []time.Duration
			d := to(t, p, func(_ context.Context, e retry.Event) {
				if e.Kind == retry.EventRetry {
					if got = append(got, e.Wait); p.MaxAttempts <= 2 {
						cancel()
					}
				}
			})
			_ = d.Do(ctx, retry.Idempotent, func(context.Context) error { return err })
			if len(got) != p.MaxAttempts-1 {
				t.Fatalf("%d waits with %d attempts: %v", len(got), p.MaxAttempts, got)
			}
			for i, wait := range got {
				h := max(0, time.Duration(hint))
				most := p.MaxDelay
				if up := min(h/10, time.Second); h > math.MaxInt64-up {
					most = math.MaxInt64
				} else {
					most = max(most, h+up)
				}
				if wait < h || wait > most {
					t.Errorf("wait %d of %+v after %v is %v, want %v to %v", i+1, p, err, wait, h, most)
				}
			}
		})
	})
}

// B80: same jitter in every process or every call: sequences must differ.
func TestTwoCallsWaitDifferently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, jitter := range []retry.Jitter{retry.FullJitter, retry.EqualJitter} {
			p := endless(6)
			p.Jitter = jitter
			a, b := waits(t, p, errRefused), waits(t, p, errRefused)
			assert.NotEqual(t, a, b, "waits of two calls with jitter %v", jitter)
		}
	})
}

// B80: same jitter in every process: a fixed seed makes clients move in step. Two processes: their sequences must differ.
func TestTwoProcessesWaitDifferently(t *testing.T) {
	const name = "RETRY_TEST_PRINTS_ITS_WAITS"
	if os.Getenv(name) != "" {
		synctest.Test(t, func(t *testing.T) { fmt.Println(waits(t, endless(6), errRefused)) })
		return
	}
	said := map[string]bool{}
	for range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), name+"=1", "GORACE=atexit_sleep_ms=0") // or the race detector waits for a second
		out, err := cmd.Output()
		require.NoError(t, err, "the process that waits")
		line, _, _ := strings.Cut(string(out), "\n")
		require.Regexp(t, `^\[\S+ \S+ \S+ \S+ \S+\]$`, line, "five waits")
		said[line] = true
	}
	assert.Len(t, said, 2, "waits of two processes: %v", said)
}

func TestFullJitterSpreadsOverTheWholeInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			jitter      retry.Jitter
			least, mean time.Duration
		}{
			{retry.FullJitter, 0, 500 * time.Millisecond},
			{retry.EqualJitter, 500 * time.Millisecond, 750 * time.Millisecond},
		} {
			p := endless(2001)
			p.Jitter, p.BaseDelay, p.MaxDelay, p.ThrottleDelay = tt.jitter, time.Second, time.Second, time.Second
			got := waits(t, p, errRefused)
			sum, least, most := time.Duration(0), got[0], got[0]
			for _, w := range got {
				sum, least, most = sum+w, min(least, w), max(most, w)
			}
			mean := sum / time.Duration(len(got))
			assert.InDelta(t, tt.mean, mean, float64(50*time.Millisecond), "mean with %v jitter", tt.jitter)
			assert.InDelta(t, tt.least, least, float64(20*time.Millisecond), "least with %v jitter", tt.jitter)
			assert.InDelta(t, time.Second, most, float64(20*time.Millisecond), "most with %v jitter", tt.jitter)
		}
	})
}

func TestAnOwnScheduleIsMadeForEachIntentionThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		p := endless(10)
		p.Jitter, p.MaxDelay, p.BaseDelay = retry.NoJitter, time.Millisecond, time.Millisecond
		p.Backoff = func() backoff.BackOff {
			made++
			return backoff.WithMaxRetries(backoff.NewConstantBackOff(7*time.Second), 3)
		}
		d := to(t, p)
		require.NoError(t, d.Do(t.Context(), retry.Unsafe, failing().op), "Do")
		assert.Zero(t, made, "schedules made for a success at once")

		for range 2 { // the second call starts anew
			s := always(errRefused)
			err := d.Do(t.Context(), retry.Unsafe, s.op)
			assert.Equal(t, []time.Duration{7 * time.Second, 7 * time.Second, 7 * time.Second}, s.gaps(), "gaps: MaxDelay does not apply")
			assert.ErrorIs(t, err, retry.ErrAttempts, "a schedule that has ended")
		}
		assert.Equal(t, 2, made, "schedules made for two failures")

		s := failing(classify.After(20*time.Second, errRefused))
		require.NoError(t, d.Do(t.Context(), retry.Unsafe, s.op), "Do")
		assert.Equal(t, []time.Duration{20 * time.Second}, s.gaps(), "a hint applies to an own schedule too")
	})
}

func TestAnOwnScheduleMayLeaveItToTheBuiltInOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := steady
		p.Backoff = func() backoff.BackOff { return nil }
		s := failing(errRefused)
		require.NoError(t, to(t, p).Do(t.Context(), retry.Unsafe, s.op), "Do")
		assert.Equal(t, []time.Duration{100 * time.Millisecond}, s.gaps(), "gaps")
	})
}
