package retry_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/reintento/reintento/retry"
)

func ExampleReadOrganization() {
	o, err := retry.ReadOrganization(strings.NewReader(`{
		"default": {
			"deadline": "10s", "attempt_timeout": "4s",
			"key": {"honored": true}
		},
		"destinations": {
			"api.partner.example": {"max_attempts": 2, "key": {"honored": false}},
			"*.internal.example":  {"deadline": "2s", "attempt_timeout": "1s", "announce": true}
		}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	partner := o.Destinations["api.partner.example"]
	fmt.Println(partner.MaxAttempts, partner.Deadline, partner.AttemptTimeout, partner.Key.Honored)
	internal := o.Destinations["*.internal.example"]
	fmt.Println(internal.MaxAttempts, internal.Deadline, internal.AttemptTimeout, internal.Key.Honored)
	// Output:
	// 2 10s 4s false
	// 0 2s 1s true
}

func ExampleReadOrganization_problems() {
	_, err := retry.ReadOrganization(strings.NewReader(`{
  "default": {"attempt_timeout": "8s"},
  "destinations": {
    "api.partner.example": {
      "max_delay": 2,
      "deadline": "5s",
      "breaker": {"probes": 0}
    }
  }
}`))
	fmt.Println(err)
	// Output:
	// retry: bad policy file: line 5: destinations."api.partner.example".max_delay: 2: allowed is a duration above 0 as "1.5s"; left out it is what default says
	// line 6: destinations."api.partner.example".deadline: "5s": allowed is at least attempt_timeout, which is 8s (from default, line 2)
	// line 7: destinations."api.partner.example".breaker.probes: 0: allowed is a whole number from 1 to 1000000; left out it is what default says
}

func ExamplePolicy_String() {
	p := retry.Policy{
		MaxAttempts: 3, AttemptTimeout: 2 * time.Second, MaxRetryAfter: 3 * time.Second,
		Budget: retry.Budget{Burst: 3},
	}
	fmt.Println(p)
	// Output:
	// attempts: at most 3, each of at most 2s
	// waits: at most 100ms, 200ms (full jitter: from 0 up); after a throttled answer at most 1s, 2s; a
	//   server may ask for up to 3s, and a longer hint ends the call at once
	// longest time: 12.6s; waiting for the end of a pushback, or a lookup given to Reconcile, can take it
	//   to the deadline of 30s
	// load factor: at most 3 requests a call; repeats that fail for load or an outage use up a budget of
	//   3, to which a call that succeeds at once adds 0.2 and each second 0.01: in an outage a process
	//   sends one request for each call, 3 repeats on top for all calls together, and then one more every
	//   1m40s
	// breaker: opens when 50 % of at least 20 results within 30s are failures, refuses for 5s, doubling up
	//   to 1m0s (±20 %), and closes after 3 probes that succeed
}
