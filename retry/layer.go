package retry

import (
	"container/list"
	"maps"
	"slices"
	"sync"
)

// Layer is the one stateful retry layer of a process: an organization's
// policies and the live state of every destination. It may be shared by
// goroutines. Its memory is bounded by [Options].MaxDestinations.
type Layer struct {
	opts *Options

	mu     sync.Mutex
	org    *organization
	states map[string]*list.Element // of *kept
	order  *list.List               // most lately used first
}

// kept is a destination's place in a layer.
type kept struct {
	policy *Policy
	named  bool
	state  *state
}

const defaultMaxDestinations = 1024

// NewLayer returns a layer for an organization. A bad policy is an error that
// names every problem of every destination.
func NewLayer(o Organization, opts *Options) (*Layer, error) {
	org, err := o.resolve()
	if err != nil {
		return nil, err
	}
	options, err := opts.checked()
	if err != nil {
		return nil, err
	}
	return &Layer{opts: options, org: org, states: make(map[string]*list.Element), order: list.New()}, nil
}

// To returns a handle for a destination. It costs nothing and keeps nothing: the
// policy and the state are looked up in each call.
func (l *Layer) To(destination string) *Destination {
	return &Destination{name: destination, layer: l}
}

// Replace makes o the policies of the layer, at once for every call that begins
// afterwards; calls under way end under the policy they began with. A
// destination whose breaker settings stay equal keeps its breaker, one whose
// budget settings stay equal its budget, and every one its pause. After an error
// nothing has changed.
func (l *Layer) Replace(o Organization) error {
	org, err := o.resolve()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, e := range l.states {
		k := e.Value.(*kept)
		p, _, named := org.find(name)
		e.Value = &kept{policy: p, named: named, state: k.state.under(p, k.policy, l.opts)}
	}
	l.org = org
	return nil
}

// Snapshot returns the state of every destination that the layer knows, by name,
// for a status page. Reading changes nothing.
func (l *Layer) Snapshot() []DestinationState {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]DestinationState, 0, len(l.states))
	for _, name := range slices.Sorted(maps.Keys(l.states)) {
		k := l.states[name].Value.(*kept)
		all = append(all, k.state.snapshot(k.policy))
	}
	return all
}

// Policy returns the policy under which a call to a destination would begin now,
// zero values replaced by what they mean, and the name that it stands under in
// the organization, in small letters: the destination's own, "*.suffix", or ""
// for the default. It keeps nothing and changes nothing.
func (l *Layer) Policy(destination string) (p Policy, under string) {
	l.mu.Lock()
	org := l.org
	l.mu.Unlock()
	found, under, _ := org.find(destination)
	p = found.clone()
	p.Breaker = p.Breaker.WithDefaults()
	return p, under
}

// resolve returns the policy and the state of a destination, and counts a call.
func (l *Layer) resolve(name string) (*Policy, *state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.states[name]
	if e == nil {
		e = l.add(name)
	} else if l.order.Front() != e {
		l.order.MoveToFront(e)
	}
	k := e.Value.(*kept)
	k.state.calls.Add(1)
	return k.policy, k.state
}

// peek returns the state of a destination as it is, without making a place.
func (l *Layer) peek(name string) DestinationState {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.states[name]; e != nil {
		k := e.Value.(*kept)
		return k.state.snapshot(k.policy)
	}
	p, _, _ := l.org.find(name)
	return newState(name, p, l.opts).snapshot(p)
}

// add makes a place for a destination. l.mu is held.
func (l *Layer) add(name string) *list.Element {
	for len(l.states) >= l.opts.MaxDestinations && l.evict() {
	}
	p, _, named := l.org.find(name)
	e := l.order.PushFront(&kept{policy: p, named: named, state: newState(name, p, l.opts)})
	l.states[name] = e
	return e
}

// evict forgets a destination and reports whether there was one to forget: the
// longest unused one that knows nothing, else the longest unused one that has no
// call under way. Those that the policy names stay. If every one is in use the
// layer grows past its bound, by no more than there are calls at once. l.mu is
// held.
func (l *Layer) evict() bool {
	var victim *list.Element
	for e := l.order.Back(); e != nil; e = e.Prev() {
		k := e.Value.(*kept)
		if k.named || k.state.calls.Load() > 0 {
			continue
		}
		if k.state.idle() {
			victim = e
			break
		}
		if victim == nil {
			victim = e
		}
	}
	if victim == nil {
		return false
	}
	delete(l.states, victim.Value.(*kept).state.name)
	l.order.Remove(victim)
	return true
}
