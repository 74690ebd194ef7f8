package breaker_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/breaker"
)

func TestValidateAccepts(t *testing.T) {
	for _, s := range []breaker.Settings{
		{},
		{Disabled: true},
		{Window: time.Millisecond, MinResults: 1, FailureRatio: math.SmallestNonzeroFloat64, OpenFor: time.Millisecond, MaxOpenFor: time.Millisecond, Probes: 1},
		{Window: 24 * time.Hour, MinResults: 1_000_000, FailureRatio: 1, OpenFor: 24 * time.Hour, MaxOpenFor: 24 * time.Hour, Probes: 1_000_000},
		{OpenFor: 2 * time.Minute},
		{MaxOpenFor: 5 * time.Second},
		{OpenFor: time.Second, MaxOpenFor: 2 * time.Second},
	} {
		if err := s.Validate(); err != nil {
			t.Errorf("Validate(%+v) = %v, want nil", s, err)
		}
		if b, err := breaker.New("payments", s, nil); b == nil || err != nil {
			t.Errorf("New(%+v) = %v, %v, want a breaker", s, b, err)
		}
	}
}

// B155: zero or negative timeout silently replaced or instantly expired: a negative open period silently became 60 s.
// Breaker Timeout = 0 and -1. Zero is the documented default; negatives are errors.
// B154: nonsense combinations panic later, inside the first outage: reject at construction with a clear error.
func TestValidateRejects(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    breaker.Settings
		want []string // one problem each
	}{
		{"a negative window", breaker.Settings{Window: -1}, []string{"Window is -1ns: allowed is 0 (the default) or 1ms to 24h0m0s"}},
		{"a window too short", breaker.Settings{Window: time.Millisecond - 1}, []string{"Window is 999.999µs: allowed is 0 (the default) or 1ms to 24h0m0s"}},
		{"a window too long", breaker.Settings{Window: math.MaxInt64}, []string{"Window is 2562047h47m16.854775807s: allowed is 0 (the default) or 1ms to 24h0m0s"}},
		{"negative results", breaker.Settings{MinResults: -1}, []string{"MinResults is -1: allowed is 0 (the default) or 1 to 1000000"}},
		{"too many results", breaker.Settings{MinResults: 1_000_001}, []string{"MinResults is 1000001: allowed is"}},
		{"a negative ratio", breaker.Settings{FailureRatio: -0.1}, []string{"FailureRatio is -0.1: allowed is 0 (the default) or above 0 to 1"}},
		{"a ratio in percent", breaker.Settings{FailureRatio: 50}, []string{"FailureRatio is 50: allowed is"}},
		{"no number", breaker.Settings{FailureRatio: math.NaN()}, []string{"FailureRatio is NaN: allowed is"}},
		{"infinity", breaker.Settings{FailureRatio: math.Inf(1)}, []string{"FailureRatio is +Inf: allowed is"}},
		{"open for less than nothing", breaker.Settings{OpenFor: -1}, []string{"OpenFor is -1ns: allowed is 0 (the default) or 1ms to 24h0m0s"}},
		{"open for too short", breaker.Settings{OpenFor: 1}, []string{"OpenFor is 1ns: allowed is"}},
		{"open for too long", breaker.Settings{OpenFor: 25 * time.Hour}, []string{"OpenFor is 25h0m0s: allowed is"}},
		{"a negative limit", breaker.Settings{MaxOpenFor: -1}, []string{"MaxOpenFor is -1ns: allowed is 0 (the default) or 1ms to 24h0m0s"}},
		{"a limit below", breaker.Settings{OpenFor: time.Minute, MaxOpenFor: time.Second}, []string{"MaxOpenFor is 1s: allowed is 0 (the default) or at least OpenFor, which is 1m0s"}},
		{"a limit below the default", breaker.Settings{MaxOpenFor: time.Second}, []string{"MaxOpenFor is 1s: allowed is 0 (the default) or at least OpenFor, which is 5s"}},
		{"negative probes", breaker.Settings{Probes: -1}, []string{"Probes is -1: allowed is 0 (the default) or 1 to 1000000"}},
		{"too many probes", breaker.Settings{Probes: math.MaxInt}, []string{"Probes is 9223372036854775807: allowed is"}},
		{"disabled, but wrong", breaker.Settings{Disabled: true, Probes: -1}, []string{"Probes is -1: allowed is"}},
		{"all at once", breaker.Settings{
			Window: -1, MinResults: -2, FailureRatio: -3, OpenFor: -4, MaxOpenFor: -5, Probes: -6,
		}, []string{"Window is -1ns", "MinResults is -2", "FailureRatio is -3", "OpenFor is -4ns", "MaxOpenFor is -5ns", "Probes is -6"}},
	} {
		err := tt.s.Validate()
		if err == nil {
			t.Errorf("%s: Validate(%+v) = nil, want an error", tt.name, tt.s)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(tt.want) {
			t.Errorf("%s: Validate: %q, want %d problems", tt.name, lines, len(tt.want))
			continue
		}
		for i, want := range tt.want {
			if !strings.HasPrefix(lines[i], "breaker: "+want) {
				t.Errorf("%s: Validate: %q, want %q", tt.name, lines[i], "breaker: "+want)
			}
		}
		if b, err := breaker.New("payments", tt.s, nil); b != nil || err == nil {
			t.Errorf("%s: New = %v, %v, want nil and the error", tt.name, b, err)
		}
	}
}

// New never panics, an error is Validate's, and what New accepts works: it opens no later than after the results that
// it asks for, stays open within its limits, and closes after its probes.
func FuzzSettings(f *testing.F) {
	f.Add(int64(0), 0, 0.0, int64(0), int64(0), 0, false)
	f.Add(int64(time.Millisecond), 1, 1.0, int64(time.Millisecond), int64(time.Millisecond), 1, false)
	f.Add(int64(24*time.Hour), 1000, 0.001, int64(24*time.Hour), int64(0), 1000, false)
	f.Add(int64(-1), -1, math.NaN(), int64(math.MinInt64), int64(math.MaxInt64), math.MinInt, true)
	f.Add(int64(time.Millisecond+1), 7, 0.7, int64(time.Second), int64(time.Second+1), 2, false)
	f.Fuzz(func(t *testing.T, window int64, minResults int, ratio float64, openFor, maxOpenFor int64, probes int, disabled bool) {
		s := breaker.Settings{
			Window: time.Duration(window), MinResults: minResults, FailureRatio: ratio,
			OpenFor: time.Duration(openFor), MaxOpenFor: time.Duration(maxOpenFor), Probes: probes, Disabled: disabled,
		}
		synctest.Test(t, func(t *testing.T) {
			b, err := breaker.New("fuzzed", s, nil)
			if invalid := s.Validate() != nil; invalid != (err != nil) || invalid != (b == nil) {
				t.Fatalf("New(%+v) = %v, %v, but Validate = %v", s, b, err, s.Validate())
			}
			if err != nil {
				return
			}
			give := func(n int, r breaker.Result) {
				for range n {
					p, err := b.Allow()
					if err != nil {
						t.Fatalf("%+v: Allow() = %v", s, err)
					}
					p.Settle(r)
				}
			}
			orDefault := func(n, value int) int {
				if n == 0 {
					return value
				}
				return n
			}
			minResults, probes := orDefault(minResults, 20), orDefault(probes, 3)
			if minResults > 2000 || probes > 2000 {
				return // valid, but too slow to try
			}
			give(minResults-1, breaker.Failure)
			if b.State() != breaker.Closed {
				t.Fatalf("%+v: open after %d failures", s, minResults-1)
			}
			give(1, breaker.Failure)
			if disabled {
				if b.State() != breaker.Closed {
					t.Fatalf("%+v: open although disabled", s)
				}
				return
			}
			if b.State() != breaker.Open {
				t.Fatalf("%+v: %v after %d failures", s, b.State(), minResults)
			}
			length := s.OpenFor
			if length == 0 {
				length = 5 * time.Second
			}
			limit := s.MaxOpenFor
			if limit == 0 {
				limit = max(time.Minute, length)
			}
			for range 3 {
				got := time.Until(b.RetryAt())
				if low, high := length-length/5, min(length+length/5, limit); got < low || got > high {
					t.Fatalf("%+v: open for %v, want %v to %v", s, got, low, high)
				}
				time.Sleep(got)
				give(1, breaker.Failure)
				length = min(2*length, limit)
			}
			time.Sleep(time.Until(b.RetryAt()))
			give(probes, breaker.Success)
			if b.State() != breaker.Closed {
				t.Fatalf("%+v: %v after %d good probes", s, b.State(), probes)
			}
		})
	})
}
