package retry

import "time"

// Safety is what the caller declares about repeating an operation whose
// outcome is not known. The zero value is [Unsafe].
type Safety uint8

const (
	// Unsafe operations are repeated only when the failed attempt provably had
	// no effect, or consisted of nothing but requests that are repeatable by
	// themselves.
	Unsafe Safety = iota
	// Keyed operations send an idempotency key that the callee is known to
	// honour; all writes of an attempt are trusted to carry theirs.
	Keyed
	// Idempotent operations have the same effect however often they happen.
	Idempotent
)

// String returns "unsafe", "keyed" or "idempotent".
func (s Safety) String() string {
	switch s {
	case Unsafe:
		return "unsafe"
	case Keyed:
		return "keyed"
	case Idempotent:
		return "idempotent"
	}
	return "invalid"
}

// declaredRepeatable reports whether the caller said that the operation may be
// repeated although it may have had its effect.
func (c *Call) declaredRepeatable() bool {
	if c.isRequest { // of a write, the verdict of its exchange says so
		return c.request.Read
	}
	return c.safety == Idempotent || c.safety == Keyed && c.keyValid() && !c.last.untrusted
}

// repeats returns how the caller may repeat the whole call, now that it stops.
func (c *Call) repeats() Safety {
	switch {
	case c.isRequest:
		return c.trust()
	case c.safety == Keyed && !c.keyValid():
		return Unsafe
	}
	return c.safety
}

// trust returns how the request of an exchange may be repeated now.
func (c *Call) trust() Safety {
	switch {
	case c.request.Safety == Idempotent:
		return Idempotent
	case !c.request.Carries || c.request.Derives || c.overlaps || !c.keyValid():
		return Unsafe
	case c.request.Safety == Keyed, c.policy.Key.Honored, c.outer != nil && c.outer.keyed,
		c.request.above != nil && c.request.above.trust() == Keyed, c.keys().isDeclared():
		return Keyed
	}
	return Unsafe
}

// keyValid reports whether the callee still remembers the key, as far as is
// known, and has not said that it ignores it.
func (c *Call) keyValid() bool {
	r := c.ring.Load()
	if r == nil {
		return c.began == 0 || c.began.since() <= c.policy.Key.ValidFor
	}
	first := r.intention().FirstSent
	return !r.isIgnored() && (first.IsZero() || time.Since(first) <= c.policy.Key.ValidFor)
}

// keyLost reports whether a repeat was safe by its key alone, and is no more: the
// key is forgotten, ignored, or not sent to where a redirect leads.
func (c *Call) keyLost() bool {
	switch r := c.request; {
	case !c.isRequest:
		return c.safety == Keyed && !c.last.Verdict.Repeatable && !c.keyValid()
	case r.Read, r.Safety == Idempotent:
		return false
	case r.Carries && !r.Derives:
		return !c.keyValid()
	default:
		return r.Following != nil
	}
}

// inDoubt reports whether the intention may have been applied by what was sent
// before: by this call, by the previous redirect hop, or by an equal call in an
// earlier attempt of the operation around, unless that was declared idempotent.
func (c *Call) inDoubt() bool {
	if c.unknown || c.sent > 0 || c.outer == nil || c.outer.idempotent {
		return c.unknown
	}
	r := c.ring.Load()
	return r != nil && r.isInDoubt()
}
