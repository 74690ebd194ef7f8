package classify

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// As marks an error as being of a class, whatever it looks like. The mark
// overrides the class alone: origin, reason and hint stay those of err. A class
// that does not exist marks it as Ambiguous. The error keeps its text and, for
// errors.Is and errors.As, its identity. As(class, nil) is nil.
func As(class Class, err error) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, class: class}
}

// After marks an error as Retryable, but not before d has passed. A negative d
// is taken for 0, which asks for no wait. The error keeps its text and, for
// errors.Is and errors.As, its identity. After(d, nil) is nil.
func After(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, class: Retryable, hinted: true, after: d}
}

// marked is an error whose class somebody has declared.
type marked struct {
	err    error
	class  Class
	hinted bool
	after  time.Duration
}

func (m *marked) Error() string { return m.err.Error() }

func (m *marked) Unwrap() error { return m.err }

func (m *marked) Verdict() Verdict {
	v := Error(m.err)
	v.Class = m.class
	if m.hinted {
		v.RetryAfter = m.after
	}
	return v.checked()
}

// spokenFor returns what somebody has declared about an error: its own type, or
// code that marked it.
func spokenFor(err error) (Verdict, bool) {
	e, ok := find(err, declared, nil)
	return e.Verdict, ok
}

// declared reads the declaration of one error of a chain.
func declared(err error) (evidence, bool) {
	if e, ok := err.(interface{ Verdict() Verdict }); ok {
		return evidence{Verdict: e.Verdict().checked()}, true
	}
	if p, ok := as[*backoff.PermanentError](err); ok {
		v := Error(p.Err)
		v.Class = Permanent
		return evidence{Verdict: v.checked()}, true
	}
	return evidence{}, false
}
