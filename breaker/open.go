package breaker

import (
	"fmt"
	"time"

	"github.com/reintento/reintento/classify"
)

// ErrOpen matches every refusal by a breaker: errors.Is(err, ErrOpen). What is returned is an [*OpenError].
var ErrOpen error = errOpen{}

type errOpen struct{}

func (errOpen) Error() string { return "breaker: open" }

// Verdict makes the value classify itself as its OpenError does, for code that returns it as such.
func (errOpen) Verdict() classify.Verdict { return refused() }

// OpenError is the refusal of an attempt by the breaker called Name. Nothing was sent.
type OpenError struct {
	// Name is what New was given: in package retry, the destination's name.
	Name string
	// RetryAt is when the breaker lets the next attempt through. The zero time means that it is half-open and all
	// places for probes are taken: it depends on their results.
	RetryAt time.Time
}

// Error says which breaker refused, and until when.
func (e *OpenError) Error() string {
	if e.RetryAt.IsZero() {
		return fmt.Sprintf("breaker: %q is half-open and all its probes are under way", e.Name)
	}
	return fmt.Sprintf("breaker: %q is open until %s", e.Name, e.RetryAt.Format("2006-01-02T15:04:05.000Z07:00"))
}

// Is reports whether target is [ErrOpen].
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// Verdict classifies the refusal: Permanent, for a repeat would be refused too, and of origin Local, for the
// destination was not asked.
func (e *OpenError) Verdict() classify.Verdict { return refused() }

func refused() classify.Verdict {
	return classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "breaker_open"}
}
