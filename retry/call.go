package retry

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/reintento/reintento/classify"
)

// Call is one intention on its way through the loop. What only few calls need is
// in its trouble: the size of a Call is most of what a success costs.
type Call struct {
	ctx     context.Context // the caller's
	dest    *Destination
	policy  *Policy
	state   *state
	request *Request                // of a function: noRequest
	outer   *mark                   // the attempt around, if it repeats or is watched
	ring    atomic.Pointer[keyring] // see keys
	trouble *trouble                // nil until it is needed
	last    *Result
	failure *Error // how the call ended, if it stopped

	operation string
	began     instant       // when the first attempt began or will; a pause before it moves that
	until     instant       // the end of the whole intention; set with began
	wait      time.Duration // when the destination may be asked again
	sent      int32         // attempts made, those charged for re-sends included

	safety    Safety
	outcome   Outcome
	hasLookup bool
	isRequest bool
	holds     bool // ring was taken from that of the attempt around
	overlaps  bool // an equal write of the attempt around is running
	unknown   bool // an attempt may have been applied
	taken     bool // a retry is paid for and not yet sent
	opened    bool // the ledger of the attempt around knows that a write is under way
	trusted   bool // as which it knows it
	entered   bool // the outcome is in that ledger
	returned  bool // the function has returned from its last attempt

	first attempt // the contexts of the further ones are made when needed
}

// begin fills in what a call of a function, or of x, needs before its first
// attempt. After an error nothing is left to undo.
func (c *Call) begin(ctx context.Context, d *Destination, s Safety, opts []CallOption, x *exchange) error {
	c.request, c.dest, c.last, c.state = &noRequest, &nowhere, &nothing, &noState
	switch {
	case d != nil && d.layer != nil && !d.isMade():
		return c.refused(errors.New("layer is zero: make one with NewLayer"))
	case !d.isMade():
		return c.refused(errors.New("destination is nil or zero: make one with NewDestination or Layer.To"))
	case ctx == nil:
		return c.refused(errors.New("context is nil"))
	}
	c.ctx, c.dest, c.safety = ctx, d, s
	c.policy, c.state = d.resolve()
	if x != nil {
		x.described = x.x.Describe(c.policy)
		c.request, c.isRequest = &x.described, true
		c.safety, c.operation = c.request.Safety, c.request.Operation
	}
	if err := c.place(opts); err != nil {
		c.state.leave()
		return c.refused(err)
	}
	return nil
}

// place reads the options and finds the call's place in the attempt around it.
func (c *Call) place(opts []CallOption) error {
	if err := c.request.Err; err != nil {
		return err
	}
	key := c.request.Key
	for i := range opts {
		if o := &opts[i]; o.hasKey {
			if key = o.key; key == "" {
				return CheckKey(key)
			}
		} else if o.lookup != nil {
			c.hasLookup = true
		} else if o.operation != "" {
			c.operation = o.operation
		}
	}
	if c.safety > Idempotent {
		return errors.New("safety is invalid: allowed are Unsafe, Keyed and Idempotent")
	}
	a := aroundOf(c.ctx)
	if a.mark != nil && a.mark.isOver() {
		// The attempt around has ended: its keys may not be used for what
		// happens after it. One that was stated since is the caller's own.
		a.mark, a.call = nil, nil
		if a.ring != nil && !a.ring.stated {
			a.ring = nil
		}
	}
	if above := a.call; above != nil && a.mark != nil && c.isRequest && above.isRequest && c.isThatOf(above, key) {
		c.request.above = above
		c.request.Safety, c.request.Read = above.request.Safety, above.request.Read
		c.safety = c.request.Safety
	}
	c.outer = a.mark
	if err := c.chooseKey(a, key); err != nil {
		return err
	}
	if !c.enterBeginning() {
		// The attempt around has ended at this very moment.
		c.giveKeyBack()
		c.ring.Store(nil)
		c.holds, c.overlaps = false, false
		if c.isRequest {
			c.request.around, c.request.above = nil, nil
		}
		return c.place(opts)
	}
	return nil
}

// isThatOf reports whether the request of c is that of above on its way through
// another transport, and not one that its base sends besides.
func (c *Call) isThatOf(above *Call, key string) bool {
	if r := above.ring.Load(); r != nil && key != "" && r.intention().Key == key {
		return true
	}
	return c.request.Operation == above.request.Operation && c.request.address() == above.request.address()
}

// start begins the time of the whole, with the first attempt or with what keeps
// it waiting: a call that is refused at once asks no clock.
func (c *Call) start(now instant) {
	if c.began != 0 {
		return
	}
	c.began, c.until = now, never
	if c.policy.Deadline > 0 {
		c.until = now.after(c.policy.Deadline)
	}
	if f := c.request.Following; f != nil && f.began != 0 {
		c.until = min(c.until, f.until)
	}
	if end := c.request.Until; !end.IsZero() {
		c.until = min(c.until, now.after(max(0, time.Until(end))))
	}
}

// age returns how long ago the call began, 0 if it has not.
func (c *Call) age() time.Duration {
	if c.began == 0 {
		return 0
	}
	return c.ageAt(present())
}

// ageAt returns how old the call was at a moment after its beginning.
func (c *Call) ageAt(i instant) time.Duration {
	age := time.Duration(i - c.began)
	if c.trouble != nil {
		age += c.trouble.paused
	}
	return age
}

// What stands for what is not there. None of it is ever written to.
var (
	noRequest Request
	nowhere   Destination
	nothing   Result
	noState   = state{opts: &Options{}}
)

// refused is the error of a call that cannot be made as it is.
func (c *Call) refused(err error) error {
	c.outcome = NotApplied
	c.failure = &Error{
		Destination: c.dest.name, Operation: c.operation, Outcome: NotApplied, Stop: ErrPermanent, Last: err,
		verdict: classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "request"},
	}
	return c.failure
}

// suppressed reports whether a layer above repeats, so that this one must not.
func (c *Call) suppressed() bool { return c.outer != nil && c.outer.limit > 1 }

// limit is how many attempts this layer may make.
func (c *Call) limit() int {
	if c.suppressed() {
		return 1
	}
	return c.policy.MaxAttempts
}

// observer is told what happens; nil for nobody.
func (c *Call) observer() Observer { return c.state.opts.Observer }

// tellSuppressed says, once in each attempt of the layer above, that this layer
// leaves repeating to it.
func (c *Call) tellSuppressed() {
	if c.observer() == nil || !c.suppressed() || c.policy.MaxAttempts == 1 {
		return
	}
	if l := c.outer.book(); l == nil || l.tell(c.state) {
		c.tell(Event{Kind: EventLayerSuppressed, Attempt: int(c.outer.number)})
	}
}

// nextAttempt begins an attempt and returns its context, and the time if it is
// needed as such.
func (c *Call) nextAttempt() (a *attempt, now time.Time) {
	ring := c.ring.Load()
	var start instant
	if c.isRequest || c.isLimited() || ring != nil {
		now = time.Now()
		start = at(now)
	} else {
		start = present()
	}
	if a = &c.first; c.sent == 0 {
		c.start(start)
	} else {
		a = c.furtherAttempt()
		c.trouble.started, c.trouble.lastErr = start, nil
	}
	a.Context, a.call = c.ctx, c
	m := &a.mark
	m.number, m.limit = c.sent+1, narrow(c.policy.MaxAttempts)
	m.keyed, m.idempotent = !c.isRequest && c.safety == Keyed, !c.isRequest && c.safety == Idempotent
	if outer := c.outer; outer != nil {
		if c.suppressed() {
			m.number, m.limit = outer.number, outer.limit
		} else if c.sent > 0 {
			outer.below.Add(1)
		}
		m.keyed, m.idempotent = m.keyed || outer.keyed, m.idempotent || outer.idempotent
	}
	if ring != nil {
		ring.sent(now)
	}
	c.sent++
	c.returned = false
	return a, now
}

// started returns when the last attempt began.
func (c *Call) started() instant {
	if c.trouble != nil && c.trouble.started != 0 {
		return c.trouble.started
	}
	return c.began
}

// isLimited reports whether there is a time limit, for an attempt or the whole.
func (c *Call) isLimited() bool { return c.policy.AttemptTimeout > 0 || c.policy.Deadline > 0 }

// attemptEnd returns when an attempt, or a lookup, that begins now has to be
// over: the earlier of its own time limit and the end of the whole.
func (c *Call) attemptEnd(now instant) instant {
	if timeout := c.policy.AttemptTimeout; timeout > 0 {
		return min(c.until, now.after(timeout))
	}
	return c.until
}
