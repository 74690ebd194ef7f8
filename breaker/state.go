package breaker

import (
	"fmt"
	"time"
)

// State says what a [Breaker] does with an attempt that asks.
type State uint8

const (
	// Closed lets every attempt through. It is the zero value.
	Closed State = iota
	// Open refuses every attempt until its time is over.
	Open
	// HalfOpen lets a few attempts through, the probes, to find out whether the destination works again.
	HalfOpen
)

// String returns "closed", "open" or "half-open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Change is one change of a breaker's state.
type Change struct {
	Name     string    // the breaker's
	From, To State     // before and after
	RetryAt  time.Time // when a breaker that has opened lets the next attempt through; else the zero time
}
