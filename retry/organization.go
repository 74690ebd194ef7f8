package retry

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
)

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

// destinationNames is what destinationName allows.
const destinationNames = "a name, scheme://host:port without a path, host:port, host or *.suffix"

// destinationName reports whether an organization can have a destination of
// this name.
func destinationName(name string) bool {
	domain, wild := strings.CutPrefix(name, "*")
	switch {
	case name == "", strings.Contains(domain, "*"):
		return false
	case wild:
		return len(domain) > 1 && domain[0] == '.'
	}
	scheme, authority, isURL := strings.Cut(strings.ToLower(name), "://")
	if isURL && (scheme == "http" || scheme == "https") {
		// Requests have no destination with more than that in its name.
		return authority != "" && !strings.ContainsAny(authority, "/?#@")
	}
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

// find returns the policy for a destination, the name, in small letters, that it
// stands under ("*.suffix" for a suffix, empty for the default), and whether that
// names the destination itself: a host alone does not name what is at a port of
// its own there.
func (o *organization) find(name string) (p *Policy, under string, named bool) {
	name = strings.ToLower(name)
	if p := o.exact[name]; p != nil {
		return p, name, true
	}
	scheme, authority, isURL := strings.Cut(name, "://")
	if !isURL {
		scheme, authority = "", name
	}
	usual := map[string]string{"http": "80", "https": "443"}[scheme]
	host, port, err := net.SplitHostPort(authority)
	if err != nil {
		host, port = strings.Trim(authority, "[]"), usual
	}
	isUsual := port == usual // also where there is neither
	hostPort := net.JoinHostPort(host, port)
	candidates := []string{scheme + "://" + hostPort, hostPort, authority, host}
	if isUsual {
		candidates = slices.Insert(candidates, 1, scheme+"://"+strings.TrimSuffix(authority, ":"+port))
	}
	for _, candidate := range candidates {
		if p := o.exact[candidate]; p != nil {
			return p, candidate, candidate != host || isUsual && (!isURL || usual != "")
		}
	}
	for _, s := range o.suffixes {
		if strings.HasSuffix(host, s.domain) {
			return s.policy, "*" + s.domain, false
		}
	}
	return o.fallback, "", false
}
