package main

import (
	"strings"
	"time"

	"github.com/reintento/reintento/retry"
)

// scenario is one kind of trouble.
type scenario struct {
	name, what string
	fault      fault
	lasts      time.Duration
	safety     retry.Safety
}

var scenarios = []scenario{
	{
		name: "outage", what: "The service refuses every connection for 20 s.",
		fault: fault{down: true}, lasts: 20 * time.Second, safety: retry.Idempotent,
	},
	{
		name: "overload", what: "The service has 30 % of its capacity for 20 s, and works on for callers that have left.",
		fault: fault{capacity: 0.3}, lasts: 20 * time.Second, safety: retry.Idempotent,
	},
	{
		name: "rate limit", what: "The service answers 429 with Retry-After: 5 for 10 s.",
		fault: fault{retryAfter: 5}, lasts: 10 * time.Second, safety: retry.Idempotent,
	},
	{
		name: "lost answers", what: "5 % of the answers are lost after the work is done, for 20 s; writes carry a key.",
		fault: fault{lost: 0.05}, lasts: 20 * time.Second, safety: retry.Keyed,
	},
	{
		name: "partial failure", what: "10 % of the requests are answered 503 for 20 s.",
		fault: fault{refused: 0.1}, lasts: 20 * time.Second, safety: retry.Idempotent,
	},
}

// variant is a change of the policy that is tried beside it.
type variant struct {
	name    string
	control bool // without budget
	only    string
	change  func(*retry.Policy)
}

var variants = []variant{
	{name: "as given", change: func(*retry.Policy) {}},
	{name: "burst 3", only: "outage overload", change: func(p *retry.Policy) { p.Budget.Burst = 3 }},
	{name: "burst 3, announced", only: "overload", change: func(p *retry.Policy) { p.Budget.Burst, p.Announce = 3, true }},
	{name: "burst 3, no breaker", only: "outage overload", change: func(p *retry.Policy) { p.Budget.Burst, p.Breaker.Disabled = 3, true }},
	{name: "no budget", control: true, change: func(p *retry.Policy) { p.Budget.Disabled = true }},
}

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
		for _, v := range variants {
			if v.only == "" || strings.Contains(v.only, sc.name) {
				all = append(all, result{scenario: sc, variant: v})
			}
		}
	}
	return all
}

// name is what the flag -one calls it.
func (r result) name() string { return r.scenario.name + ", " + r.variant.name }
