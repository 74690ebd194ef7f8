package retry

import (
	"time"

	"github.com/reintento/reintento/deadline"
)

// timeLeft reports how long the call may still take; ok is false without limit.
func (c *Call) timeLeft() (left time.Duration, ok bool) {
	left, ok = deadline.Remaining(c.ctx)
	if c.until != never {
		if own := -c.until.since(); !ok || own < left {
			left, ok = own, true
		}
	}
	return left, ok
}

// fits reports whether an attempt can follow a wait.
func (c *Call) fits(wait time.Duration) bool {
	left, ok := c.timeLeft()
	return !ok || wait < left
}

// isLate reports whether the time is over before an attempt begins. That of a
// call which has not begun yet cannot be, but where a request brings its end.
func (c *Call) isLate() bool {
	if c.began == 0 {
		if c.request.Following == nil && c.request.Until.IsZero() {
			left, ok := deadline.Remaining(c.ctx)
			return ok && left <= 0
		}
		c.start(present())
	}
	return !c.fits(0)
}

// nextDelay returns the delay after one more failure, not earlier than the
// callee's hint; ok is false when the user's schedule has ended.
func (c *Call) nextDelay() (wait time.Duration, ok bool) {
	t, v := c.inTrouble(), &c.last.Verdict
	if !t.scheduled {
		t.schedule, t.scheduled = newSchedule(c.policy), true
	}
	wait, ok = t.schedule.next(v.Throttled)
	return withHint(wait, v.RetryAfter, c.policy.Jitter), ok
}

// pauseBefore gives the last result up and waits for the next attempt.
func (c *Call) pauseBefore(w work, wait time.Duration) (stop error) {
	last, err := w.again()
	if err != nil {
		return err
	}
	c.trouble.lastErr, c.last.givenUp = last, true
	n := len(c.trouble.trials)
	failed := &c.trouble.trials[n-1]
	c.tell(Event{
		Kind: EventRetry, Attempt: n, Start: failed.Start, Duration: failed.Duration, Failed: true,
		Verdict: failed.Verdict, Status: failed.Status, Err: failed.Err, Wait: wait,
	})
	return c.sleep(wait)
}

// waitOut waits for the end of a pause, which all others wait for as well: so
// it leaves a random while later. There must be time left for an attempt then: a
// second, or a tenth of the wait if that is less.
func (c *Call) waitOut(left, length time.Duration) (stop error) {
	c.start(present())
	if !c.fits(saturatedAdd(left, min(time.Second, left/10))) || !c.state.pause.enter(c.state.budget.burst) {
		c.wait = left
		return ErrPushback
	}
	defer c.state.pause.leave()
	spread := max(time.Second, length/2)
	if rest, ok := c.timeLeft(); ok {
		spread = min(spread, (rest-left)/2)
	}
	return c.sleep(saturatedAdd(left, upTo(spread)))
}

// sleep waits for d, unless no attempt could follow: giving a result up and
// telling an observer take time as well. It returns why the call stops.
func (c *Call) sleep(d time.Duration) (stop error) {
	switch {
	case c.ctx.Err() != nil:
		return callerEnded(c.ctx)
	case !c.fits(d):
		return ErrDeadline
	}
	if d > 0 {
		t := c.inTrouble()
		if t.timer == nil {
			t.timer = time.NewTimer(d)
		} else {
			t.timer.Reset(d)
		}
		select {
		case <-t.timer.C:
		case <-c.ctx.Done():
			t.timer.Stop()
			return callerEnded(c.ctx)
		}
	}
	c.wait = 0 // it has been waited for
	if n := len(c.trials()); n > 0 {
		c.trouble.trials[n-1].Wait += d
	} else { // the first attempt is still to come
		c.trouble.paused += c.began.since()
		c.began = present()
	}
	return nil
}
