package retry

import (
	"math"
	"testing"
	"time"
)

// B73: doubling or shifting past int64: after some dozens of attempts the delay wraps negative or zero and the loop
// spins. base 30 s, factor 2, cap 1 min, attempts 0..200: every delay in (0, cap].
// B76: jitter added after the cap: base = cap = 1 s; 1000 draws; max <= 1 s. Cap the final value, keeping spread.
// B77: random bound of zero panics: jitter 0, a 1 ns base, max 1 ns.
//
// From inside, since no clock can wait for these delays.
func TestEveryDelayLiesWithinItsBounds(t *testing.T) {
	for _, tt := range []struct{ base, limit time.Duration }{
		{30 * time.Second, time.Minute},
		{time.Second, time.Second},
		{1, 1},
		{1, 2},
		{1, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64},
		{math.MaxInt64/2 + 1, math.MaxInt64 - 1},
	} {
		for _, jitter := range []Jitter{FullJitter, EqualJitter, NoJitter} {
			s := newSchedule(&Policy{BaseDelay: tt.base, ThrottleDelay: tt.base, MaxDelay: tt.limit, Jitter: jitter})
			low := time.Duration(0) // the lowest that the series may come to
			switch jitter {
			case EqualJitter:
				low = min(tt.base, forever/2)/2 - 1
			case NoJitter:
				low = min(tt.base, forever/2)
			}
			for i := range 1000 {
				d, ok := s.next(i%2 == 0)
				if !ok || d < max(0, low) || d > tt.limit {
					t.Fatalf("base %v, limit %v, jitter %v: delay %d is %v, %v, want %v to the limit", tt.base, tt.limit, jitter, i+1, d, ok, low)
				}
			}
		}
	}
}

func TestAHintNeverShortensAWait(t *testing.T) {
	for _, tt := range []struct{ delay, hint time.Duration }{
		{0, 0}, {5, 3}, {3, 5}, {0, math.MaxInt64}, {math.MaxInt64, 1}, {math.MaxInt64, math.MaxInt64}, {1, math.MaxInt64 - 1}, {time.Second, -1},
	} {
		for _, jitter := range []Jitter{FullJitter, EqualJitter, NoJitter} {
			for range 100 {
				if d := withHint(tt.delay, tt.hint, jitter); d < tt.delay || d < tt.hint {
					t.Fatalf("withHint(%v, %v, %v) = %v", tt.delay, tt.hint, jitter, d)
				}
			}
		}
	}
}
