package retry

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/reintento/reintento/classify"
)

// Call is one intention on its way through the loop.
type Call struct {
	ctx    context.Context // the caller's
	dest   *Destination
	policy *Policy
	state  *state
	opts   *Options

	safety    Safety
	operation string
	hasLookup bool
	isRequest bool
	request   *Request // of a function: noRequest
	above     *Call    // the call of a transport around that carries the same request

	outer     *mark                   // the attempt around, if it repeats or is watched
	ring      atomic.Pointer[keyring] // see keys
	around    *keyring                // that of the intention around a request without key
	holds     bool                    // ring was taken from that of the attempt around
	overlaps  bool                    // an equal write of the attempt around is running
	firstSent time.Time               // if ring was not there before

	start time.Time
	until time.Time // the end of the whole intention; zero: none
	limit int       // attempts this layer may make
	sent  int       // made, those charged for re-sends included

	first   attempt // the contexts of the further ones are made when needed
	trials  []Attempt
	resends int
	trouble *trouble // nil until an attempt has failed
	unknown bool     // an attempt may have been applied
	taken   bool     // a retry is paid for and not yet sent
	last    *Result
	lastErr error // what stands for a result that was given up
	below   *seen // what calls below did, in all attempts of a function; nil: there were none
	outcome Outcome
	opened  bool // the ledger of the attempt around knows that a write is under way
	trusted bool // as which it knows it
	entered bool // the outcome is in that ledger
	stop    error
	wait    time.Duration // when the destination may be asked again

	attemptStart time.Time
	duration     time.Duration // of the last attempt
}

// begin fills in what a call of a function, or of x, needs before its first
// attempt. After an error nothing is left to undo.
func (c *Call) begin(ctx context.Context, d *Destination, s Safety, opts []CallOption, x *exchange) error {
	c.request, c.opts, c.dest, c.last = &noRequest, &noOptions, &nowhere, &nothing
	switch {
	case d != nil && d.layer != nil && !d.isMade():
		return c.refused(errors.New("layer is zero: make one with NewLayer"))
	case !d.isMade():
		return c.refused(errors.New("destination is nil or zero: make one with NewDestination or Layer.To"))
	case ctx == nil:
		return c.refused(errors.New("context is nil"))
	}
	c.ctx, c.dest, c.safety = ctx, d, s
	c.start = time.Now()
	c.attemptStart = c.start
	c.policy, c.state, c.opts = d.resolve()
	if x != nil {
		x.described = x.x.Describe(c.policy)
		c.request, c.isRequest = &x.described, true
		c.safety, c.operation = c.request.Safety, c.request.Operation
	}
	if err := c.place(opts); err != nil {
		c.state.leave()
		return c.refused(err)
	}
	c.limit = c.policy.MaxAttempts
	if c.suppressed() {
		c.limit = 1
	}
	if c.policy.Deadline > 0 {
		c.until = c.start.Add(c.policy.Deadline)
	}
	if f := c.request.Following; f != nil {
		c.endBy(f.until)
	}
	c.endBy(c.request.Until)
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
	outer, _ := c.ctx.Value(markKey).(*mark)
	ring, _ := c.ctx.Value(ringKey).(*keyring)
	if outer != nil && outer.over.Load() {
		// The attempt around has ended: its keys may not be used for what
		// happens after it. One that was stated since is the caller's own.
		outer = nil
		if ring != nil && !ring.stated {
			ring = nil
		}
	}
	if outer != nil && c.isRequest {
		if above, ok := CallOf(c.ctx); ok && above.isRequest && c.isThatOf(above, key) {
			c.above = above
			c.request.Safety, c.request.Read = above.request.Safety, above.request.Read
			c.safety = c.request.Safety
		}
	}
	c.outer = outer
	if err := c.chooseKey(ring, key); err != nil {
		return err
	}
	if !c.enterBeginning() {
		// The attempt around has ended at this very moment.
		c.giveKeyBack()
		c.ring.Store(nil)
		c.around, c.above, c.holds, c.overlaps = nil, nil, false, false
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

// endBy makes t the end of the intention, if it is earlier than the present one.
func (c *Call) endBy(t time.Time) {
	if !t.IsZero() && (c.until.IsZero() || t.Before(c.until)) {
		c.until = t
	}
}

// What stands for what is not there. None of it is ever written to.
var (
	noRequest Request
	noOptions Options
	nowhere   Destination
	nothing   Result
)

// refused is the error of a call that cannot be made as it is.
func (c *Call) refused(err error) error {
	c.outcome, c.stop = NotApplied, ErrPermanent
	return &Error{
		Destination: c.dest.name, Operation: c.operation, Outcome: NotApplied, Stop: ErrPermanent, Last: err,
		verdict: classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "request"},
	}
}

// suppressed reports whether a layer above repeats, so that this one must not.
func (c *Call) suppressed() bool { return c.outer != nil && c.outer.limit > 1 }

// tellSuppressed says, once in each attempt of the layer above, that this layer
// leaves repeating to it.
func (c *Call) tellSuppressed() {
	if c.opts.Observer == nil || !c.suppressed() || c.policy.MaxAttempts == 1 {
		return
	}
	if l := c.outer.book(); l == nil || l.tell(c.state) {
		c.tell(Event{Kind: EventLayerSuppressed, Attempt: c.outer.number})
	}
}

// nextAttempt begins an attempt and returns its context.
func (c *Call) nextAttempt() *attempt {
	a := &c.first
	if c.sent > 0 {
		a, c.attemptStart = c.furtherAttempt(), time.Now()
	} else {
		c.firstSent = c.attemptStart
	}
	a.Context, a.call = c.ctx, c
	a.mark.number, a.mark.limit = c.sent+1, c.limit
	if c.suppressed() {
		a.mark.number, a.mark.limit = c.outer.number, c.outer.limit
	}
	a.mark.keyed = !c.isRequest && c.safety == Keyed || c.outer != nil && c.outer.keyed
	a.mark.idempotent = !c.isRequest && c.safety == Idempotent || c.outer != nil && c.outer.idempotent
	if r := c.ring.Load(); r != nil {
		r.sent(c.attemptStart)
	}
	c.sent++
	return a
}

// attemptEnd returns when an attempt, or a lookup, that begins now has to be
// over: the earlier of its own time limit and the end of the whole. It is zero
// where there is neither.
func (c *Call) attemptEnd(now time.Time) time.Time {
	end := c.until
	if timeout := c.policy.AttemptTimeout; timeout > 0 {
		if t := now.Add(timeout); end.IsZero() || t.Before(end) {
			end = t
		}
	}
	return end
}
