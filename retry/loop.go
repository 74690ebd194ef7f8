package retry

import (
	"context"
	"errors"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/deadline"
)

// work is what the loop repeats: a function, or the request of a transport.
type work interface {
	// try makes one attempt and says what it came to.
	try(a *attempt) Result
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
			if stop = c.reconcile(w, stop); stop == nil {
				return c.succeed()
			} else if stop == errGoAgain {
				wait, stop = 0, nil
			}
		}
		if stop != nil {
			return c.fail(stop)
		}
		if stop = c.pauseBefore(w, wait); stop != nil {
			return c.fail(stop)
		}
	}
}

// enter says whether an attempt may begin now, and stops the call if not: the
// caller has gone, there is no time, the destination is paused for too long, or
// its breaker is open.
func (c *Call) enter() (pass breaker.Pass, stop error) {
	if c.ctx.Err() != nil {
		return pass, callerEnded(c.ctx)
	}
	if (c.sent > 0 || c.request.Following != nil) && !c.fits(0) {
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
	pass, err := c.state.breaker.Allow()
	if err != nil {
		c.wait = refusedUntil(err)
	}
	return pass, err
}

// waitOut waits for the end of a pause, which all others wait for as well: so
// it leaves a random while later.
func (c *Call) waitOut(left, length time.Duration) error {
	if !c.fits(left) || !c.state.pause.enter(c.policy.Budget.Burst) {
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

// attempt makes one attempt. The breaker learns its result in any case: a panic
// and a runtime.Goexit count as a failure.
func (c *Call) attempt(w work, pass *breaker.Pass) {
	defer pass.Settle(breaker.Failure)
	a := c.nextAttempt()
	defer a.mark.over.Store(true)

	c.attemptStart = c.start
	if c.sent > 0 {
		c.attemptStart = time.Now()
	}
	c.ring.sent(c.attemptStart)
	c.sent++
	paid := c.taken
	c.taken = false
	c.lastErr = nil
	c.last = w.try(a)

	r := &c.last
	c.sent += r.Sends
	c.resends += r.Resends
	if c.trials != nil || r.Failed || c.opts.Observer != nil {
		c.duration = time.Since(c.attemptStart)
	}
	if !c.isRequest {
		calls, writes, untrusted, _ := a.ledger.seen()
		c.calls, c.writes, c.untrusted = c.calls+calls, c.writes+writes, c.untrusted || untrusted
	}
	if r.Failed && r.Err != nil && c.ctx.Err() != nil {
		r.Verdict.Origin, r.Verdict.Reason = classify.Caller, "canceled"
		r.Well = false
	}
	result := breaker.Success
	if r.Failed {
		result = breaker.ResultOf(r.Verdict)
		c.unknown = !r.Final && (c.unknown || r.Outcome == Unknown)
	}
	pass.Settle(result)
	if paid && (!r.Failed || r.Well) {
		c.state.budget.refund()
	}
	if c.trials != nil || r.Failed {
		c.trials = append(c.trials, c.record(r))
	}
	if c.opts.Observer != nil {
		c.tell(Event{
			Kind: EventAttempt, Attempt: max(1, len(c.trials)), Start: c.attemptStart, Duration: c.duration, Failed: r.Failed,
			Verdict: r.Verdict, Status: r.Status, Err: r.Err, Connections: r.Connections, Resends: r.Resends,
		})
	}
	if r.Pushback > 0 && !c.policy.PrivatePushback {
		pause := min(r.Pushback, c.policy.MaxRetryAfter)
		c.state.pause.extend(pause)
		c.tell(Event{Kind: EventPushback, Attempt: len(c.trials), Verdict: r.Verdict, Status: r.Status, Wait: pause})
	}
}

// decide says, after a failure, why the call stops, or how long it waits.
func (c *Call) decide() (wait time.Duration, stop error) {
	r := &c.last
	v := &r.Verdict
	c.wait = v.RetryAfter
	switch {
	case c.ctx.Err() != nil:
		return 0, callerEnded(c.ctx)
	case v.Class == classify.Permanent:
		return 0, ErrPermanent
	case !c.fits(0):
		return 0, ErrDeadline
	case v.Class == classify.Ambiguous && !v.Repeatable && !c.declaredRepeatable():
		return 0, ErrOutcomeUnknown
	case r.Stop != nil:
		return 0, r.Stop
	}
	return c.afford()
}

// declaredRepeatable reports whether the caller said that the operation may be
// repeated although it may have had its effect.
func (c *Call) declaredRepeatable() bool {
	return !c.isRequest && (c.safety == Idempotent || c.safety == Keyed && c.keyValid())
}

// afford says how long to wait before one more attempt, which it pays for, or
// why there cannot be one.
func (c *Call) afford() (wait time.Duration, stop error) {
	if c.sent >= c.limit {
		if c.suppressed() {
			c.tellSuppressed()
		}
		return 0, ErrAttempts
	}
	if c.taken = c.state.budget.take(); !c.taken {
		return 0, ErrBudget
	}
	if c.sched == nil {
		c.sched = newSchedule(c.policy)
	}
	v := &c.last.Verdict
	if v.RetryAfter > c.policy.MaxRetryAfter {
		return 0, ErrPushback
	}
	delay, ok := c.sched.next(v.Throttled)
	if !ok {
		return 0, ErrAttempts
	}
	wait = withHint(delay, v.RetryAfter, c.policy.Jitter)
	if !c.fits(wait) {
		return 0, ErrDeadline
	}
	if at := c.state.breaker.RetryAt(); c.state.breaker.State() == breaker.Open && time.Until(at) > wait {
		c.wait = time.Until(at)
		return 0, &breaker.OpenError{Name: c.dest.name, RetryAt: at}
	}
	return wait, nil
}

// pauseBefore gives the last result up and waits for the next attempt.
func (c *Call) pauseBefore(w work, wait time.Duration) (stop error) {
	last, err := w.again()
	if err != nil {
		return err
	}
	if last != nil {
		c.lastErr = last
	}
	c.last.givenUp = true
	c.trials[len(c.trials)-1].Wait = wait
	c.tell(Event{
		Kind: EventRetry, Attempt: len(c.trials), Start: c.attemptStart, Duration: c.duration, Failed: true,
		Verdict: c.last.Verdict, Status: c.last.Status, Err: c.last.Err, Wait: wait,
	})
	return c.sleep(wait)
}

func (c *Call) sleep(d time.Duration) error {
	err := deadline.Sleep(c.ctx, d)
	switch {
	case err == nil:
		return nil
	case c.ctx.Err() != nil:
		return callerEnded(c.ctx)
	}
	return ErrDeadline
}

// errGoAgain is what a lookup found: the operation did not happen and cannot
// happen any more, so that it may go again.
var errGoAgain = errors.New("go again")

// reconcilable reports whether a lookup is there, and could tell more than is
// known.
func (c *Call) reconcilable(stop error) bool {
	return c.lookup != nil && c.unknown && c.ctx.Err() == nil && stop != ErrDeadline && stop != ErrPushback
}

// reconcile finds out, after the delay, whether the intention was applied. nil
// means that it was and that the work holds the result. errGoAgain means that
// another attempt may follow. Any other error is why the call stops.
func (c *Call) reconcile(w work, stop error) error {
	if c.sched == nil {
		c.sched = newSchedule(c.policy)
	}
	wait, ok := c.sched.next(c.last.Verdict.Throttled)
	if wait = withHint(wait, c.last.Verdict.RetryAfter, c.policy.Jitter); !ok || !c.fits(wait) {
		return stop
	}
	if err := c.sleep(wait); err != nil {
		return err
	}
	err := c.lookUp(w)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrNotApplied):
		return errors.Join(stop, err)
	}
	c.unknown = false
	c.last.Outcome = NotApplied
	if stop != ErrOutcomeUnknown {
		return stop
	}
	// The only obstacle is gone.
	c.last.Verdict.Class = classify.Retryable
	if c.last.Stop != nil {
		return c.last.Stop
	}
	if _, stop = c.afford(); stop != nil {
		return stop
	}
	return errGoAgain
}

// lookUp calls the lookup within the time of an attempt, without mark or key.
func (c *Call) lookUp(w work) error {
	ctx := context.Context(unmarked{c.ctx})
	end := c.until
	if t := c.policy.AttemptTimeout; t > 0 {
		if at := time.Now().Add(t); end.IsZero() || at.Before(end) {
			end = at
		}
	}
	if !end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	return w.look(ctx, c.intention())
}

// succeed ends a call that has its result.
func (c *Call) succeed() error {
	c.outcome = Applied
	if c.sent == 1 && (!c.suppressed() || c.outer.number == 1) {
		c.state.budget.reward()
	}
	if c.suppressed() {
		c.tellSuppressed()
	}
	c.enterOutcome(false)
	return nil
}

// fail ends a call that stops. It returns nil where the work still holds a
// response: that is the caller's then, and the report says the rest.
func (c *Call) fail(stop error) error {
	c.stop = stop
	c.outcome = c.known()
	c.enterOutcome(true)
	attempts := len(c.trials)
	if c.opts.Observer != nil {
		e := Event{Kind: EventStop, Attempt: attempts, Start: c.start, Duration: time.Since(c.start), Failed: true, Stop: stop, Outcome: c.outcome, Wait: c.wait}
		if attempts > 0 {
			e.Verdict, e.Status, e.Err = c.last.Verdict, c.last.Status, c.last.Err
		}
		c.tell(e)
	}
	if attempts > 0 && c.last.Err == nil && !c.last.givenUp {
		return nil
	}
	last := c.last.Err
	if c.lastErr != nil {
		last = c.lastErr
	}
	return &Error{
		Destination: c.dest.name, Operation: c.operation, Intention: c.intention(), Outcome: c.outcome,
		Stop: stop, Last: last, Attempts: c.trials, RetryAfter: c.wait,
		elapsed: time.Since(c.start), verdict: c.verdict(),
	}
}

// known is what is known of the intention when the call stops.
func (c *Call) known() Outcome {
	switch {
	case c.isRequest && c.request.Read:
		return NotApplied
	case c.unknown:
		return Unknown
	case len(c.trials) == 0:
		return NotApplied
	}
	return c.last.Outcome
}

// verdict is what the stop means to a layer around.
func (c *Call) verdict() classify.Verdict {
	v := c.last.Verdict
	switch {
	case c.ctx.Err() != nil:
		v.Origin, v.Reason = classify.Caller, "canceled"
		if c.known() == NotApplied {
			v.Class = classify.Retryable
		}
	case errors.Is(c.stop, breaker.ErrOpen):
		v = classify.Error(breaker.ErrOpen)
	case c.stop == ErrPushback && c.suppressed():
		v = classify.Verdict{Class: classify.Retryable, Origin: classify.Local, Reason: "pushback", RetryAfter: c.wait, Throttled: true}
	case !c.suppressed():
		v.Class, v.Repeatable = classify.Permanent, false
	}
	if c.unknown && c.suppressed() && v.Class != classify.Ambiguous {
		v.Class = classify.Ambiguous
	}
	return v
}

// enterOutcome tells the attempt around what this call did.
func (c *Call) enterOutcome(failed bool) {
	if c.outer == nil || c.outer.ledger == nil {
		return
	}
	e := entry{failed: failed, outcome: c.outcome}
	if failed {
		e.verdict, e.final = c.verdict(), c.last.Final
	}
	switch {
	case c.isRequest:
		e.write, e.trusted = !c.request.Read, c.trust() != Unsafe
	case c.calls > 0:
		e.write, e.trusted = c.writes > 0, c.safety != Unsafe || !c.untrusted
	default:
		e.write, e.trusted = true, c.safety != Unsafe
	}
	c.outer.ledger.enter(e)
}

// tellSuppressed says, once in each attempt of the layer above, that this layer
// leaves repeating to it.
func (c *Call) tellSuppressed() {
	if c.opts.Observer == nil || c.outer.ledger != nil && !c.outer.ledger.tell(c.state) {
		return
	}
	c.tell(Event{Kind: EventLayerSuppressed, Attempt: c.outer.number})
}

// end gives back what the call still holds, whichever way it ends.
func (c *Call) end() {
	if c.taken {
		c.state.budget.refund()
	}
	if c.takenFrom != nil {
		c.takenFrom.release(c.outer, c.what())
	}
	c.state.leave()
}
