package retry

import (
	"sync/atomic"
	"time"
)

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

// anchor is a reading of both clocks, by which instants become times.
var anchor atomic.Pointer[time.Time]

// time returns the moment as a time.Time, given the present one: by what the wall
// clock says now, not by what it said when the process began. As long as nobody
// sets that clock, an instant is the same time to the nanosecond, whenever it is
// asked for. It is the zero Time for never.
func (i instant) time(now time.Time) time.Time {
	if i == never {
		return time.Time{}
	}
	a := anchor.Load()
	if a == nil || apart(*a, now) > time.Millisecond {
		fresh := now // so that now itself stays off the heap
		a = &fresh
		anchor.Store(a)
	}
	return a.Add(time.Duration(i - at(*a)))
}

// apart returns by how much the wall clock has moved more or less than the other
// one from a to b.
func apart(a, b time.Time) time.Duration { return (b.Round(0).Sub(a.Round(0)) - b.Sub(a)).Abs() }
