package retry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
)

// The reasons for which a call stops. Each is in [Error].Stop and [Report].Stop,
// alone or joined with more; test with errors.Is. Other reasons are the caller's
// own context error and its cause, and [breaker.ErrOpen].
var (
	// ErrAttempts: all attempts that the policy allows have failed.
	ErrAttempts = errors.New("attempts used up")
	// ErrDeadline: the time for the whole intention is over, or the next wait
	// cannot end within it. It matches context.DeadlineExceeded too.
	ErrDeadline error = noTime{}
	// ErrBudget: the destination may not be sent a retry at present.
	ErrBudget = errors.New("retry budget empty")
	// ErrPermanent: the failure would repeat itself, or the call cannot be made
	// as it is.
	ErrPermanent = errors.New("permanent failure")
	// ErrPushback: the destination asked to be left alone for longer than this
	// call can wait. [Error].RetryAfter says for how long.
	ErrPushback = errors.New("callee asked to be left alone")
	// ErrOutcomeUnknown: the intention may have been applied. An [*Error]
	// matches it whenever its Outcome is [Unknown], whatever Stop is.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

type noTime struct{}

func (noTime) Error() string        { return "no time left" }
func (noTime) Timeout() bool        { return true }
func (noTime) Is(target error) bool { return target == context.DeadlineExceeded }

// Error is how a call ended that did not succeed. It matches, with errors.Is
// and errors.As, the reason for stopping and the last attempt's error, and
// [ErrOutcomeUnknown] if nobody knows whether the intention was applied.
type Error struct {
	Destination string        // its name; empty if there was none
	Operation   string        // as given by Named; the method of a request; may be empty
	Intention   Intention     // its Key is empty where nobody asked for one
	Outcome     Outcome       // what is known of the intention, over all attempts
	Stop        error         // why there was no further attempt
	Last        error         // the last attempt's failure; if nothing was sent nil, or what is wrong with the call
	Attempts    []Attempt     // every attempt made
	RetryAfter  time.Duration // when the destination may be asked again; 0: unknown

	elapsed time.Duration
	verdict classify.Verdict
	safety  Safety
	inner   bool // a layer above repeats, and says what the caller can do
}

// Error says in one line what happened, what is known of the effect, and what
// the caller can do. Of errors in it, see [Plain].
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("retry: ")
	if e.Operation != "" {
		b.WriteString(e.Operation + " ")
	}
	if e.Destination != "" {
		b.WriteString("to " + e.Destination + ": ")
	}
	b.WriteString(Plain(e.Stop) + " after ")
	switch len(e.Attempts) {
	case 0:
		b.WriteString("no attempt")
	case 1:
		fmt.Fprintf(&b, "1 attempt in %v", round(e.elapsed))
	default:
		fmt.Fprintf(&b, "%d attempts in %v", len(e.Attempts), round(e.elapsed))
	}
	if e.Last != nil {
		b.WriteString(": " + Plain(e.Last))
	}
	if e.inner {
		return b.String()
	}
	switch e.Outcome {
	case Unknown:
		b.WriteString("; it may have been applied: ")
		switch {
		case e.safety == Idempotent:
			b.WriteString("repeating it does no harm")
		case e.safety == Keyed && e.Intention.Key != "":
			b.WriteString("repeat it only under the same key, " + e.Intention.Key)
		default:
			b.WriteString("find out before repeating it")
			if e.Intention.Key != "" {
				b.WriteString(" (its key is " + e.Intention.Key + ")")
			}
		}
	case Applied:
		b.WriteString("; it was applied: do not repeat it")
	case NotApplied:
		b.WriteString("; it was not applied")
		switch {
		case e.RetryAfter > 0:
			fmt.Fprintf(&b, ": repeat it in %v", round(e.RetryAfter))
		case errors.Is(e.Stop, ErrPermanent):
			b.WriteString(": mend the cause before repeating it")
		default:
			b.WriteString(": it can be repeated later")
		}
	}
	return b.String()
}

// round keeps three digits or so: an error's text is read by people.
func round(d time.Duration) time.Duration {
	for unit := time.Second; unit > time.Nanosecond; unit /= 10 {
		if d >= 100*unit {
			return d.Round(unit)
		}
	}
	return d
}

// Unwrap returns the reason for stopping and the last attempt's error.
func (e *Error) Unwrap() []error {
	errs := make([]error, 0, 2)
	if e.Stop != nil {
		errs = append(errs, e.Stop)
	}
	if e.Last != nil {
		last := e.Last
		if e.Outcome != Unknown && errors.Is(last, ErrOutcomeUnknown) {
			last = known{last}
		}
		errs = append(errs, last)
	}
	return errs
}

// Is reports whether target is ErrOutcomeUnknown and the outcome is unknown, or
// the reason for stopping; errors.Is goes on to what else e wraps. That the
// reason is looked at here spares it, for most questions, what Unwrap makes.
func (e *Error) Is(target error) bool {
	return target == ErrOutcomeUnknown && e.Outcome == Unknown || errors.Is(e.Stop, target)
}

// Timeout reports whether time was what the call lacked: its own deadline or
// the caller's, or that of the last attempt.
func (e *Error) Timeout() bool {
	if errors.Is(e.Stop, context.DeadlineExceeded) {
		return true
	}
	return e.verdict.Reason == "timeout" && !errors.Is(e.Stop, context.Canceled)
}

// Verdict is what the failure means to a layer around. A layer that made its
// one attempt for an outer one hands up what that attempt proves. One that
// repeated by itself has done what can be done: its failure is permanent.
func (e *Error) Verdict() classify.Verdict { return e.verdict }

// known hides from an error that was once of unknown outcome that it was: the
// outcome has been found out since.
type known struct{ error }

func (k known) Is(target error) bool {
	return target != ErrOutcomeUnknown && errors.Is(k.error, target)
}

func (k known) As(target any) bool { return errors.As(k.error, target) }

// callerEnded is the reason of a call that stopped because its caller's context
// has ended. It matches the context's error and its cause.
func callerEnded(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || cause == err {
		return err
	}
	return &ended{err: err, cause: cause}
}

type ended struct{ err, cause error }

func (e *ended) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e *ended) Unwrap() []error { return []error{e.err, e.cause} }

// refusedUntil returns in how long a breaker that refused can be asked again; 0 if
// that depends on its probes.
func refusedUntil(err error) time.Duration {
	if open, ok := err.(*breaker.OpenError); ok && !open.RetryAt.IsZero() {
		return max(0, time.Until(open.RetryAt))
	}
	return 0
}
