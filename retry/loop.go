package retry

import (
	"context"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
)

// work is what the loop repeats: a function, or the request of a transport.
type work interface {
	// try makes one attempt and says what it came to. now is the time, unless
	// there is no limit to keep.
	try(a *attempt, now time.Time) *Result
	// again makes ready for another attempt and gives the last result up.
	again() (last, err error)
	// look asks whether the intention was applied; nil means that it was, and
	// that the work holds the result.
	look(ctx context.Context, in Intention) error
}

// run is the loop: every repeat of this module is decided here. It returns nil
// if the work holds a result: a success, or a response that is final.
func (c *Call) run(w work) error {
	defer c.end()
	if c.outer != nil {
		c.tellSuppressed()
	}
	for {
		pass, stop := c.enter()
		if stop != nil {
			return c.fail(stop)
		}
		if c.attempt(w, &pass); !c.last.Failed {
			return c.succeed()
		}
		wait, stop := c.decide()
		if stop != nil && c.reconcilable(stop) {
			instead := stop
			var applied bool
			if applied, stop = c.reconcile(w, stop); applied {
				c.tellFound(instead)
				return c.succeed()
			}
			wait = 0 // that was before the lookup
		}
		if stop == nil {
			stop = c.pauseBefore(w, wait)
		}
		if stop != nil {
			return c.fail(stop)
		}
	}
}

// enter says whether an attempt may begin now, and stops the call if not: the
// caller has gone, there is no time, the destination is paused for too long, the
// key that made a repeat safe is forgotten by now, or the breaker is open.
func (c *Call) enter() (pass breaker.Pass, stop error) {
	switch {
	case c.ctx.Err() != nil:
		return pass, callerEnded(c.ctx)
	case c.isLate():
		return pass, ErrDeadline
	}
	for {
		left, length := c.state.pause.left()
		if left == 0 {
			break
		}
		if stop := c.waitOut(left, length); stop != nil {
			return pass, stop
		}
	}
	if c.inDoubt() && c.keyLost() {
		c.unknown = true
		return pass, ErrOutcomeUnknown
	}
	pass, err := c.state.breaker.Allow()
	if err != nil {
		c.wait = refusedUntil(err)
	}
	return pass, err
}

// attempt makes one attempt. The breaker learns its result in any case: a panic
// and a runtime.Goexit count as a failure.
func (c *Call) attempt(w work, pass *breaker.Pass) {
	defer pass.Settle(breaker.Failure)
	a, start := c.nextAttempt()
	defer a.mark.end()
	paid := c.taken
	c.taken = false
	r := w.try(a, start)

	c.last = r
	c.sent = narrow(int(c.sent) + int(narrow(r.Sends)))
	if r.Failed {
		c.correct(r)
	}
	if r.KeyIgnored {
		c.keys().ignore()
	}
	result := breaker.Success
	if r.Failed {
		result = breaker.ResultOf(r.Verdict)
		c.unknown = !r.Final && (c.unknown || r.Outcome == Unknown)
	}
	if paid && (!r.Failed || r.Well || neverSent(r.Verdict)) {
		c.state.budget.refund()
	}
	if !c.isRecorded() {
		pass.Settle(result)
		return
	}
	took := c.started().since()
	pass.Settle(result)
	c.note(r, start, took)
}

// decide says, after a failure, why the call stops, or how long it waits.
func (c *Call) decide() (wait time.Duration, stop error) {
	v := &c.last.Verdict
	c.wait = v.RetryAfter
	switch {
	case c.ctx.Err() != nil:
		return 0, callerEnded(c.ctx)
	case v.Class == classify.Permanent:
		return 0, ErrPermanent
	case !c.fits(0):
		return 0, ErrDeadline
	case v.Class == classify.Ambiguous && !v.Repeatable && !c.declaredRepeatable(), c.unknown && c.keyLost():
		return 0, ErrOutcomeUnknown
	}
	if stop = c.afford(); stop != nil {
		return 0, stop
	}
	return c.delay()
}

// afford pays for one more attempt, or says why there cannot be one.
func (c *Call) afford() (stop error) {
	if c.last.Stop != nil {
		return c.last.Stop
	}
	if int(c.sent) >= c.limit() {
		return ErrAttempts
	}
	if c.taken = c.state.budget.take(); !c.taken {
		return ErrBudget
	}
	return nil
}

// delay says how long to wait before the next attempt, or why none could follow
// the wait.
func (c *Call) delay() (wait time.Duration, stop error) {
	if c.last.Verdict.RetryAfter > c.policy.MaxRetryAfter {
		return 0, ErrPushback
	}
	wait, ok := c.nextDelay()
	switch {
	case !ok:
		return 0, ErrAttempts
	case !c.fits(wait):
		return 0, ErrDeadline
	}
	if at := c.state.breaker.RetryAt(); !at.IsZero() && time.Until(at) > wait {
		c.wait = time.Until(at)
		return 0, &breaker.OpenError{Name: c.dest.name, RetryAt: at}
	}
	return wait, nil
}
