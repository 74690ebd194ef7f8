package retry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
)

// Options are what a layer needs beside its policies. Nil stands for the zero
// value, which works.
type Options struct {
	// Classifiers are asked in order before the rules of package classify and
	// the Statuses of a [Policy]. A transport asks them about a failed response
	// too, as a StatusError of package httpclient without its body. They are not
	// asked about a response that itself forbids a repeat, and cannot take a hint
	// away that it gave.
	Classifiers []classify.Classifier
	// Observer is told what happens; nil for nobody.
	Observer Observer
	// MaxDestinations bounds the destinations whose state a [Layer] keeps.
	// Zero means 1,024.
	MaxDestinations int
}

// checked returns a copy of o with its defaults applied, or what is wrong with it.
func (o *Options) checked() (*Options, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	var problems []error
	if c.MaxDestinations < 0 {
		problems = append(problems, &fieldError{
			field: "MaxDestinations", value: strconv.Itoa(c.MaxDestinations), allowed: fmt.Sprintf("1 or more, or 0 for %d", defaultMaxDestinations),
		})
	}
	for i, classifier := range c.Classifiers {
		if classifier == nil {
			problems = append(problems, &fieldError{field: fmt.Sprintf("Classifiers[%d]", i), value: "nil", allowed: "a function"})
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("retry: bad options: %w", errors.Join(problems...))
	}
	c.Classifiers = slices.Clone(c.Classifiers)
	c.MaxDestinations = orElse(c.MaxDestinations, defaultMaxDestinations)
	return &c, nil
}

// Destination is a callee with its own policy, breaker, budget and pushback.
// It may be shared by goroutines, and should be: calls through two handles of
// one layer share their state, calls through two NewDestination do not.
type Destination struct {
	name   string
	layer  *Layer  // nil for one made by NewDestination
	policy *Policy // nil: the layer's for this name
	state  *state  // nil with a layer
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
	o, err := opts.checked()
	if err != nil {
		return nil, err
	}
	policy := p.withDefaults()
	return &Destination{name: name, policy: &policy, state: newState(name, &policy, o)}, nil
}

// With returns a handle with another policy for some calls. It shares breaker,
// budget and pushback with d, whose policy has the settings of these three; only
// whether a hint is kept from other calls is p's to say.
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
func (d *Destination) resolve() (p *Policy, st *state) {
	if d.layer == nil {
		d.state.calls.Add(1)
		return d.policy, d.state
	}
	p, st = d.layer.resolve(d.name)
	if d.policy != nil {
		p = d.policy
	}
	return p, st
}

// state is what a process knows of a destination.
type state struct {
	name    string
	opts    *Options
	breaker *breaker.Breaker
	budget  *bucket
	pause   *pause
	calls   *atomic.Int64 // under way
}

// newState returns the state of a destination that nothing is known of. p has
// been validated.
func newState(name string, p *Policy, o *Options) *state {
	return &state{name: name, opts: o, breaker: newBreaker(name, p, o), budget: newBucket(p.Budget), pause: &pause{}, calls: &atomic.Int64{}}
}

func newBreaker(name string, p *Policy, o *Options) *breaker.Breaker {
	var onChange func(breaker.Change)
	if observe := o.Observer; observe != nil {
		onChange = func(c breaker.Change) {
			observe(context.Background(), Event{Kind: EventBreakerChange, Destination: name, Breaker: c})
		}
	}
	b, err := breaker.New(name, p.Breaker, onChange)
	if err != nil {
		panic(err) // Policy.Validate asks the breaker's settings too
	}
	return b
}

// under returns the state under a new policy p in place of old.
func (s *state) under(p, old *Policy, o *Options) *state {
	next := *s
	if p.Breaker.WithDefaults() != old.Breaker.WithDefaults() {
		next.breaker = newBreaker(s.name, p, o)
	}
	if p.Budget != old.Budget {
		next.budget = newBucket(p.Budget)
	}
	return &next
}

func (s *state) leave() { s.calls.Add(-1) }

// idle reports whether s holds nothing that a new state would not hold.
func (s *state) idle() bool {
	left, _ := s.pause.left()
	return s.calls.Load() == 0 && left == 0 && s.breaker.State() == breaker.Closed && s.budget.full()
}

// DestinationState is what a process knows of a destination at one moment.
type DestinationState struct {
	Name        string        // the destination's name
	Breaker     breaker.State // closed too if the policy disables it
	RetryAt     time.Time     // when an open breaker lets a probe through; else the zero time
	Budget      float64       // retries that may still be sent; -1: not limited
	PausedFor   time.Duration // what is left of a pushback; 0: none
	Calls       int           // under way
	MaxAttempts int           // of its policy
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

// isMade reports whether d comes from one of the functions that make it.
func (d *Destination) isMade() bool {
	return d != nil && (d.state != nil || d.layer != nil && d.layer.opts != nil)
}

// Snapshot returns the state of d for a status page. Reading changes nothing.
// A destination that nobody made has a zero state.
func (d *Destination) Snapshot() DestinationState {
	if !d.isMade() {
		return DestinationState{}
	}
	if d.layer != nil {
		return d.layer.peek(d.name)
	}
	return d.state.snapshot(d.policy)
}
