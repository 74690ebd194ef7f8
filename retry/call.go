package retry

import (
	"context"
	"errors"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/deadline"
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
	lookup    any
	request   Request
	isRequest bool
	above     *Call // the call of a transport around that carries the same request

	outer    *mark // the attempt around, if it repeats or is watched
	ring     *keyring
	own      keyring
	overlaps bool // an equal write of the attempt around is running

	takenFrom *keyring // where ring was taken from, to be released

	start time.Time
	until time.Time // the end of the whole intention; zero: none
	limit int       // attempts this layer may make
	sent  int       // made, those charged for re-sends included

	first   attempt // the contexts of the further ones are made when needed
	trials  []Attempt
	resends int
	sched   *schedule
	unknown bool // an attempt may have been applied
	taken   bool // a retry is paid for and not yet sent
	last    Result
	lastErr error // what stands for a result that was given up
	outcome Outcome
	stop    error
	wait    time.Duration // when the destination may be asked again

	attemptStart time.Time
	duration     time.Duration // of the last attempt
	calls        int           // that attempts of a function made below
	writes       int           // of these, those that may have been applied
	untrusted    bool          // one of these would have a second effect
}

// begin fills in what a call needs before its first attempt. After an error
// nothing is left to undo.
func (c *Call) begin(ctx context.Context, d *Destination, s Safety, opts []CallOption) error {
	if d == nil {
		return errors.New("retry: destination is nil: make one with NewDestination or Layer.To")
	}
	if s > Idempotent {
		return errors.New("retry: safety is invalid: allowed are Unsafe, Keyed and Idempotent")
	}
	c.ctx, c.dest, c.safety = ctx, d, s
	var key string
	for i := range opts {
		if o := &opts[i]; o.hasKey {
			if err := CheckKey(o.key); err != nil {
				return err
			}
			key = o.key
		} else if o.lookup != nil {
			c.lookup = o.lookup
		} else if o.operation != "" {
			c.operation = o.operation
		}
	}
	outer, _ := ctx.Value(markKey).(*mark)
	ring, _ := ctx.Value(ringKey).(*keyring)
	if outer != nil && outer.over.Load() {
		// The attempt around has ended: its keys may not be used for what
		// happens after it.
		outer, ring = nil, nil
	}
	if above, _ := ctx.Value(callKey).(*Call); outer != nil && above != nil && above.isRequest && c.isRequest {
		c.above = above
	}
	if err := c.chooseKey(outer, ring, key); err != nil {
		return err
	}
	c.outer = outer
	c.policy, c.state, c.opts = d.resolve()
	c.limit = c.policy.MaxAttempts
	if c.suppressed() {
		c.limit = 1
	}
	c.start = time.Now()
	if c.policy.Deadline > 0 {
		c.until = c.start.Add(c.policy.Deadline)
	}
	if f := c.request.Following; f != nil {
		c.endBy(f.until)
	}
	c.endBy(c.request.Until)
	return nil
}

// endBy makes t the end of the intention, if it is earlier than the present one.
func (c *Call) endBy(t time.Time) {
	if !t.IsZero() && (c.until.IsZero() || t.Before(c.until)) {
		c.until = t
	}
}

// chooseKey finds the keyring of the call: the caller's own key, a place in the
// intention around, or a new one.
func (c *Call) chooseKey(outer *mark, ring *keyring, key string) error {
	if c.isRequest && c.request.Key != "" {
		key = c.request.Key
		if err := CheckKey(key); err != nil {
			return err
		}
	}
	if ring != nil && !ring.received {
		if k := ring.known(); k != "" {
			if err := CheckKey(k); err != nil {
				return err
			}
			if k == key {
				// Set on the way through another layer, with that layer's trust.
				c.ring = ring
				return nil
			}
		}
	}
	switch {
	case c.request.Following != nil:
		c.ring, c.unknown = c.request.Following.ring, c.request.Following.unknown
	case key != "":
		c.own = keyring{key: key, declared: true}
		c.ring = &c.own
	case ring == nil:
		c.ring = &c.own
	case c.isRequest && !c.request.Carries:
		c.ring = ring
	default:
		c.ring, c.overlaps = ring.take(outer, c.what())
		c.takenFrom = ring
	}
	c.operation = orElse(c.operation, c.ring.operation)
	return nil
}

// what names the call among the others of an attempt around.
func (c *Call) what() string {
	if c.isRequest {
		return c.request.Target
	}
	return "do\n" + c.dest.name + "\n" + c.operation
}

// requestKey returns the key that a request sends.
func (c *Call) requestKey() string {
	if !c.request.Carries {
		return ""
	}
	return c.ring.id()
}

// trust returns how the request of an exchange may be repeated now.
func (c *Call) trust() Safety {
	switch {
	case c.request.Safety == Idempotent:
		return Idempotent
	case !c.request.Carries || c.overlaps || !c.keyValid():
		return Unsafe
	case c.request.Safety == Keyed, c.policy.Key.Honored, c.outer != nil && c.outer.keyed, c.ring.isDeclared():
		return Keyed
	}
	return Unsafe
}

// keyValid reports whether the callee still remembers the key.
func (c *Call) keyValid() bool {
	first := c.ring.intention().FirstSent
	return first.IsZero() || time.Since(first) <= c.policy.Key.ValidFor
}

// nextAttempt returns the context of the next attempt.
func (c *Call) nextAttempt() *attempt {
	a := &c.first
	if c.sent > 0 {
		a = &attempt{}
	}
	a.Context, a.call = c.ctx, c
	a.mark.number, a.mark.limit = c.sent+1, c.limit
	if c.suppressed() {
		a.mark.number, a.mark.limit = c.outer.number, c.outer.limit
	}
	a.mark.keyed = c.safety == Keyed || c.outer != nil && c.outer.keyed || c.isRequest && c.trust() == Keyed
	a.mark.ledger = &a.ledger
	return a
}

// suppressed reports whether a layer above repeats, so that this one must not.
func (c *Call) suppressed() bool { return c.outer != nil && c.outer.limit > 1 }

// limit gives the attempt of a function its time limit, the earlier of the
// attempt timeout and the end of the whole. It returns nil where there is none.
func (a *attempt) limit() context.CancelFunc {
	c := a.call
	end := c.until
	if timeout := c.policy.AttemptTimeout; timeout > 0 {
		now := c.start
		if c.sent > 0 {
			now = time.Now()
		}
		if t := now.Add(timeout); end.IsZero() || t.Before(end) {
			end = t
		}
	}
	if end.IsZero() {
		return nil
	}
	ctx, cancel := context.WithDeadline(c.ctx, end)
	a.Context = ctx
	return cancel
}

// judge says what the failure of a function proves. It looks at the attempt's
// context before the error: an error that says "deadline exceeded" does not say
// whose. What the calls below did is known better than what the error says.
func (a *attempt) judge(err error) Result {
	c := a.call
	r := Result{Failed: true, Err: err, Verdict: c.opts.classify(err)}
	v := &r.Verdict
	_, writes, untrusted, worst := a.ledger.seen()
	if worst != nil && v.Class == classify.Ambiguous && v.Reason == "unknown" {
		*v, r.Outcome, r.Final = worst.verdict, worst.outcome, worst.final
	} else {
		r.Outcome = effect(*v)
		if inner, ok := errors.AsType[*Error](err); ok {
			r.Outcome = inner.Outcome
		}
		r.Final = worst != nil && worst.final && v.Class == classify.Permanent
	}
	if a.Err() != nil && (v.Origin == classify.Caller || v.Class == classify.Ambiguous && v.Reason == "unknown") {
		// What ended for the calls below was this attempt's time. If it was the
		// caller's, the loop says so.
		v.Origin, v.Reason = classify.Remote, "timeout"
	}
	if writes > 0 {
		r.Outcome = Unknown
		r.Final = false
	}
	if untrusted && c.safety == Unsafe {
		v.Class, v.Repeatable = classify.Ambiguous, false
	}
	r.Well = v.Class == classify.Permanent && v.Origin == classify.Remote
	if v.Throttled {
		r.Pushback = v.RetryAfter
	}
	return r
}

// effect is the outcome of an attempt of which nothing is known but its verdict.
func effect(v classify.Verdict) Outcome {
	if v.Class == classify.Ambiguous {
		return Unknown
	}
	return NotApplied
}

// classify asks the user's classifiers, then the rules of package classify.
func (o *Options) classify(err error) classify.Verdict {
	if v, ok := o.Classify(err); ok {
		return v
	}
	return classify.Error(err)
}

// Classify asks the classifiers of o in order; ok is false if none knows err.
func (o *Options) Classify(err error) (v classify.Verdict, ok bool) {
	for _, c := range o.Classifiers {
		if v, ok := c(err); ok {
			return v, true
		}
	}
	return classify.Verdict{}, false
}

// Classify asks the user's classifiers about an error of the call's transport;
// ok is false if none knows it.
func (c *Call) Classify(err error) (v classify.Verdict, ok bool) { return c.opts.Classify(err) }

// timeLeft reports how long the call may still take; ok is false without limit.
func (c *Call) timeLeft() (left time.Duration, ok bool) {
	left, ok = deadline.Remaining(c.ctx)
	if !c.until.IsZero() {
		if own := time.Until(c.until); !ok || own < left {
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

// known returns the key if there is one already.
func (r *keyring) known() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.key
}

func (r *keyring) isDeclared() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.declared
}

// Report tells how the call went. It may be called when the call has ended.
func (c *Call) Report() Report {
	return Report{
		Destination: c.dest.name, Operation: c.operation, Intention: c.intention(), Outcome: c.outcome,
		Attempts: c.attempts(), Resends: c.resends, Stop: c.stop, RetryAfter: c.wait,
	}
}

func (c *Call) intention() Intention {
	in := c.ring.intention()
	if c.isRequest && !c.request.Carries {
		in.Key = ""
	}
	in.Operation = c.operation
	return in
}

// attempts returns the records of all attempts. That of a success at once is
// made only here.
func (c *Call) attempts() []Attempt {
	if c.trials == nil && c.sent > 0 {
		return []Attempt{c.record(&c.last)}
	}
	return c.trials
}

func (c *Call) record(r *Result) Attempt {
	return Attempt{
		Number: len(c.trials) + 1, Start: c.attemptStart, Duration: c.duration, Failed: r.Failed,
		Verdict: r.Verdict, Err: r.Err, Status: r.Status, Connections: r.Connections, Resends: r.Resends,
	}
}

// BodyFailed tells the observer, and the layer around, that the body of a
// response broke after it had been handed over: the operation ran, its result
// is lost.
func (c *Call) BodyFailed(err error, v classify.Verdict) {
	if c.outer != nil && c.outer.ledger != nil {
		c.outer.ledger.enter(entry{failed: true, verdict: v, outcome: Unknown, write: !c.request.Read, trusted: true})
	}
	c.tell(Event{Kind: EventAttempt, Attempt: len(c.trials), Start: c.attemptStart, Duration: time.Since(c.attemptStart), Failed: true, Verdict: v, Err: err, Status: c.last.Status})
}

// tell sends an event to the observer, if there is one.
func (c *Call) tell(e Event) {
	observe := c.opts.Observer
	if observe == nil {
		return
	}
	e.Destination, e.Operation, e.Intention = c.dest.name, c.operation, c.intention()
	e.Safety, e.MaxAttempts = c.safety, c.limit
	observe(c.ctx, e)
}
