package retry

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
)

var background = context.Background()

// Organization is one policy for everything that a company's programs call.
type Organization struct {
	// Default treats every destination that is not named.
	Default Policy
	// Destinations treats the named ones: "scheme://host:port" (nothing after
	// it, no user info), "host:port" or "host" for HTTP, "*.suffix" for every
	// host below a domain, any name for [Layer.To]. The most exact name wins. A
	// policy here inherits nothing from Default; in a file it does, see
	// [ReadOrganization].
	Destinations map[string]Policy
}

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
		p, named := org.policy(name)
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
	p, _ := l.org.policy(name)
	return newState(name, p, l.opts).snapshot(p)
}

// add makes a place for a destination. l.mu is held.
func (l *Layer) add(name string) *list.Element {
	for len(l.states) >= l.opts.MaxDestinations && l.evict() {
	}
	p, named := l.org.policy(name)
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

// organization is an Organization with its defaults applied, ready to look up.
type organization struct {
	fallback *Policy
	exact    map[string]*Policy
	suffixes []suffix // longest first
}

type suffix struct {
	domain string // ".example.com"
	policy *Policy
}

func (o Organization) resolve() (*organization, error) {
	var problems []error
	check := func(where string, p Policy) *Policy {
		if bad := p.problems(); len(bad) > 0 {
			problems = append(problems, fmt.Errorf("%s: %w", where, errors.Join(bad...)))
			return nil
		}
		d := p.withDefaults()
		return &d
	}
	org := &organization{fallback: check("default", o.Default), exact: make(map[string]*Policy)}
	seen := make(map[string]bool, len(o.Destinations))
	for _, name := range slices.Sorted(maps.Keys(o.Destinations)) {
		p := check(fmt.Sprintf("destination %q", name), o.Destinations[name])
		lower := strings.ToLower(name)
		domain, wild := strings.CutPrefix(lower, "*")
		switch {
		case !destinationName(name):
			problems = append(problems, fmt.Errorf("destination %q: allowed is %s", name, destinationNames))
		case seen[lower]:
			problems = append(problems, fmt.Errorf("destination %q stands twice, in other letters", name))
		case wild:
			org.suffixes = append(org.suffixes, suffix{domain, p})
		default:
			org.exact[lower] = p
		}
		seen[lower] = true
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("retry: bad organization: %w", errors.Join(problems...))
	}
	slices.SortFunc(org.suffixes, func(a, b suffix) int { return len(b.domain) - len(a.domain) })
	return org, nil
}

// policy returns the policy for a destination, and whether it is named itself.
func (o *organization) policy(name string) (p *Policy, named bool) {
	p, under := o.find(name)
	return p, under != "" && under[0] != '*'
}

// find returns the policy for a destination and the name, in small letters,
// that it stands under: "*.suffix" for a suffix, empty for the default.
func (o *organization) find(name string) (p *Policy, under string) {
	name = strings.ToLower(name)
	if p := o.exact[name]; p != nil {
		return p, name
	}
	scheme, authority, isURL := strings.Cut(name, "://")
	if !isURL {
		authority = name
	}
	host, port, err := net.SplitHostPort(authority)
	if err != nil {
		host = strings.Trim(authority, "[]")
		switch scheme {
		case "http":
			port = "80"
		case "https":
			port = "443"
		}
	}
	hostPort := net.JoinHostPort(host, port)
	candidates := []string{authority, hostPort, host}
	if isURL {
		candidates = append([]string{scheme + "://" + hostPort}, candidates...)
	}
	for _, candidate := range candidates {
		if p := o.exact[candidate]; p != nil {
			return p, candidate
		}
	}
	for _, s := range o.suffixes {
		if strings.HasSuffix(host, s.domain) {
			return s.policy, "*" + s.domain
		}
	}
	return o.fallback, ""
}
