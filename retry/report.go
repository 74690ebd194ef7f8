package retry

import (
	"time"

	"github.com/reintento/reintento/classify"
)

// Report is what is known of a call, whether it succeeded or not.
type Report struct {
	Destination string    // the destination's name
	Operation   string    // as given by Named; the method of a request; may be empty
	Intention   Intention // its Key is empty if nobody asked for one
	Outcome     Outcome   // what is known of the effect
	Attempts    []Attempt // every attempt made, in order
	// Resends counts what was sent again inside attempts: by the layer below,
	// or after the proof that a used connection had carried nothing.
	Resends    int
	Stop       error         // why there was no further attempt; nil after a success
	RetryAfter time.Duration // when the destination may be asked again; 0: unknown
}

// Report tells how the call went. It may be called when the call has ended.
func (c *Call) Report() Report {
	r := Report{
		Destination: c.dest.name, Operation: c.operation, Intention: c.intention(), Outcome: c.outcome,
		Attempts: c.attempts(), RetryAfter: c.wait,
	}
	for _, a := range r.Attempts {
		r.Resends += a.Resends
	}
	if c.failure != nil {
		r.Stop = c.failure.Stop
	}
	return r
}

func (c *Call) intention() Intention {
	var in Intention
	if r := c.ring.Load(); r != nil {
		in = r.intention()
	} else if c.sent > 0 {
		in.FirstSent = c.began.time(time.Now())
	}
	if c.isRequest && !c.request.Carries {
		in.Key = ""
	}
	in.Operation = c.operation
	return in
}

// attempts returns the records of all attempts. That of a success at once is
// made only here.
func (c *Call) attempts() []Attempt {
	if trials := c.trials(); trials != nil || c.sent == 0 {
		return trials
	}
	return []Attempt{c.record(c.last, c.started().time(time.Now()), c.last.took)}
}

func (c *Call) record(r *Result, start time.Time, took time.Duration) Attempt {
	return Attempt{
		Number: len(c.trials()) + 1, Start: start, Duration: took, Failed: r.Failed,
		Verdict: r.Verdict, Err: r.Err, Status: r.Status, Connections: r.Connections, Resends: r.Resends,
	}
}

// isRecorded reports whether somebody wants to know of the last attempt: the
// success of a function at once leaves no record.
func (c *Call) isRecorded() bool {
	return c.last.Failed || c.trials() != nil || c.isRequest || c.observer() != nil
}

// note records an attempt, tells the observer, and holds others back if the
// callee asked for that. start is zero if nobody has asked the clock.
func (c *Call) note(r *Result, start time.Time, took time.Duration) {
	if start.IsZero() {
		start = c.started().time(time.Now())
	}
	if c.isRequest {
		r.took = took
	}
	if r.Failed || c.trials() != nil {
		t := c.inTrouble()
		if t.trials == nil {
			t.trials = t.records[:0]
		}
		t.trials = append(t.trials, c.record(r, start, took))
	}
	number := max(1, len(c.trials()))
	pause := min(r.Pushback, c.policy.MaxRetryAfter)
	if pause > 0 && !c.policy.PrivatePushback {
		c.state.pause.extend(pause)
	}
	if c.observer() == nil {
		return
	}
	c.tell(Event{
		Kind: EventAttempt, Attempt: number, Start: start, Duration: took, Elapsed: c.ageAt(c.started()) + took, Failed: r.Failed,
		Verdict: r.Verdict, Status: r.Status, Err: r.Err, Connections: r.Connections, Resends: r.Resends,
	})
	if pause > 0 && !c.policy.PrivatePushback {
		c.tell(Event{Kind: EventPushback, Attempt: number, Verdict: r.Verdict, Status: r.Status, Wait: pause})
	}
}

// BodyFailed tells the observer, and the attempt around, that the body of a
// response broke after it had been handed over: the operation ran, its result
// is lost. Of one that its own reader ended, of origin Caller, only the attempt
// around is told.
func (c *Call) BodyFailed(err error, v classify.Verdict) {
	if l := c.book(); l != nil {
		e := entry{failed: true, verdict: v, outcome: Applied, write: !c.request.Read, trusted: c.trust() != Unsafe}
		if e.write {
			e.verdict.Repeatable = e.trusted
		} else {
			e.verdict.Repeatable, e.outcome = true, NotApplied
		}
		l.enter(e)
	}
	if v.Origin == classify.Caller { // who ends a body that it reads need not be told
		return
	}
	c.tell(Event{
		Kind: EventAttempt, Attempt: max(1, len(c.trials())), Start: c.started().time(time.Now()), Duration: c.started().since(), Failed: true,
		InBody: true, Verdict: v, Err: err, Status: c.last.Status,
	})
}

// tell sends an event to the observer, if there is one.
func (c *Call) tell(e Event) {
	observe := c.observer()
	if observe == nil {
		return
	}
	e.Destination, e.Operation, e.Intention = c.dest.name, c.operation, c.intention()
	e.Safety, e.Request, e.MaxAttempts = c.safety, c.isRequest, c.limit()
	observe(c.ctx, e)
}
