package retry

import "time"

// instant is a moment on the monotonic clock of the process, in nanoseconds; 0
// stands for none. A call holds its times so: they take a third of the room of a
// time.Time, and reading the clock takes half of the time.
type instant int64

// never is the end of what has none.
const never = instant(forever)

// origin is what instants count from. It is 1 itself.
var origin = time.Now()

func present() instant { return instant(time.Since(origin)) + 1 }

// at returns the instant of a time that was read from the clock.
func at(t time.Time) instant { return instant(t.Sub(origin)) + 1 }

// after returns the moment d after i, and never if it cannot be told. d is not negative.
func (i instant) after(d time.Duration) instant { return instant(saturatedAdd(time.Duration(i), d)) }

// since returns how long ago i was.
func (i instant) since() time.Duration { return time.Duration(present() - i) }

// time returns the moment as a time.Time, given the present one: with what the
// wall clock says now, not what it said when the process began. It is the zero
// Time for never.
func (i instant) time(now time.Time) time.Time {
	if i == never {
		return time.Time{}
	}
	return now.Add(time.Duration(i - at(now)))
}
