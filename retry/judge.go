package retry

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
)

// judge says what the failure of a function proves. It looks at the attempt's
// context before the error: an error that says "deadline exceeded" does not say
// whose. What the calls below did is known better than what the error says.
func (a *attempt) judge(err error, below seen) *Result {
	c := a.call
	r := &c.inTrouble().result
	*r = Result{Failed: true, Err: err}
	r.Verdict, r.Stated = c.state.opts.classify(err)
	v, worst := &r.Verdict, below.worst
	applied := false // by its only write, as the answer to that says
	if worst != nil && worst.verdict.Origin == classify.Caller && a.Err() == nil && *v != worst.verdict {
		worst = nil // the function has ended it by itself, and failed with something else
	}
	if worst != nil && (unclassified(*v) || *v == worst.verdict) { // an error that carries the verdict is about that call
		*v, r.Outcome, r.Final, r.Stated = worst.verdict, worst.outcome, worst.final, r.Stated || worst.stated
		applied = worst.outcome == Applied && v.Class == classify.Permanent && below.calls == 1 && below.applied == 1 && !below.several
		if errors.Is(err, ErrOutcomeUnknown) {
			r.Outcome, applied = Unknown, false
		}
	} else {
		r.Outcome = effect(err, *v)
		r.Final = worst != nil && worst.final && v.Class == classify.Permanent
	}
	if a.Err() != nil && (v.Origin == classify.Caller || unclassified(*v)) {
		// What ended for the calls below was this attempt's time. If it was the
		// caller's, the loop says so.
		v.Origin, v.Reason = classify.Remote, "timeout"
	}
	if below.applied > 0 && !applied {
		r.Outcome = Unknown
	}
	if c.below().several { // an answer speaks for its own write only
		r.Final = false
	}
	if below.untrusted && !applied && c.safety != Idempotent {
		v.Class, v.Repeatable, r.untrusted = classify.Ambiguous, false, true
	}
	r.Well = breaker.ResultOf(*v) == breaker.Success
	if worst == nil && asksAll(*v) { // a call below has paused its own destination
		r.Pushback = v.RetryAfter
	}
	return r
}

// unclassified reports whether nothing but the failure itself is known.
func unclassified(v classify.Verdict) bool {
	return v.Class == classify.Ambiguous && v.Reason == "unknown"
}

// correct makes the verdict of a failure say what only the call knows: whether
// the caller has gone, and what came before.
func (c *Call) correct(r *Result) {
	v := &r.Verdict
	switch {
	case r.Err != nil && c.ctx.Err() != nil:
		v.Origin, v.Reason = classify.Caller, "canceled"
	case r.Err != nil && v.Reason == "timeout" && c.callersTimeIsUp():
		v.Origin = classify.Caller
	case v.Origin == classify.Caller:
		v.Origin = classify.Local // somebody below has cancelled: that speaks neither about the caller nor about the callee
	case !r.Stated && c.hadItsRepeat(*v):
		v.Class = classify.Permanent
	}
}

// neverSent reports whether an attempt failed in this process, before the callee
// had anything of it.
func neverSent(v classify.Verdict) bool {
	return v.Origin == classify.Local && v.Class != classify.Ambiguous
}

// callersTimeIsUp reports whether the time is over that the caller has given the
// request by other means than its context.
func (c *Call) callersTimeIsUp() bool {
	end := c.request.Until
	return !end.IsZero() && time.Until(end) <= 0
}

// hadItsRepeat reports whether v is that of a status which is worth one repeat,
// and came before: a callee that is asked at the wrong place, or too early, once
// more says so again (RFC 9110 section 15.5.20, RFC 8470 section 5.2).
func (c *Call) hadItsRepeat(v classify.Verdict) bool {
	if v.Reason != "http_421" && v.Reason != "http_425" || v.Class != classify.Retryable {
		return false
	}
	return slices.ContainsFunc(c.trials(), func(a Attempt) bool { return a.Verdict.Reason == v.Reason })
}

// effect is the outcome of an attempt as far as its error tells. What is unknown
// inside is unknown outside.
func effect(err error, v classify.Verdict) Outcome {
	if errors.Is(err, ErrOutcomeUnknown) {
		return Unknown
	}
	if inner, ok := errors.AsType[*Error](err); ok {
		return inner.Outcome
	}
	if v.Class == classify.Ambiguous {
		return Unknown
	}
	return NotApplied
}

// asksAll reports whether the hint of a failure concerns every call to the
// destination: that of a 429 or 503, or of whatever else rations its callers.
func asksAll(v classify.Verdict) bool {
	switch {
	case v.Origin != classify.Remote:
		return false
	case strings.HasPrefix(v.Reason, "http_"):
		return v.Reason == "http_429" || v.Reason == "http_503"
	}
	return v.Throttled
}

// classify asks the user's classifiers, then the rules of package classify. An
// answer by which the callee itself forbids a repeat stands above both, and a
// hint that it gave is kept.
func (o *Options) classify(err error) (v classify.Verdict, stated bool) {
	if len(o.Classifiers) == 0 || repeatRefused(err) {
		return classify.Error(err), false
	}
	given, ok := o.Classify(err)
	if !ok {
		return classify.Error(err), false
	}
	if answer, ok := errors.AsType[interface {
		error
		Verdict() classify.Verdict
	}](err); ok {
		given.RetryAfter = max(given.RetryAfter, answer.Verdict().RetryAfter)
	}
	return given, true
}

// repeatRefused reports whether err is an answer that forbids a repeat.
func repeatRefused(err error) bool {
	e, ok := errors.AsType[interface {
		error
		RepeatRefused() bool
	}](err)
	return ok && e.RepeatRefused()
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

// Classify asks the user's classifiers about an error of the call's transport, or
// a failed answer as an error; ok is false if none knows it.
func (c *Call) Classify(err error) (v classify.Verdict, ok bool) { return c.state.opts.Classify(err) }
