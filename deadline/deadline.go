// Package deadline answers one question: is there still time?
//
// A [context.Context] says when everything has to be over. What a caller wants to know is smaller: how much is left
// ([Remaining]), whether a wait and the work behind it still end in time ([Fits]), a wait that does not begin when it
// could only end too late ([Sleep]), and how to tell a callee on the other side of a network how long its answer is
// wanted ([Header], [Format], [Parse]).
//
// Times are differences of values of [time.Now], so they follow the monotonic clock: a step of the wall clock neither
// lengthens nor ends anything. The one exception is a context whose deadline was computed from a wall-clock value
// (read from a file, say); such a deadline has no monotonic reading to follow.
//
// All functions may be called by any number of goroutines at once.
package deadline

import (
	"context"
	"time"
)

// Remaining returns the time until the deadline of ctx. It is never negative: 0 means that the deadline has passed. ok
// is false, and d is 0, if ctx has no deadline.
//
// A cancelled context keeps its deadline; ask ctx.Err whether it has ended.
func Remaining(ctx context.Context) (d time.Duration, ok bool) {
	end, ok := ctx.Deadline()
	if !ok {
		return 0, false
	}
	return max(time.Until(end), 0), true
}

// Fits reports whether there is time to wait for the duration wait and then to do something of length need: whether
// the deadline of ctx lies after the end of both. Ending exactly at the deadline is too late, for the context ends in
// that moment too. Negative values count as 0; a sum of any size is understood.
//
// Without a deadline everything fits. Fits speaks of time only: a context that was cancelled before its deadline is
// found by [Sleep], or by asking ctx.Err.
func Fits(ctx context.Context, wait, need time.Duration) bool {
	left, ok := Remaining(ctx)
	if !ok {
		return true
	}
	// The two are subtracted one after the other: their sum may be more than a Duration can hold.
	left -= max(wait, 0)
	return left > max(need, 0)
}
