package retry

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
)

// Options are what a layer needs beside its policies. Nil stands for the zero
// value, which works.
type Options struct {
	// Classifiers are asked in order before the rules of package classify.
	Classifiers []classify.Classifier
	// Observer is told what happens; nil for nobody.
	Observer Observer
	// MaxDestinations bounds the destinations whose state a [Layer] keeps.
	// Zero means 1,024.
	MaxDestinations int
}

func (o *Options) orZero() *Options {
	if o == nil {
		return &Options{}
	}
	c := *o
	return &c
}

// Destination is a callee with its own policy, breaker, budget and pushback.
// It may be shared by goroutines, and should be: calls through two handles of
// one layer share their state, calls through two NewDestination do not.
type Destination struct {
	name   string
	layer  *Layer   // nil for one made by NewDestination
	opts   *Options // nil with a layer
	policy *Policy  // nil: the layer's for this name
	state  *state   // nil with a layer
}

// NewDestination returns a destination for a program with one callee. A program
// with several sets one policy for all with [NewLayer]. The name stands in
// errors, events and logs. A bad policy is an error that names every problem.
func NewDestination(name string, p Policy, opts *Options) (*Destination, error) {
	if name == "" {
		return nil, errors.New("retry: a destination needs a name")
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	o, policy := opts.orZero(), p.withDefaults()
	st, err := newState(name, &policy, o)
	if err != nil {
		return nil, err
	}
	return &Destination{name: name, opts: o, policy: &policy, state: st}, nil
}

// With returns a handle with another policy for some calls. It shares breaker,
// budget and pushback with d, whose policy decides about these three.
func (d *Destination) With(p Policy) (*Destination, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	policy := p.withDefaults()
	c := *d
	c.policy = &policy
	return &c, nil
}

// Name returns the name of the destination.
func (d *Destination) Name() string { return d.name }

// resolve returns what a call needs: it is done once for each call, so that a
// call goes on under the policy it began with. Who resolves calls st.leave.
func (d *Destination) resolve() (p *Policy, st *state, o *Options) {
	if d.layer == nil {
		d.state.calls.Add(1)
		return d.policy, d.state, d.opts
	}
	p, st = d.layer.resolve(d.name)
	if d.policy != nil {
		p = d.policy
	}
	return p, st, d.layer.opts
}

// state is what a process knows of a destination.
type state struct {
	name    string
	breaker *breaker.Breaker
	budget  *bucket
	pause   *pause
	calls   atomic.Int64 // under way
}

func newState(name string, p *Policy, o *Options) (*state, error) {
	var onChange func(breaker.Change)
	if observe := o.Observer; observe != nil {
		onChange = func(c breaker.Change) {
			observe(background, Event{Kind: EventBreakerChange, Destination: name, Breaker: c})
		}
	}
	b, err := breaker.New(name, p.Breaker, onChange)
	if err != nil {
		return nil, fmt.Errorf("retry: destination %q: %w", name, err)
	}
	return &state{name: name, breaker: b, budget: newBucket(p.Budget), pause: &pause{}}, nil
}

func (s *state) leave() { s.calls.Add(-1) }

// idle reports whether s holds nothing that a new state would not hold.
func (s *state) idle() bool {
	left, _ := s.pause.left()
	return s.calls.Load() == 0 && left == 0 && s.breaker.State() == breaker.Closed && s.budget.full()
}

// DestinationState is what a process knows of a destination at one moment.
type DestinationState struct {
	Name        string
	Breaker     breaker.State
	RetryAt     time.Time     // when an open breaker lets a probe through
	Budget      float64       // retries that may still be sent; -1: not limited
	PausedFor   time.Duration // what is left of a pushback
	Calls       int           // under way
	MaxAttempts int
}

func (s *state) snapshot(p *Policy) DestinationState {
	left, _ := s.pause.left()
	budget := -1.0
	if !s.budget.disabled {
		budget = s.budget.left()
	}
	return DestinationState{
		Name: s.name, Breaker: s.breaker.State(), RetryAt: s.breaker.RetryAt(),
		Budget: budget, PausedFor: left, Calls: int(s.calls.Load()), MaxAttempts: p.MaxAttempts,
	}
}

// Snapshot returns the state of d for a status page. Reading changes nothing.
func (d *Destination) Snapshot() DestinationState {
	p, st, _ := d.resolve()
	defer st.leave()
	s := st.snapshot(p)
	s.Calls--
	return s
}
