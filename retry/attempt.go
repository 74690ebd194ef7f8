package retry

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/reintento/reintento/classify"
)

// Attempt is the record of one try at an intention.
type Attempt struct {
	Number   int              // from 1
	Start    time.Time        // when it began
	Duration time.Duration    // until its result was known
	Failed   bool             // whether it failed
	Verdict  classify.Verdict // what the failure proves; zero for a success
	Err      error            // the real error; nil for a success and for a response
	Status   int              // the status of a response; 0 for none
	Wait     time.Duration    // the wait before the next attempt; 0 after the last one

	// Connections is how many connections a transport obtained in this attempt,
	// and Resends how often the request was sent again inside it, by the layer
	// below or after a proof that a used connection had carried nothing.
	Connections int
	Resends     int
}

// mark says that a layer above counts attempts, so that no layer below repeats
// as well. It counts only while its attempt runs.
type mark struct {
	ledger     atomic.Pointer[ledger] // see book; closed when the attempt is over
	number     int32                  // of the outermost layer, from 1
	limit      int32
	below      atomic.Int32 // repeats that layers below have begun, which this one does not suppress
	keyed      bool         // the caller trusts the keys of all writes in the attempt
	idempotent bool         // the caller declared that it may be repeated whatever is in it
	remote     bool         // the layer above is in another process
}

// book returns where calls below enter what they did; nil for another process.
func (m *mark) book() *ledger {
	if m.remote {
		return nil
	}
	if l := m.ledger.Load(); l != nil {
		return l
	}
	m.ledger.CompareAndSwap(nil, &ledger{})
	return m.ledger.Load()
}

// close ends the attempt and returns what the calls below it did. A call that
// begins at the same moment is either in that, or sees that it came too late.
func (m *mark) close() seen {
	if m.ledger.CompareAndSwap(nil, endedLedger) {
		return seen{}
	}
	return m.ledger.Load().close()
}

// end ends the attempt, if it has not been closed.
func (m *mark) end() {
	if !m.isOver() {
		m.close()
	}
}

func (m *mark) isOver() bool {
	l := m.ledger.Load()
	return l != nil && l.closed.Load()
}

// attempt is the context of one attempt.
type attempt struct {
	context.Context
	mark
	call *Call
}

// Value finds the attempt itself, and all else in the caller's context.
func (a *attempt) Value(key any) any {
	switch key {
	case aroundKey:
		return a
	case safetyKey:
		if a.call.isRequest { // it was for this request alone
			return nil
		}
	}
	return a.Context.Value(key)
}

// AttemptOf returns the number of the attempt that ctx belongs to, counted from
// 1 by the outermost layer, and 0 outside of an attempt.
func AttemptOf(ctx context.Context) int {
	if m := liveMark(ctx); m != nil {
		return int(m.number)
	}
	return 0
}

// RepeatsBelow returns how many further attempts, after the first of each call,
// layers directly below have begun by now in the attempt that ctx belongs to. It
// is 0 where this layer repeats, for then they do not.
func RepeatsBelow(ctx context.Context) int {
	if m := liveMark(ctx); m != nil {
		return int(m.below.Load())
	}
	return 0
}

// Mark returns the number of the attempt that ctx belongs to and the limit of
// the layer that counts it; ok is false outside of an attempt. Transports
// announce it to services that have a layer of their own.
func Mark(ctx context.Context) (number, limit int, ok bool) {
	if m := liveMark(ctx); m != nil {
		return int(m.number), int(m.limit), true
	}
	return 0, 0, false
}

// WithMark returns a context for work that is done for attempt number of limit
// in another process: layers below make one attempt if limit is above 1. The
// mark counts until done is called, which must happen when the work has been
// answered.
func WithMark(ctx context.Context, number, limit int) (marked context.Context, done func()) {
	a := aroundOf(ctx)
	a.mark = &mark{number: narrow(number), limit: narrow(limit), remote: true}
	return a.within(ctx), a.mark.end
}

// narrow keeps a count of attempts within what a mark holds.
func narrow(n int) int32 { return int32(max(0, min(n, math.MaxInt32))) }

// Detach returns a context for background work that is started inside an
// attempt and outlives it. It carries the values of ctx, but neither its end
// nor its deadline, neither mark nor intention: what runs under it has a layer
// of its own and repeats by itself.
func Detach(ctx context.Context) context.Context {
	return unmarked{context.WithoutCancel(ctx)}
}

// unmarked hides the marks and keys of the attempts around.
type unmarked struct{ context.Context }

func (u unmarked) Value(key any) any {
	switch key {
	case aroundKey, safetyKey:
		return nil
	}
	return u.Context.Value(key)
}

// WithSafety returns a context in which a request through a transport of this
// module has the safety s, whatever its method says. It concerns requests, not
// [Do], whose safety is an argument.
func WithSafety(ctx context.Context, s Safety) context.Context {
	return context.WithValue(ctx, safetyKey, s)
}

// SafetyOf returns what [WithSafety] declared; ok is false if it did not.
func SafetyOf(ctx context.Context) (s Safety, ok bool) {
	s, ok = ctx.Value(safetyKey).(Safety)
	return s, ok
}
