package retry

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

// Outcome is what is known of a whole intention at its end. The zero value is
// [Unknown]: where nothing is proved, it may have happened.
type Outcome uint8

const (
	// Unknown means that the intention may have been applied.
	Unknown Outcome = iota
	// Applied means that the callee said it did it.
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
