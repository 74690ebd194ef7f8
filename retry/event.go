package retry

import (
	"context"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
)

// EventKind says what an [Event] tells.
type EventKind uint8

const (
	// EventAttempt: an attempt has ended, well or not. A response whose body
	// breaks after it was handed over is told by a second event of its attempt.
	EventAttempt EventKind = iota + 1
	// EventRetry: another attempt is decided and follows after Wait.
	EventRetry
	// EventStop: the call gives up, for the reason in Stop; or, with Failed not
	// set, would have, had not a lookup found its intention applied.
	EventStop
	// EventBreakerChange: the destination's circuit breaker changed its state.
	EventBreakerChange
	// EventPushback: the destination is paused for Wait, at the callee's wish.
	EventPushback
	// EventLayerSuppressed: this layer makes one attempt, since a layer above
	// repeats. It is told once in each attempt of that layer.
	EventLayerSuppressed
)

// String returns the kind as a word for logs.
func (k EventKind) String() string {
	switch k {
	case EventAttempt:
		return "attempt"
	case EventRetry:
		return "retry"
	case EventStop:
		return "stop"
	case EventBreakerChange:
		return "breaker_change"
	case EventPushback:
		return "pushback"
	case EventLayerSuppressed:
		return "layer_suppressed"
	}
	return "invalid"
}

// Event is one thing that happened to a call or a destination. It holds no
// header value, query or user info, the idempotency key aside and but for what
// stands in the errors of others, which [Plain] prints.
//
// Kind and Destination are always set. An EventBreakerChange has Breaker beside
// them and nothing else. Every other kind has what is known of the call:
// Operation, Intention, Safety, Request and MaxAttempts, and
//
//	EventAttempt          Attempt, Start, Duration, Failed, InBody, Verdict,
//	                      Status, Err, Connections, Resends; and Elapsed, if
//	                      InBody is not set
//	EventRetry            of the attempt that failed Attempt, Start, Duration,
//	                      Failed, Verdict, Status, Err; and Wait
//	EventStop             Attempt, Start, Duration, Failed, Stop, Outcome, Wait;
//	                      of the last attempt Verdict, Status, Err
//	EventPushback         Attempt, Verdict, Status, Wait
//	EventLayerSuppressed  Attempt, that of the layer above
//
// What a kind does not have is the zero value.
type Event struct {
	Kind        EventKind
	Destination string           // the destination's name
	Operation   string           // as given by Named; the method of a request; may be empty
	Intention   Intention        // its Key is empty as long as nobody asked for one
	Safety      Safety           // what the caller declared
	Request     bool             // of a transport, whose method is in Operation; else a function's
	Attempt     int              // from 1; how many there were, for EventStop
	MaxAttempts int              // of the call: 1 where a layer above repeats
	Start       time.Time        // of the attempt, or of the call for EventStop
	Duration    time.Duration    // since Start
	Elapsed     time.Duration    // since the call began, at the end of an attempt; for EventStop, Duration tells that
	Failed      bool             // of the attempt; of the call for EventStop
	InBody      bool             // what failed is the body of a response that had been handed over: no further attempt
	Verdict     classify.Verdict // of the attempt; its RetryAfter is the server's hint
	Status      int              // of a response; 0 for none
	Err         error            // the real error of the attempt
	Connections int              // obtained by a transport in this attempt
	Resends     int              // within this attempt
	Wait        time.Duration    // before the next attempt; of the pause; for EventStop, until the destination may be asked again, 0: unknown
	Stop        error            // why the call gave up
	Outcome     Outcome          // of the intention, for EventStop
	Breaker     breaker.Change   // for EventBreakerChange
}

// Observer is told what happens. It is called with no lock held, from the
// goroutine that it happens in, which waits for it. It may be called by many
// goroutines at once. A panic in it passes through the call. The context is the
// caller's, so that values of it can be read; it is context.Background for
// EventBreakerChange.
type Observer func(ctx context.Context, e Event)
