// Package breaker answers one question before an attempt: may this callee be called now?
//
// A [Breaker] belongs to one destination. While results are good it is closed and everything passes. Once half of the
// results within the window are failures it opens and refuses for a while, at once and without sending anything; then
// it is half-open and lets a few probes through, whose results close it or open it again for twice as long.
//
// The unit is one attempt, not one call with all its repeats: whoever makes an attempt asks [Breaker.Allow] before it
// and calls [Pass.Settle] after it. What an attempt's failure means is not for the breaker to guess: it is fed with a
// [Result], and [ResultOf] derives one from a verdict. Load is not its business either (that is what a retry budget is
// for); it is for failure that lasts.
//
// A breaker sees results only when they are known. Attempts that were under way when it opened are not called back:
// they run on, and their results, which belong to the past, no longer count.
//
// What a closed breaker counts in its window is left to gobreaker v2, whose types do not appear here. An open one is
// this package's: how long it stays so doubles, has jitter, and is known to the callers it refuses; callbacks run
// without locks; results count when they are known, however long the attempt took. Each process judges by its own
// results: a state shared by a fleet would need a lock held across machines.
package breaker

import (
	"math/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Breaker decides whether one destination may be called. Make one with [New]. Any number of goroutines may use it at
// once; it must not be copied.
type Breaker struct {
	name     string
	settings Settings // with defaults
	onChange []func(Change)

	// phase is replaced when the state changes, so that the state and the time that belongs to it are read together and
	// without the lock. Its address is the identity of the time between two changes.
	phase atomic.Pointer[phase]

	mu        sync.Mutex    // guards what follows, and is held where phase is replaced
	openFor   time.Duration // the next opening, without jitter
	untold    []Change
	isTelling bool
}

// phase is the time between two changes of state.
type phase struct {
	state   State
	retryAt time.Time // zero unless open

	// What is counted is the phase's own, and guarded by the breaker's mu.
	results *gobreaker.CircuitBreaker[struct{}] // while closed
	taken   int                                 // while half-open: places of probes, under way or successful
	passed  int                                 // successful ones
}

// New returns a closed breaker for the destination called name, which appears in errors and changes and may be empty.
// The error is that of [Settings.Validate].
//
// Each onChange that is not nil is told of every change of state, one at a time and in order, with no lock held: it may
// call the breaker. It runs before the Allow or Settle that caused the change returns, in that goroutine; only when
// goroutines cause changes at the same time, or onChange causes one itself, the call that is already telling tells
// these too. A panic in it passes on to that caller and leaves the breaker in order.
func New(name string, s Settings, onChange ...func(Change)) (*Breaker, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	told := slices.DeleteFunc(slices.Clone(onChange), func(f func(Change)) bool { return f == nil })
	b := &Breaker{name: name, settings: s.WithDefaults(), onChange: told}
	b.openFor = b.settings.OpenFor
	b.phase.Store(b.closed())
	return b, nil
}

// closed returns the phase of a closed breaker that has seen nothing yet.
func (b *Breaker) closed() *phase {
	if b.settings.Disabled {
		return &phase{state: Closed}
	}
	return &phase{state: Closed, results: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:          b.name,
		Interval:      b.settings.Window,
		BucketPeriod:  bucketPeriod(b.settings.Window),
		ReadyToTrip:   b.readyToTrip,
		OnStateChange: func(string, gobreaker.State, gobreaker.State) { b.open() }, // closed to open: after that it is not used any more
	})}
}

// readyToTrip is asked by gobreaker after each failure while closed; mu is held. What is measured is results.
func (b *Breaker) readyToTrip(c gobreaker.Counts) bool {
	results := c.TotalSuccesses + c.TotalFailures
	return results >= uint32(b.settings.MinResults) &&
		float64(c.TotalFailures)/float64(results) >= b.settings.FailureRatio
}

// Allow asks for one attempt. If it may be made, the [Pass] must be settled when the result is known, or a probe's
// place stays taken. If not, the error is an [*OpenError], errors.Is(err, [ErrOpen]) holds, the Pass is the zero Pass,
// and nothing was counted.
//
// While the breaker is closed, Allow takes no lock and reads no clock. The change from open to half-open happens here,
// in the first Allow at or after RetryAt: without traffic an open breaker stays open.
func (b *Breaker) Allow() (Pass, error) {
	if pass, decided, err := b.decide(b.phase.Load()); decided {
		return pass, err
	}
	return b.probe()
}

// decide answers from the phase alone unless a probe may be due.
func (b *Breaker) decide(ph *phase) (p Pass, decided bool, err error) {
	switch ph.state {
	case Closed:
		if b.settings.Disabled {
			return Pass{}, true, nil
		}
		return Pass{breaker: b, phase: ph}, true, nil
	case Open:
		if time.Until(ph.retryAt) > 0 {
			return Pass{}, true, &OpenError{Name: b.name, RetryAt: ph.retryAt}
		}
	}
	return Pass{}, false, nil
}

// probe takes one of the places of a half-open breaker, and makes an open one whose time is over half-open.
func (b *Breaker) probe() (p Pass, err error) {
	b.mu.Lock()
	// Another goroutine may have been here first.
	if pass, decided, err := b.decide(b.phase.Load()); decided {
		b.mu.Unlock()
		return pass, err
	}
	ph := b.phase.Load()
	if ph.state == Open {
		ph = &phase{state: HalfOpen}
		b.change(ph)
	}
	if ph.taken >= b.settings.Probes {
		b.mu.Unlock()
		return Pass{}, &OpenError{Name: b.name}
	}
	ph.taken++
	p = Pass{breaker: b, phase: ph}
	told := false
	defer func() {
		if !told { // onChange panicked: the caller never gets the Pass
			p.Settle(Excluded)
		}
	}()
	b.unlockAndTell()
	told = true
	return p, nil
}

// settle counts a result that belongs to the phase ph.
func (b *Breaker) settle(ph *phase, r Result) {
	b.mu.Lock()
	switch {
	case b.phase.Load() != ph: // it was allowed before the last change
	case ph.state == Closed:
		ph.count(r)
	case r == Excluded:
		ph.taken--
	case r != Success:
		b.openFor = min(2*b.openFor, b.settings.MaxOpenFor)
		b.open()
	default:
		if ph.passed++; ph.passed == b.settings.Probes {
			b.openFor = b.settings.OpenFor
			b.change(b.closed())
		}
	}
	b.unlockAndTell()
}

// count enters a result of a closed breaker. gobreaker takes both of its steps now: had it taken the first one before
// the attempt, the result would fall into the bucket of that time, and be lost if the attempt took longer than the
// window: an outage in which everything times out would go unseen.
func (ph *phase) count(r Result) {
	var err error
	if r != Success { // one outside the list, too: unknown is never taken for good
		err = errFailure
	}
	ph.results.Execute(func() (struct{}, error) { return struct{}{}, err })
}

// open begins the time in which nothing is let through. mu is held.
func (b *Breaker) open() {
	b.change(&phase{state: Open, retryAt: time.Now().Add(jittered(b.openFor, b.settings.MaxOpenFor))})
}

// change begins another phase. mu is held.
func (b *Breaker) change(next *phase) {
	last := b.phase.Swap(next)
	if len(b.onChange) > 0 {
		b.untold = append(b.untold, Change{Name: b.name, From: last.state, To: next.state, RetryAt: next.retryAt})
	}
}

// jittered returns a time within 20 % of d, and not above limit. At the limit it draws from below only instead of
// cutting off, or half of a fleet would come back in the same moment.
func jittered(d, limit time.Duration) time.Duration {
	low, high := d-d/5, min(d+d/5, limit)
	return low + time.Duration(rand.Int63n(int64(high-low)+1))
}

// unlockAndTell releases mu, which is held, and reports the changes made under it. The order holds because only one
// goroutine tells at a time; the others leave theirs to it rather than wait, which could deadlock on a callback.
func (b *Breaker) unlockAndTell() {
	if b.isTelling || len(b.untold) == 0 {
		b.mu.Unlock()
		return
	}
	b.isTelling = true
	defer func() { // also when onChange panics or ends the goroutine
		b.isTelling = false
		b.mu.Unlock()
	}()
	for len(b.untold) > 0 {
		c := b.untold[0]
		b.untold = b.untold[1:]
		b.tell(c)
	}
	b.untold = nil
}

// tell calls onChange without mu, which is held before and after.
func (b *Breaker) tell(c Change) {
	b.mu.Unlock()
	defer b.mu.Lock()
	for _, onChange := range b.onChange {
		onChange(c)
	}
}

// State returns the present state. Reading changes nothing: an open breaker is open until an [Breaker.Allow] at or
// after its RetryAt makes it half-open.
func (b *Breaker) State() State { return b.phase.Load().state }

// RetryAt returns when an open breaker lets the next attempt through; that may be in the past if nobody has asked
// since. It is the zero time if the breaker is closed or half-open. It has a monotonic reading, so that a step of the
// wall clock does not move it.
func (b *Breaker) RetryAt() time.Time { return b.phase.Load().retryAt }
