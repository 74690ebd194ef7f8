package retry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/cenkalti/backoff/v4"
	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/require"
)

func TestAPolicySaysItsWorstCase(t *testing.T) {
	const defaultBreaker = "breaker: opens when 50 % of at least 20 results within 30s are failures, refuses for 5s, doubling up to 1m0s (±20 %), and closes after 3 probes that succeed"
	tests := []struct {
		name   string
		policy retry.Policy
		want   []string
	}{
		{"the default", retry.Policy{}, []string{
			"attempts: at most 3, each of at most 10s",
			"waits: at most 100ms, 200ms (full jitter: from 0 up); after a throttled answer at most 1s, 2s; a server may ask for up to 30s, and a longer hint ends the call at once",
			"longest time: 30s, the deadline; without it, attempts and waits could take 1m32s",
			"load factor: at most 3 requests a call; repeats that fail for load or an outage use up a budget of 10, to which a call that succeeds at once adds 0.2 and each second 0.01: " +
				"in an outage a process sends one request for each call, 10 repeats on top for all calls together, and then one more every 1m40s",
			defaultBreaker,
		}},
		{"nothing is repeated", retry.Policy{MaxAttempts: 1, AttemptTimeout: 2 * time.Second, Breaker: breaker.Settings{Disabled: true}}, []string{
			"attempts: at most 1, each of at most 2s",
			"waits: none, nothing is repeated",
			"longest time: 2s; waiting for the end of a pushback, or a lookup given to Reconcile, can take it to the deadline of 30s",
			"load factor: 1 request a call",
			"breaker: none",
		}},
		{"many attempts, no budget", retry.Policy{
			MaxAttempts: 20, MaxDelay: time.Second, Jitter: retry.EqualJitter, MaxRetryAfter: 100 * time.Millisecond, Deadline: retry.NoLimit, AttemptTimeout: time.Second,
			Budget: retry.Budget{Disabled: true}, Breaker: breaker.Settings{MinResults: 1, FailureRatio: 0.125, Probes: 1},
		}, []string{
			"attempts: at most 20, each of at most 1s",
			"waits: at most 100ms, 200ms, 400ms, 800ms, … (19 waits, never above 1s) (equal jitter: from half of it up); after a throttled answer at most 1s, 1s, 1s, 1s, … (19 waits, never above 1s); " +
				"a server may ask for up to 100ms, and a longer hint ends the call at once",
			"longest time: 39s, if the caller sets no deadline; waiting for the end of a pushback, or a lookup given to Reconcile, comes on top",
			"load factor: at most 20 requests a call, and without a budget that is what an outage brings: 20 times the load",
			"breaker: opens when 12.5 % of at least 1 result within 30s are failures, refuses for 5s, doubling up to 1m0s (±20 %), and closes after 1 probe that succeed",
		}},
		{"no limits", retry.Policy{MaxAttempts: 2, Deadline: retry.NoLimit, AttemptTimeout: retry.NoLimit, Jitter: retry.NoJitter, Budget: retry.Budget{Burst: 3, Ratio: 0.5, PerSecond: 1}}, []string{
			"attempts: at most 2, without a timeout of its own",
			"waits: at most 100ms (no jitter: exactly that); after a throttled answer at most 1s; a server may ask for up to 30s, and a longer hint ends the call at once",
			"longest time: no limit but the caller's own deadline",
			"load factor: at most 2 requests a call; repeats that fail for load or an outage use up a budget of 3, to which a call that succeeds at once adds 0.5 and each second 1: " +
				"in an outage a process sends one request for each call, 3 repeats on top for all calls together, and then one more every 1s",
			defaultBreaker,
		}},
		{"a schedule of its own", retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second, Backoff: func() backoff.BackOff { return &backoff.ZeroBackOff{} }}, []string{
			"attempts: at most 2, each of at most 1s",
			"waits: by a schedule of its own; a server may ask for up to 30s, and a longer hint ends the call at once",
			"longest time: 30s, the deadline",
			"load factor: at most 2 requests a call; repeats that fail for load or an outage use up a budget of 10, to which a call that succeeds at once adds 0.2 and each second 0.01: " +
				"in an outage a process sends one request for each call, 10 repeats on top for all calls together, and then one more every 1m40s",
			defaultBreaker,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, strings.Join(tt.want, "\n"), said(t, tt.policy))
		})
	}
}

// said returns what String says, a line for each thing, and looks at the lines.
func said(t *testing.T, p retry.Policy) string {
	t.Helper()
	s := p.String()
	for line := range strings.SplitSeq(s, "\n") {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("String has a line of %d columns, want at most 100: %q", n, line)
		}
	}
	return strings.ReplaceAll(s, "\n  ", " ")
}

func TestABudgetSaysHowOftenItLetsARepeatThrough(t *testing.T) {
	for perSecond, want := range map[float64]string{
		1e-10: "no more", 1e-9: "one more every 277777h46m40s", 0.3: "one more every 3.33s", 2: "one more every 500ms", 1e9: "one more every 1ns",
	} {
		s := said(t, retry.Policy{Budget: retry.Budget{Burst: 1, PerSecond: perSecond}})
		require.Contains(t, s, "1 repeat on top for all calls together, and then "+want+"\n", "String with PerSecond %v", perSecond)
	}
}

func TestABadPolicySaysWhyInsteadOfItsWorstCase(t *testing.T) {
	p := retry.Policy{MaxAttempts: -1, BaseDelay: time.Minute, Jitter: 9}
	require.Equal(t, p.Validate().Error(), p.String())
}

func TestThePolicyOfManyAttemptsIsSaidAtOnce(t *testing.T) {
	p := retry.Policy{MaxAttempts: 1<<31 - 1, Deadline: retry.NoLimit, AttemptTimeout: time.Nanosecond, BaseDelay: 1, ThrottleDelay: 1, MaxDelay: 2, MaxRetryAfter: 1, Jitter: retry.NoJitter}
	// The first wait is 1 ns, every other one 2 ns.
	longest := time.Duration(3*p.MaxAttempts-2-1) * time.Nanosecond
	require.Contains(t, said(t, p), fmt.Sprintf("longest time: %v, if", longest))

	p.MaxDelay, p.BaseDelay, p.ThrottleDelay = time.Hour, time.Hour, time.Hour
	p.MaxAttempts = 2_562_000 // 292 years
	require.Contains(t, said(t, p), "longest time: 2561999h0m0.002562s, if")
	p.MaxAttempts = 2_600_000
	require.Contains(t, said(t, p), "longest time: no limit but")
}

// throttled is an answer that turned the request away for load, with no hint.
type throttled struct{}

func (throttled) Error() string { return "too many" }
func (throttled) Verdict() classify.Verdict {
	return classify.Verdict{Class: classify.Retryable, Reason: "http_429", Throttled: true}
}

// Each row is a call that uses its policy up, and what String says about it.
func TestTheWordsOfAPolicyAreWhatACallDoes(t *testing.T) {
	plain := errors.New("no answer")
	exact := retry.Policy{MaxAttempts: 4, AttemptTimeout: 2 * time.Second, Jitter: retry.NoJitter, MaxRetryAfter: 5 * time.Second, Deadline: retry.NoLimit}
	capped := exact
	capped.MaxDelay, capped.MaxAttempts = 150*time.Millisecond, 5
	capped.MaxRetryAfter = time.Millisecond
	tests := []struct {
		name   string
		policy retry.Policy
		err    error // what an attempt says when its time is over
		waits  []time.Duration
		took   time.Duration
		text   string // what String says of waits or time
	}{
		{"waits double", exact, plain, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond},
			8*time.Second + 700*time.Millisecond, "waits: at most 100ms, 200ms, 400ms (no"},
		{"throttled waits begin higher", exact, throttled{}, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second},
			15 * time.Second, "after a throttled answer at most 1s, 2s, 4s;"},
		{"the longest hint each time is the longest time", exact, classify.After(5*time.Second, plain), []time.Duration{5 * time.Second, 5 * time.Second, 5 * time.Second},
			23 * time.Second, "longest time: 23s, if the caller"},
		{"the cap holds", capped, plain, []time.Duration{100 * time.Millisecond, 150 * time.Millisecond, 150 * time.Millisecond, 150 * time.Millisecond},
			10*time.Second + 550*time.Millisecond, "waits: at most 100ms, 150ms, 150ms, 150ms (no"},
		{"the cap is the throttled base", capped, throttled{}, []time.Duration{150 * time.Millisecond, 150 * time.Millisecond, 150 * time.Millisecond, 150 * time.Millisecond},
			10*time.Second + 600*time.Millisecond, "longest time: 10.6s, if"},
		{"the deadline cuts the last attempt", retry.Policy{Jitter: retry.NoJitter}, plain, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond},
			30 * time.Second, "longest time: 30s, the deadline"},
		{"one attempt", retry.Policy{MaxAttempts: 1, AttemptTimeout: 3 * time.Second}, plain, nil,
			3 * time.Second, "longest time: 3s;"},
		{"an attempt without a timeout has the whole deadline", retry.Policy{AttemptTimeout: retry.NoLimit, Deadline: 7 * time.Second}, plain, nil,
			7 * time.Second, "longest time: 7s, the deadline"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				waits, took := useUp(t, tt.policy, tt.err)
				require.Equal(t, tt.waits, waits, "waits of the call")
				require.Equal(t, tt.took, took, "time of the call")
				require.Contains(t, said(t, tt.policy), tt.text)
			})
		})
	}
}

func TestJitterStaysWithinTheWordsOfAPolicy(t *testing.T) {
	for _, jitter := range []retry.Jitter{retry.FullJitter, retry.EqualJitter} {
		synctest.Test(t, func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Second, Jitter: jitter, Deadline: retry.NoLimit, MaxRetryAfter: 4 * time.Second}
			// Two hints of 4 s, each with up to a tenth on top.
			require.Contains(t, said(t, p), "longest time: 11.8s, if")
			waits, took := useUp(t, p, classify.After(4*time.Second, errors.New("busy")))
			require.Len(t, waits, 2)
			require.LessOrEqual(t, took, 11800*time.Millisecond)
			require.GreaterOrEqual(t, took, 11*time.Second)

			for range 100 {
				waits, _ := useUp(t, p, errors.New("no answer"))
				for i, bound := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond} {
					least := time.Duration(0)
					if jitter == retry.EqualJitter {
						least = bound / 2
					}
					if waits[i] < least || waits[i] > bound {
						t.Errorf("wait %d of a call with %v jitter is %v, want %v to %v", i+1, jitter, waits[i], least, bound)
					}
				}
			}
		})
	}
}

// useUp makes a call in which every attempt fails with err when its time is
// over, and returns its waits and how long it took.
func useUp(t *testing.T, p retry.Policy, err error) (waits []time.Duration, took time.Duration) {
	t.Helper()
	d, bad := retry.NewDestination("callee", p, nil)
	require.NoError(t, bad)
	start := time.Now()
	got := d.Do(t.Context(), retry.Idempotent, func(ctx context.Context) error {
		<-ctx.Done()
		return err
	})
	took = time.Since(start)
	e, ok := errors.AsType[*retry.Error](got)
	if !ok {
		t.Fatalf("Do = %v (%T), want a *retry.Error", got, got)
	}
	for _, a := range e.Attempts[:len(e.Attempts)-1] {
		waits = append(waits, a.Wait)
	}
	if most := max(p.MaxAttempts, 3); len(e.Attempts) > most {
		t.Errorf("the call made %d attempts, want at most %d", len(e.Attempts), most)
	}
	return waits, took
}

func TestTheLoadInAnOutageIsWhatThePolicySays(t *testing.T) {
	tests := []struct {
		name     string
		budget   retry.Budget
		requests int // for 100 calls
		text     string
	}{
		{"a budget of 10", retry.Budget{PerSecond: 1e-10}, 100 + 10, "sends one request for each call, 10 repeats on top for all calls together, and then no more"},
		{"a budget of 3", retry.Budget{Burst: 3, PerSecond: 1e-10}, 100 + 3, "sends one request for each call, 3 repeats on top for all calls together, and then no more"},
		{"no budget", retry.Budget{Disabled: true}, 4 * 100, "an outage brings: 4 times the load"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := retry.Policy{MaxAttempts: 4, Budget: tt.budget, Breaker: breaker.Settings{Disabled: true}}
				d, err := retry.NewDestination("callee", p, nil)
				require.NoError(t, err)
				requests := 0
				for range 100 {
					err := d.Do(t.Context(), retry.Idempotent, func(context.Context) error {
						requests++
						return errors.New("down")
					})
					require.Error(t, err)
				}
				require.Equal(t, tt.requests, requests, "requests of 100 calls in an outage")
				require.Contains(t, said(t, p), tt.text)
			})
		})
	}
}

// The defaults of the breaker are said by this package and kept by another.
func TestTheBreakerOfAPolicyIsTheBreakersDefault(t *testing.T) {
	l, err := retry.NewLayer(retry.Organization{}, nil)
	require.NoError(t, err)
	p, _ := l.Policy("callee")
	said := p.Breaker
	give := func(b *breaker.Breaker, n int, r breaker.Result) {
		for range n {
			pass, err := b.Allow()
			require.NoError(t, err)
			pass.Settle(r)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New("callee", breaker.Settings{}, nil)
		require.NoError(t, err)
		// One result less than it takes, at one failure less than the share, and those that the window has left.
		give(b, said.MinResults-1, breaker.Failure)
		require.Equal(t, breaker.Closed, b.State())
		time.Sleep(said.Window)
		failures := int(said.FailureRatio * float64(said.MinResults))
		give(b, said.MinResults-failures, breaker.Success)
		give(b, failures-1, breaker.Failure)
		require.Equal(t, breaker.Closed, b.State())
		time.Sleep(said.Window * 8 / 10) // still in the window
		give(b, 1, breaker.Failure)
		require.Equal(t, breaker.Open, b.State())

		// The middle of many openings is OpenFor, the longest of many in a row MaxOpenFor.
		sum, longest := time.Duration(0), time.Duration(0)
		const openings = 400
		for range openings {
			for i := range 6 {
				wait := time.Until(b.RetryAt())
				if i == 0 {
					sum += wait
				}
				longest = max(longest, wait)
				time.Sleep(wait)
				give(b, 1, breaker.Failure)
			}
			time.Sleep(time.Until(b.RetryAt()))
			give(b, said.Probes-1, breaker.Success)
			require.Equal(t, breaker.HalfOpen, b.State())
			give(b, 1, breaker.Success)
			require.Equal(t, breaker.Closed, b.State())
			give(b, said.MinResults, breaker.Failure)
			require.Equal(t, breaker.Open, b.State())
		}
		require.InEpsilon(t, said.OpenFor, sum/openings, 0.05, "the mean of %d openings", openings)
		require.LessOrEqual(t, longest, said.MaxOpenFor)
		require.InEpsilon(t, said.MaxOpenFor, longest, 0.01, "the longest opening")
	})
}
