package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
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

// B154: min above max, base above cap, zero base: nonsense combinations panic later, inside the first outage, or give a
// zero delay loop. Reject at construction with a clear error; never fail at run time.
// B155: zero or negative timeout silently replaced or instantly expired: 0 = documented default; negatives are errors.
// B150: 0 means 'default', 'none' or 'for ever'.
func TestABadPolicyIsRefusedWithEveryProblem(t *testing.T) {
	for _, tt := range []struct {
		p    retry.Policy
		want string
	}{
		{retry.Policy{MaxAttempts: -1}, "MaxAttempts is -1: allowed is 1 or more, or 0 for 3"},
		{retry.Policy{BaseDelay: -1}, "BaseDelay is -1ns: allowed is more than 0, or 0 for 100ms"},
		{retry.Policy{MaxDelay: -time.Second}, "MaxDelay is -1s: allowed is more than 0, or 0 for 5s"},
		{retry.Policy{ThrottleDelay: -1}, "ThrottleDelay is -1ns: allowed is more than 0, or 0 for 1s"},
		{retry.Policy{MaxRetryAfter: -1}, "MaxRetryAfter is -1ns: allowed is more than 0, or 0 for 30s"},
		{retry.Policy{Deadline: -2}, "Deadline is -2ns: allowed is more than 0, 0 for 30s, or NoLimit"},
		{retry.Policy{AttemptTimeout: -time.Second}, "AttemptTimeout is -1s: allowed is more than 0, 0 for 10s, or NoLimit"},
		{retry.Policy{Jitter: 3}, "Jitter is 3: allowed is FullJitter, EqualJitter or NoJitter"},
		{retry.Policy{Budget: retry.Budget{Burst: -1}}, "Budget.Burst is -1: allowed is 1 or more, 0 for 10; Disabled switches the budget off"},
		{retry.Policy{Budget: retry.Budget{Ratio: -0.1}}, "Budget.Ratio is -0.1: allowed is 0 to 1, with 0 for 0.2"},
		{retry.Policy{Budget: retry.Budget{Ratio: 1.1}}, "Budget.Ratio is 1.1: allowed is 0 to 1, with 0 for 0.2"},
		{retry.Policy{Budget: retry.Budget{Ratio: math.NaN()}}, "Budget.Ratio is NaN"},
		{retry.Policy{Budget: retry.Budget{PerSecond: -1}}, "Budget.PerSecond is -1: allowed is 0 or more, with 0 for 0.01"},
		{retry.Policy{Budget: retry.Budget{PerSecond: math.Inf(1)}}, "Budget.PerSecond is +Inf"},
		{retry.Policy{Budget: retry.Budget{PerSecond: math.NaN()}}, "Budget.PerSecond is NaN"},
		{retry.Policy{Breaker: breaker.Settings{Window: -1}}, "Breaker.Window is -1ns"},
		{retry.Policy{Breaker: breaker.Settings{OpenFor: -1}}, "Breaker.OpenFor is -1ns"},
		{retry.Policy{Breaker: breaker.Settings{FailureRatio: 1.5}}, "Breaker.FailureRatio is 1.5"},
		{retry.Policy{Key: retry.KeyPolicy{Header: "Idempotency Key"}}, `Key.Header is "Idempotency Key": allowed is a header field name (RFC 9110, section 5.1)`},
		{retry.Policy{Key: retry.KeyPolicy{Format: 2}}, "Key.Format is 2: allowed is Raw or StructuredString"},
		{retry.Policy{Key: retry.KeyPolicy{Methods: []string{"post"}}}, `Key.Methods is "post": allowed is HTTP methods in capitals`},
		{retry.Policy{Key: retry.KeyPolicy{Methods: []string{""}}}, `Key.Methods is "": allowed is HTTP methods in capitals`},
		{retry.Policy{Key: retry.KeyPolicy{Methods: []string{"GET"}}}, "Key.Methods is GET: allowed is methods that write; a read carries no key"},
		{retry.Policy{Key: retry.KeyPolicy{ValidFor: -1}}, "Key.ValidFor is -1ns: allowed is more than 0, or 0 for 24h"},
		{retry.Policy{Statuses: map[int]classify.Class{199: classify.Permanent}}, "Statuses is 199: allowed is final statuses, 200 to 999"},
		{retry.Policy{Statuses: map[int]classify.Class{503: 3}}, "Statuses[503] is 3: allowed is Ambiguous, Retryable or Permanent"},

		{retry.Policy{BaseDelay: time.Second, MaxDelay: 10 * time.Millisecond}, "BaseDelay is 1s: allowed is at most MaxDelay, which is 10ms"},
		{retry.Policy{BaseDelay: 6 * time.Second}, "BaseDelay is 6s: allowed is at most MaxDelay, which is 5s"},
		{retry.Policy{ThrottleDelay: 6 * time.Second}, "ThrottleDelay is 6s: allowed is at most MaxDelay, which is 5s"},
		{retry.Policy{AttemptTimeout: 2 * time.Second, Deadline: time.Second}, "AttemptTimeout is 2s: allowed is at most Deadline, which is 1s"},
		{retry.Policy{AttemptTimeout: 31 * time.Second}, "AttemptTimeout is 31s: allowed is at most Deadline, which is 30s"},
		{retry.Policy{AttemptTimeout: 31 * time.Second, Deadline: retry.NoLimit}, "Breaker.Window is 30s: allowed is at least AttemptTimeout, which is 31s"},
	} {
		assert.ErrorContains(t, tt.p.Validate(), tt.want, "Validate of %+v", tt.p)
		_, err := retry.NewDestination("a", tt.p, nil)
		assert.ErrorContains(t, err, tt.want, "NewDestination with %+v", tt.p)
	}
	err := retry.Policy{MaxAttempts: -1, Jitter: 9, Deadline: -9}.Validate()
	for _, want := range []string{"retry: bad policy: ", "MaxAttempts is -1", "Jitter is 9", "Deadline is -9ns"} {
		assert.ErrorContains(t, err, want, "Validate of several problems")
	}
}

func TestAGoodPolicyIsAccepted(t *testing.T) {
	for _, p := range []retry.Policy{
		{},
		{MaxAttempts: 1, Deadline: retry.NoLimit, AttemptTimeout: retry.NoLimit},
		{MaxDelay: time.Millisecond},
		{Deadline: time.Second},
		{Breaker: breaker.Settings{Window: time.Second}},
		{AttemptTimeout: time.Hour, Deadline: retry.NoLimit, Breaker: breaker.Settings{Disabled: true}},
		{BaseDelay: 1, MaxDelay: 1, ThrottleDelay: 1},
		{Budget: retry.Budget{Ratio: 1, Burst: math.MaxInt32, PerSecond: math.MaxFloat64}},
		{Key: retry.KeyPolicy{Header: "PayPal-Request-Id", Methods: []string{}, Format: retry.StructuredString}},
		{Statuses: map[int]classify.Class{200: classify.Permanent, 999: classify.Ambiguous}},
	} {
		assert.NoError(t, p.Validate(), "Validate of %+v", p)
	}
}

// B155: Total = 0, AttemptTimeout = 0: documented defaults, never an expired context.
func TestTheDefaultsOfAPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := writing()
		_, err := to(t, retry.Policy{}).Exchange(t.Context(), x)
		require.NoError(t, err, "Exchange")
		p := *x.tries[0].Policy
		assert.Equal(t, retry.Policy{
			MaxAttempts: 3, BaseDelay: 100 * time.Millisecond, MaxDelay: 5 * time.Second, ThrottleDelay: time.Second,
			MaxRetryAfter: 30 * time.Second, Deadline: 30 * time.Second, AttemptTimeout: 10 * time.Second,
			Budget: retry.Budget{Burst: 10, Ratio: 0.2, PerSecond: 0.01},
			Key:    retry.KeyPolicy{Header: "Idempotency-Key", Methods: []string{"POST", "PATCH"}, ValidFor: 24 * time.Hour},
		}, p, "the policy that an attempt sees")
		assert.NoError(t, p.Validate(), "Validate of the defaults, said")
	})
	for _, tt := range []struct {
		p    retry.Policy
		want time.Duration
	}{
		{retry.Policy{Deadline: 2 * time.Second}, 2 * time.Second},
		{retry.Policy{Breaker: breaker.Settings{Window: 3 * time.Second}}, 3 * time.Second},
		{retry.Policy{Breaker: breaker.Settings{Window: 3 * time.Second, Disabled: true}}, 10 * time.Second},
		{retry.Policy{Deadline: retry.NoLimit}, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			require.NoError(t, to(t, tt.p).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
				end, _ := ctx.Deadline()
				assert.Equal(t, tt.want, time.Until(end), "the default attempt timeout of %+v", tt.p)
				return nil
			}))
		})
	}
}

// B153: option accepted but without effect: a setting stays in the struct (and docs) after the code stopped using it.
// Table test: change each option and observe a changed behaviour.
func TestEveryFieldChangesWhatHappens(t *testing.T) {
	// What happens to a call whose three attempts are turned away, lose their answer and are refused, and to a second
	// one right after it, in a few words.
	behaviour := func(t *testing.T, p retry.Policy) string {
		var out string
		synctest.Test(t, func(t *testing.T) {
			if p.Jitter == retry.FullJitter {
				p.Jitter = retry.NoJitter
			} else {
				p.Jitter = retry.FullJitter
			}
			start := time.Now()
			d := to(t, p)
			s := failing(rationed{1500 * time.Millisecond}, errRefused, errCut, errRefused, errCut)
			hang := false
			op := func(ctx context.Context) error {
				if hang {
					<-ctx.Done()
				}
				return s.op(ctx)
			}
			err := d.Do(t.Context(), retry.Keyed, op)
			out = fmt.Sprint(s.gaps(), err != nil, errors.Is(err, breaker.ErrOpen), time.Since(start))
			time.Sleep(time.Minute)
			require.NoError(t, d.Do(t.Context(), retry.Unsafe, failing().op))
			out += fmt.Sprint(" ", math.Round(d.Snapshot().Budget*1000))
			_ = d.Do(t.Context(), retry.Unsafe, failing(rationed{20 * time.Second}, rationed{31 * time.Second}).op)
			out += fmt.Sprint(" ", d.Snapshot().PausedFor)
			time.Sleep(time.Hour)
			hang, start = true, time.Now()
			err = d.Do(t.Context(), retry.Idempotent, op)
			out += fmt.Sprint(" ", time.Since(start), errors.Is(err, retry.ErrDeadline))
			err = d.Do(retry.WithIntention(t.Context(), retry.Intention{Key: "K", FirstSent: time.Now().Add(-23 * time.Hour)}), retry.Keyed, failing(errCut).op)
			out += fmt.Sprint(" ", errors.Is(err, retry.ErrOutcomeUnknown))
			x := writing()
			_, err = d.Exchange(t.Context(), x)
			if err == nil { // what only a transport uses reaches it
				out += fmt.Sprint(" ", x.tries[0].Safety, x.tries[0].Policy.Key, x.tries[0].Policy.Statuses, x.tries[0].Policy.Announce)
			}
		})
		return out
	}
	changes := map[string]func(*retry.Policy){
		"MaxAttempts":          func(p *retry.Policy) { p.MaxAttempts = 4 },
		"BaseDelay":            func(p *retry.Policy) { p.BaseDelay = 200 * time.Millisecond },
		"MaxDelay":             func(p *retry.Policy) { p.MaxDelay = 150 * time.Millisecond },
		"ThrottleDelay":        func(p *retry.Policy) { p.ThrottleDelay = 2 * time.Second },
		"Jitter":               func(p *retry.Policy) { p.Jitter = retry.EqualJitter },
		"MaxRetryAfter":        func(p *retry.Policy) { p.MaxRetryAfter = time.Second },
		"Deadline":             func(p *retry.Policy) { p.Deadline = 11 * time.Second },
		"AttemptTimeout":       func(p *retry.Policy) { p.AttemptTimeout = time.Second },
		"Budget.Burst":         func(p *retry.Policy) { p.Budget.Burst = 1 },
		"Budget.Ratio":         func(p *retry.Policy) { p.Budget.Ratio = 0.1 },
		"Budget.PerSecond":     func(p *retry.Policy) { p.Budget.PerSecond = 1e-9 },
		"Budget.Disabled":      func(p *retry.Policy) { p.Budget.Disabled = true },
		"Breaker.MinResults":   func(p *retry.Policy) { p.Breaker.MinResults = 1 },
		"Breaker.Disabled":     nil, // shown with MinResults below
		"Breaker.Window":       nil, // held by package breaker, as the rest of its settings
		"Breaker.FailureRatio": nil,
		"Breaker.OpenFor":      nil,
		"Breaker.MaxOpenFor":   nil,
		"Breaker.Probes":       nil,
		"Key.Header":           func(p *retry.Policy) { p.Key.Header = "x-key" },
		"Key.Format":           func(p *retry.Policy) { p.Key.Format = retry.StructuredString },
		"Key.Honored":          func(p *retry.Policy) { p.Key.Honored = true },
		"Key.Methods":          func(p *retry.Policy) { p.Key.Methods = []string{"PUT"} },
		"Key.ValidFor":         func(p *retry.Policy) { p.Key.ValidFor = 22 * time.Hour },
		"Statuses":             func(p *retry.Policy) { p.Statuses = map[int]classify.Class{503: classify.Permanent} },
		"PrivatePushback":      func(p *retry.Policy) { p.PrivatePushback = true },
		"Announce":             func(p *retry.Policy) { p.Announce = true },
		"Backoff": func(p *retry.Policy) {
			p.Backoff = func() backoff.BackOff { return backoff.NewConstantBackOff(3 * time.Second) }
		},
	}
	plain := behaviour(t, retry.Policy{})
	assert.Equal(t, plain, behaviour(t, retry.Policy{}), "the same policy twice")
	for _, name := range fields(reflect.TypeFor[retry.Policy](), "") {
		change, ok := changes[name]
		if !ok {
			t.Errorf("the field %s has no row", name)
		}
		if change == nil {
			continue
		}
		var p retry.Policy
		change(&p)
		assert.NotEqual(t, plain, behaviour(t, p), "behaviour with another %s", name)
	}
	fast := retry.Policy{Breaker: breaker.Settings{MinResults: 1}}
	off := fast
	off.Breaker.Disabled = true
	assert.NotEqual(t, behaviour(t, fast), behaviour(t, off), "behaviour with another Breaker.Disabled")
}

// B20: 'Ignore Retry-After' option is lost after the first retry: policy objects are copied per attempt and one field was
// left out of the copy, so the option only worked once. A policy is one immutable value for the whole call: attempt 1 is
// a refusal, attempt 2 a hint that its limit just allows, attempt 3 one that it does not.
func TestAPolicyIsOneValueForTheWholeCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := response(classify.Retryable, 429, retry.NotApplied)
		long.Verdict.RetryAfter = 41 * time.Second
		short := long
		short.Verdict.RetryAfter = 40 * time.Second
		p := retry.Policy{
			MaxAttempts: 5, MaxRetryAfter: 40 * time.Second, Deadline: time.Hour, Jitter: retry.NoJitter, PrivatePushback: true,
			Statuses: map[int]classify.Class{418: classify.Retryable}, Key: retry.KeyPolicy{Honored: true, Methods: []string{"POST"}}, Announce: true,
		}
		x, start := writing(refused, short, long), time.Now()
		call, err := to(t, p).Exchange(t.Context(), x)
		require.NoError(t, err, "Exchange")
		assert.ErrorIs(t, call.Report().Stop, retry.ErrPushback, "Stop")
		assert.Equal(t, 40100*time.Millisecond, time.Since(start), "Exchange took")
		require.Len(t, x.tries, 3, "attempts")
		for _, try := range x.tries {
			assert.Same(t, x.tries[0].Policy, try.Policy, "the policy that attempt %d sees", try.Number)
		}
		got := *x.tries[2].Policy
		assert.Equal(t, p.MaxRetryAfter, got.MaxRetryAfter, "MaxRetryAfter of the last attempt")
		assert.Equal(t, p.Statuses, got.Statuses, "Statuses of the last attempt")
		assert.True(t, got.PrivatePushback && got.Announce && got.Key.Honored, "what is switched on in the last attempt: %+v", got)
	})
}

// fields returns the names of the fields of a struct, those of structs in it with their path.
func fields(typ reflect.Type, prefix string) (names []string) {
	for f := range typ.Fields() {
		if f.Type.Kind() == reflect.Struct {
			names = append(names, fields(f.Type, prefix+f.Name+".")...)
		} else {
			names = append(names, prefix+f.Name)
		}
	}
	return names
}
