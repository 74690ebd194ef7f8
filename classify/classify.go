// Package classify says what a failed attempt proves: whether it may have had
// its effect, and whether trying again can help.
//
// [Error] reads any error, [Status] an HTTP status, and [Transport] the error
// of an HTTP round trip together with how far the attempt came. Each gives a
// [Verdict]. What is not known is [Ambiguous]: it may have happened. Nothing
// becomes [Retryable] without a proof.
//
// Code that knows better says so: it marks an error with [As] or [After], or
// gives its error type a method Verdict() classify.Verdict.
package classify

import "fmt"

// Class is what a failed attempt proves about its effect and about a repeat.
// The zero value is Ambiguous.
type Class uint8

const (
	// Ambiguous means that the attempt may have had its effect. Unknown means
	// maybe, and so this is the zero value.
	Ambiguous Class = iota
	// Retryable means that the attempt provably had no effect, or was turned
	// away: a repeat is safe and may succeed.
	Retryable
	// Permanent means that a repeat would fail in the same way.
	Permanent
)

// String returns "ambiguous", "retryable" or "permanent".
func (c Class) String() string {
	switch c {
	case Ambiguous:
		return "ambiguous"
	case Retryable:
		return "retryable"
	case Permanent:
		return "permanent"
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// Origin is whom a failure speaks about. The zero value is Remote. Only Remote
// is charged to a destination's breaker, and a retry that failed in this process
// before anything was sent costs no budget.
type Origin uint8

const (
	// Remote means the callee, or the way to it.
	Remote Origin = iota
	// Local means this process: its sockets and file handles, a request that
	// cannot be sent, an answer that it cannot read.
	Local
	// Caller means that the caller's context ended.
	Caller
)

// String returns "remote", "local" or "caller".
func (o Origin) String() string {
	switch o {
	case Remote:
		return "remote"
	case Local:
		return "local"
	case Caller:
		return "caller"
	}
	return fmt.Sprintf("Origin(%d)", uint8(o))
}
