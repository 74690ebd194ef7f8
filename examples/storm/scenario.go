package main

import (
	"slices"
	"time"

	"github.com/reintento/reintento/retry"
)

// scenario is one kind of trouble.
type scenario struct {
	name, what string
	fault      fault
	lasts      time.Duration
	queue      time.Duration // the work that may wait; zero: no limit
	safety     retry.Safety
	variants   []variant // the last one is the control
}

// shortQueue is what a service holds that knows its limits.
const shortQueue = 4 * time.Second

var scenarios = []scenario{
	{
		name: "outage", what: "The service refuses every connection for 20 s.",
		fault: fault{down: true}, lasts: 20 * time.Second, queue: shortQueue, safety: retry.Idempotent,
		variants: []variant{asGiven, burst3, noBreaker, noBudget},
	},
	{
		name: "overload", what: "The service has 30 % of its capacity for 20 s. It works on for callers that have left, holds 4 s of work in its queue, and answers 503 to the rest.",
		fault: fault{capacity: 0.3}, lasts: 20 * time.Second, queue: shortQueue, safety: retry.Idempotent,
		variants: []variant{asGiven, burst3, announced, noBreaker, noBudget},
	},
	{
		name: "long queue", what: "The same overload of a service that refuses nothing: its queue has no limit, and its callers time out before it reaches them.",
		fault: fault{capacity: 0.3}, lasts: 20 * time.Second, safety: retry.Idempotent,
		variants: []variant{burst3, announced, noBudget, nothing},
	},
	{
		name: "rate limit", what: "The service answers 429 with Retry-After: 5 for 10 s.",
		fault: fault{retryAfter: 5}, lasts: 10 * time.Second, queue: shortQueue, safety: retry.Idempotent,
		variants: []variant{asGiven, burst3, noBudget},
	},
	{
		name: "lost answers", what: "5 % of the answers are lost after the work is done, for 20 s. The calls are writes with a key.",
		fault: fault{lost: 0.05}, lasts: 20 * time.Second, queue: shortQueue, safety: retry.Keyed,
		variants: []variant{asGiven, noBudget},
	},
	{
		name: "partial failure", what: "10 % of the requests are answered 503 for 20 s.",
		fault: fault{refused: 0.1}, lasts: 20 * time.Second, queue: shortQueue, safety: retry.Idempotent,
		variants: []variant{asGiven, noBudget},
	},
}

// variant is a change of the policy that is tried beside it.
type variant struct {
	name   string
	change func(*retry.Policy)
}

var (
	asGiven = variant{"as given", func(*retry.Policy) {}}
	burst3  = variant{"burst 3", func(p *retry.Policy) {
		p.Budget.Burst, p.Budget.Disabled = 3, false
	}}
	announced = variant{"burst 3, announced", func(p *retry.Policy) {
		burst3.change(p)
		p.Announce = true
	}}
	noBreaker = variant{"burst 3, no breaker", func(p *retry.Policy) {
		burst3.change(p)
		p.Breaker.Disabled = true
	}}
	noBudget = variant{"no budget", func(p *retry.Policy) { p.Budget.Disabled = true }}
	nothing  = variant{"no budget, no breaker", func(p *retry.Policy) {
		p.Budget.Disabled, p.Breaker.Disabled = true, true
	}}
)

func (v variant) apply(p retry.Policy) retry.Policy {
	v.change(&p)
	return p
}

// result is one scenario under one variant.
type result struct {
	scenario scenario
	variant  variant
	*measures
}

// plan returns what there is to simulate, without its measures.
func plan() (all []result) {
	for _, sc := range scenarios {
		for _, v := range sc.variants {
			all = append(all, result{scenario: sc, variant: v})
		}
	}
	return all
}

// planned returns the simulation of that name.
func planned(name string) (r result, ok bool) {
	all := plan()
	i := slices.IndexFunc(all, func(r result) bool { return r.name() == name })
	if i < 0 {
		return result{}, false
	}
	return all[i], true
}

// name is what the flag -one calls it.
func (r result) name() string { return r.scenario.name + ", " + r.variant.name }

// control reports whether it shows what the budget is worth.
func (r result) control() bool {
	last := r.scenario.variants[len(r.scenario.variants)-1]
	return r.variant.name == last.name
}
