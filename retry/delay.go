package retry

import (
	"math/rand"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// schedule computes the waits of one intention. It is made when the first
// attempt has failed, and never shared.
type schedule struct {
	own       backoff.BackOff // the user's, in place of the other two
	normal    backoff.ExponentialBackOff
	throttled backoff.ExponentialBackOff
	limit     time.Duration
}

func newSchedule(p *Policy) schedule {
	if p.Backoff != nil {
		if own := p.Backoff(); own != nil {
			own.Reset()
			return schedule{own: own}
		}
	}
	return schedule{
		normal:    exponential(p.BaseDelay, p.MaxDelay, p.Jitter),
		throttled: exponential(p.ThrottleDelay, p.MaxDelay, p.Jitter),
		limit:     p.MaxDelay,
	}
}

// exponential makes a series whose bounds start at base and double up to limit.
// ExponentialBackOff spreads around its interval; taking a part of the bound
// as the interval makes the bound the top of the spread, so that the limit
// holds after jitter.
func exponential(base, limit time.Duration, j Jitter) backoff.ExponentialBackOff {
	interval, spread := 1.0, 0.0
	switch j {
	case FullJitter: // 1/2 ± 1/2
		interval, spread = 0.5, 1
	case EqualJitter: // 3/4 ± 1/4
		interval, spread = 0.75, 1.0/3
	}
	part := func(d time.Duration) time.Duration { // nearer to forever its arithmetic would overflow
		return max(1, time.Duration(float64(min(d, forever/2))*interval))
	}
	b := backoff.ExponentialBackOff{
		InitialInterval:     part(base),
		MaxInterval:         part(limit),
		RandomizationFactor: spread,
		Multiplier:          2,
		MaxElapsedTime:      0, // the loop has a deadline of its own
		Stop:                backoff.Stop,
		Clock:               backoff.SystemClock,
	}
	b.Reset()
	return b
}

// next returns the wait after one more failure; ok is false when the user's
// schedule has ended. Both series advance at each failure, so that a throttled
// answer late in a call does not start from the bottom.
func (s *schedule) next(throttled bool) (d time.Duration, ok bool) {
	if s.own != nil {
		d = s.own.NextBackOff()
		return d, d >= 0
	}
	d, t := s.normal.NextBackOff(), s.throttled.NextBackOff()
	if throttled {
		d = t
	}
	return min(max(0, d), s.limit), true
}

// withHint returns the wait that honours a server's hint: never earlier than
// the hint, and spread only upward, by up to a tenth of it and at most 1 s.
func withHint(delay, hint time.Duration, j Jitter) time.Duration {
	if hint <= 0 || delay > hint {
		return delay
	}
	if j == NoJitter {
		return hint
	}
	return saturatedAdd(hint, upTo(min(hint/10, time.Second)))
}

// upTo draws a duration from 0 to d.
func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rand.Int63n(int64(d) + 1))
}

func saturatedAdd(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a {
		return sum
	}
	return forever
}

const forever = time.Duration(1<<63 - 1)
