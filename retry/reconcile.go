package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reintento/reintento/classify"
)

// ErrNotApplied is what a lookup given to [Reconcile] returns when the
// intention was not applied and cannot be applied any more by what was sent.
var ErrNotApplied = errors.New("not applied")

// Reconcile lets a call ask whether its intention was applied, when it would
// otherwise have to end with an unknown outcome. The lookup runs after the
// delay, within the deadline, without mark or key, and not where the caller has
// gone, the time is over or the callee asked to be left alone. What it returns
// with a nil error is the result of the call. [ErrNotApplied] says that the
// intention was not applied and cannot be any more: because it was fenced or
// cancelled at the callee. Only then may the operation go again. A plain "not
// found" just after a lost answer may mean "not yet"; it and every other error
// leave the outcome unknown.
//
// T must be the result type of the operation; [Destination.Do] has struct{}.
// Another type, and a nil lookup, are an error before the first attempt.
func Reconcile[T any](lookup func(context.Context, Intention) (T, error)) CallOption {
	return CallOption{lookup: lookup}
}

// reconcilable reports whether a lookup is there, and could tell more than is
// known.
func (c *Call) reconcilable(stop error) bool {
	return c.hasLookup && c.unknown && c.ctx.Err() == nil && stop != ErrDeadline && stop != ErrPushback &&
		c.last.Verdict.RetryAfter <= c.policy.MaxRetryAfter
}

// reconcile finds out, after the delay, whether the intention was applied: then
// the work holds the result. A nil error without that means that another
// attempt may follow; any other is why the call stops.
func (c *Call) reconcile(w work, stop error) (applied bool, _ error) {
	wait, ok := c.nextDelay()
	if !ok || !c.fits(wait) {
		return false, stop
	}
	if err := c.sleep(wait); err != nil {
		return false, err
	}
	err := c.lookUp(w)
	switch {
	case err == nil:
		return true, nil
	case !errors.Is(err, ErrNotApplied):
		if c.ctx.Err() != nil {
			stop = callerEnded(c.ctx)
		}
		return false, fmt.Errorf("%w; the lookup failed: %w", stop, err)
	}
	c.unknown = false
	c.last.Outcome = NotApplied
	if stop != ErrOutcomeUnknown {
		return false, stop
	}
	// The only obstacle is gone.
	c.last.Verdict.Class = classify.Retryable
	return false, c.afford()
}

// lookUp calls the lookup within the time of an attempt, without mark or key.
func (c *Call) lookUp(w work) error {
	ctx := context.Context(unmarked{c.ctx})
	if now := time.Now(); c.isLimited() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.attemptEnd(at(now)).time(now))
		defer cancel()
	}
	return w.look(ctx, c.intention())
}
