package deadline

import (
	"context"
	"time"
)

// ErrNoTime is what [Sleep] returns when it refuses a wait that could not end before the deadline. It says that
// nothing was waited for, not that the context has ended.
//
// errors.Is(ErrNoTime, context.DeadlineExceeded) holds, so code that asks for an exceeded deadline need not know this
// package, and its method Timeout() bool returns true. The reverse does not hold: a context.DeadlineExceeded from
// elsewhere is not an ErrNoTime.
var ErrNoTime error = noTime{}

type noTime struct{}

func (noTime) Error() string        { return "deadline: the wait would not end before the context's deadline" }
func (noTime) Is(target error) bool { return target == context.DeadlineExceeded }
func (noTime) Timeout() bool        { return true }

// Sleep waits for the duration d, or returns earlier:
//
//   - at once with context.Cause(ctx) if ctx has ended, whatever d is;
//   - at once with [ErrNoTime] if the deadline of ctx is not after the end of the wait, because nothing could follow it;
//   - with context.Cause(ctx) as soon as ctx ends during the wait.
//
// A d of 0 or below waits for nothing, but is checked in the same way. A nil error means that the whole of d has passed
// and ctx had not ended then. No timer and no goroutine is left behind on any path.
func Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !Fits(ctx, d, 0) {
		return ErrNoTime
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
	}
	// With both channels ready, select takes either of them.
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
