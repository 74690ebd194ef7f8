package retry

import (
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
)

// Outcome is what is known of a whole intention at its end. The zero value is
// [Unknown]: where nothing is proved, it may have happened.
type Outcome uint8

const (
	// Unknown means that the intention may have been applied.
	Unknown Outcome = iota
	// Applied means that the callee said it did it, or, of a read, that it
	// succeeded.
	Applied
	// NotApplied means that no attempt had an effect, or that there was none to
	// have: the outcome of a read is never Unknown.
	NotApplied
)

// String returns "unknown", "applied" or "not applied".
func (o Outcome) String() string {
	switch o {
	case Unknown:
		return "unknown"
	case Applied:
		return "applied"
	case NotApplied:
		return "not applied"
	}
	return "invalid"
}

// succeed ends a call that has its result.
func (c *Call) succeed() error {
	c.outcome = Applied
	if !c.last.Failed && c.sent == 1 && (!c.suppressed() || c.outer.number == 1) {
		c.state.budget.reward()
	}
	c.enterOutcome(false)
	return nil
}

// tellFound says that a lookup found the intention applied, where the call would
// have stopped.
func (c *Call) tellFound(stop error) {
	if c.opts.Observer != nil {
		c.tell(Event{
			Kind: EventStop, Attempt: len(c.trials), Start: c.start, Duration: time.Since(c.start), Verdict: c.last.Verdict,
			Status: c.last.Status, Err: c.last.Err, Stop: stop, Outcome: Applied,
		})
	}
}

// fail ends a call that stops. It returns nil where the work still holds a
// response: that is the caller's then, and the report says the rest.
func (c *Call) fail(stop error) error {
	c.stop = stop
	c.outcome = c.known()
	c.enterOutcome(true)
	attempts := len(c.trials)
	if c.opts.Observer != nil {
		c.tell(Event{
			Kind: EventStop, Attempt: attempts, Start: c.start, Duration: time.Since(c.start), Failed: true, Verdict: c.last.Verdict,
			Status: c.last.Status, Err: c.last.Err, Stop: stop, Outcome: c.outcome, Wait: c.wait,
		})
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
		elapsed: c.now().Sub(c.start), verdict: c.verdict(), safety: c.repeats(), inner: c.suppressed(),
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

// verdict is what the stop means to a layer around. One that makes its one
// attempt for an outer layer says what that attempt proved; one that repeated by
// itself has done what can be done.
func (c *Call) verdict() classify.Verdict {
	v := c.last.Verdict
	if c.sent == 0 { // only time can have stopped that
		v = classify.Verdict{Class: classify.Retryable, Origin: classify.Local, Reason: "timeout"}
	}
	open, refused := c.stop.(*breaker.OpenError)
	switch {
	case c.ctx.Err() != nil:
		v.Origin, v.Reason = classify.Caller, "canceled"
	case c.sent == 0 && c.stop == ErrOutcomeUnknown: // of an earlier attempt or hop
		v = classify.Verdict{Reason: "unknown"}
	case refused:
		v = open.Verdict()
		v.RetryAfter = c.wait
	case c.sent == 0 && c.stop == ErrPushback:
		v = classify.Verdict{Class: classify.Retryable, Origin: classify.Local, Reason: "pushback", RetryAfter: c.wait, Throttled: true}
	}
	switch {
	case !c.suppressed():
		if c.ctx.Err() == nil {
			v.Class, v.Repeatable = classify.Permanent, false
		}
	case c.isRequest:
		if c.unknown && v.Class == classify.Retryable { // of an earlier hop it is not known
			v.Class = classify.Ambiguous
		}
	case v.Class == classify.Ambiguous:
		v.Repeatable = v.Repeatable || c.declaredRepeatable()
	}
	return v
}

// enterBeginning tells the attempt around that a write begins. It is false if
// that attempt is over.
func (c *Call) enterBeginning() bool {
	l := c.book()
	if l == nil || c.isRequest && c.request.Read {
		return true
	}
	c.trusted = c.safety != Unsafe
	if c.isRequest {
		c.trusted = c.trust() != Unsafe
	}
	c.opened = l.begin(c.trusted)
	return c.opened
}

// enterOutcome tells the attempt around what this call did.
func (c *Call) enterOutcome(failed bool) {
	c.entered = true
	l := c.book()
	if l == nil {
		return
	}
	if r := c.ring.Load(); r != nil && c.outcome != NotApplied {
		r.doubt()
	}
	e := entry{failed: failed, outcome: c.outcome}
	if failed {
		e.verdict, e.final = c.verdict(), c.last.Final
	}
	switch {
	case c.isRequest:
		e.write, e.trusted = !c.request.Read, c.trust() != Unsafe
	case c.below != nil && c.below.calls > 0:
		e.write, e.trusted = c.below.applied > 0, c.safety != Unsafe || !c.below.untrusted
	default:
		e.write, e.trusted = true, c.safety != Unsafe
	}
	l.enter(e)
}

// book returns the ledger of the attempt around, or nil.
func (c *Call) book() *ledger {
	if c.outer == nil {
		return nil
	}
	return c.outer.book()
}

// end gives back what the call still holds, whichever way it ends.
func (c *Call) end() {
	if c.taken {
		c.state.budget.refund()
	}
	if !c.entered && c.sent > 0 {
		// A panic or runtime.Goexit: what the attempt did is not known, and the
		// operation around may go on.
		c.unknown, c.outcome, c.last = true, Unknown, &Result{Failed: true, Verdict: classify.Verdict{Reason: "unknown"}}
		c.enterOutcome(true)
	}
	if c.opened {
		c.book().end(c.trusted)
	}
	c.giveKeyBack()
	c.state.leave()
}
