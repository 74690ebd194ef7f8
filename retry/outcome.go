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
	c.entered = true
	if c.outer != nil {
		c.enterOutcome(false, classify.Verdict{})
	}
	return nil
}

// tellFound says that a lookup found the intention applied, where the call would
// have stopped.
func (c *Call) tellFound(stop error) {
	if c.observer() != nil {
		age := c.age()
		c.tell(Event{
			Kind: EventStop, Attempt: len(c.trials()), Start: time.Now().Add(-age), Duration: age, Verdict: c.last.Verdict,
			Status: c.last.Status, Err: c.last.Err, Stop: stop, Outcome: Applied,
		})
	}
}

// fail ends a call that stops. It returns nil where the work still holds a
// response: that is the caller's then, and the report says the rest.
func (c *Call) fail(stop error) error {
	c.outcome = c.known()
	v, age, trials := c.verdict(stop), c.age(), c.trials()
	c.enterOutcome(true, v)
	if c.observer() != nil {
		c.tell(Event{
			Kind: EventStop, Attempt: len(trials), Start: time.Now().Add(-age), Duration: age, Failed: true, Verdict: c.last.Verdict,
			Status: c.last.Status, Err: c.last.Err, Stop: stop, Outcome: c.outcome, Wait: c.wait,
		})
	}
	c.failure = &Error{
		Destination: c.dest.name, Operation: c.operation, Intention: c.intention(), Outcome: c.outcome,
		Stop: stop, Last: c.last.Err, Attempts: trials, RetryAfter: c.wait,
		elapsed: age, verdict: v, safety: c.repeats(), inner: c.suppressed(),
	}
	if len(trials) == 0 {
		return c.failure
	}
	if c.last.Err == nil && !c.last.givenUp {
		return nil
	}
	if last := c.trouble.lastErr; last != nil {
		c.failure.Last = last
	}
	return c.failure
}

// known is what is known of the intention when the call stops.
func (c *Call) known() Outcome {
	switch {
	case c.isRequest && c.request.Read:
		return NotApplied
	case c.unknown:
		return Unknown
	case c.trials() == nil:
		return NotApplied
	}
	return c.last.Outcome
}

// verdict is what the stop means to a layer around. One that makes its one
// attempt for an outer layer says what that attempt proved; one that repeated by
// itself has done what can be done.
func (c *Call) verdict(stop error) classify.Verdict {
	v := c.last.Verdict
	if c.sent == 0 { // only time can have stopped that
		v = classify.Verdict{Class: classify.Retryable, Origin: classify.Local, Reason: "timeout"}
	}
	open, refused := stop.(*breaker.OpenError)
	switch {
	case c.ctx.Err() != nil:
		v.Origin, v.Reason = classify.Caller, "canceled"
	case c.sent == 0 && stop == ErrOutcomeUnknown: // of an earlier attempt or hop
		v = classify.Verdict{Reason: "unknown"}
	case refused:
		v = open.Verdict()
		v.RetryAfter = c.wait
	case c.sent == 0 && stop == ErrPushback:
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

// enterOutcome tells the attempt around what this call did, and what its failure
// means.
func (c *Call) enterOutcome(failed bool, v classify.Verdict) {
	c.entered = true
	l := c.book()
	if l == nil {
		return
	}
	if r := c.ring.Load(); r != nil && c.outcome != NotApplied {
		r.doubt()
	}
	e := entry{failed: failed, verdict: v, outcome: c.outcome, final: failed && c.last.Final, stated: failed && c.last.Stated}
	if c.isRequest {
		e.write, e.trusted = !c.request.Read, c.trust() != Unsafe
	} else if below := c.below(); below.calls > 0 && c.returned { // after a panic nobody knows what else was done
		e.write, e.trusted = below.applied > 0, c.safety != Unsafe || !below.untrusted
	} else {
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
		c.enterOutcome(true, c.verdict(nil))
	}
	if c.opened {
		c.book().end(c.trusted)
	}
	c.giveKeyBack()
	c.state.leave()
}
