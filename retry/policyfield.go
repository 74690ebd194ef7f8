package retry

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/reintento/reintento/classify"
)

// field is a name that a policy has in a file. read stores the value of n, or
// returns what is allowed in its place; zero is what it means to leave it out.
type field struct {
	name    string
	zero    string
	read    func(f *file, n *node) (allowed string)
	members []field // in place of read: an object
}

// fields says which names a policy has, and what may stand there.
func fields(p *Policy) []field {
	const long = math.MaxInt64
	return []field{
		{name: "max_attempts", zero: "3", read: whole(&p.MaxAttempts, math.MaxInt32)},
		{name: "base_delay", zero: "100ms, or max_delay if that is shorter", read: duration(&p.BaseDelay, 1, long)},
		{name: "max_delay", zero: "5s", read: duration(&p.MaxDelay, 1, long)},
		{name: "throttle_delay", zero: "1s, or max_delay if that is shorter", read: duration(&p.ThrottleDelay, 1, long)},
		{name: "jitter", zero: `"full"`, read: word(&p.Jitter, FullJitter, EqualJitter, NoJitter)},
		{name: "max_retry_after", zero: "30s", read: duration(&p.MaxRetryAfter, 1, long)},
		{name: "deadline", zero: "30s", read: limit(&p.Deadline)},
		{name: "attempt_timeout", zero: "10s, or deadline or breaker.window if that is shorter", read: limit(&p.AttemptTimeout)},
		{name: "budget", members: []field{
			{name: "burst", zero: "10", read: whole(&p.Budget.Burst, math.MaxInt32)},
			{name: "ratio", zero: "0.2", read: share(&p.Budget.Ratio)},
			{name: "per_second", zero: "0.01", read: number(&p.Budget.PerSecond, math.MaxFloat64, "a number above 0")},
			{name: "disabled", zero: "false", read: boolean(&p.Budget.Disabled)},
		}},
		{name: "breaker", members: []field{
			{name: "window", zero: "30s", read: duration(&p.Breaker.Window, time.Millisecond, 24*time.Hour)},
			{name: "min_results", zero: "20", read: whole(&p.Breaker.MinResults, 1_000_000)},
			{name: "failure_ratio", zero: "0.5", read: share(&p.Breaker.FailureRatio)},
			{name: "open_for", zero: "5s", read: duration(&p.Breaker.OpenFor, time.Millisecond, 24*time.Hour)},
			{name: "max_open_for", zero: "1m0s, or open_for if that is longer", read: duration(&p.Breaker.MaxOpenFor, time.Millisecond, 24*time.Hour)},
			{name: "probes", zero: "3", read: whole(&p.Breaker.Probes, 1_000_000)},
			{name: "disabled", zero: "false", read: boolean(&p.Breaker.Disabled)},
		}},
		{name: "key", members: []field{
			{name: "header", zero: strconv.Quote(defaultKeyHeader), read: header(&p.Key.Header)},
			{name: "format", zero: `"raw"`, read: word(&p.Key.Format, Raw, StructuredString)},
			{name: "honored", zero: "false", read: boolean(&p.Key.Honored)},
			{name: "methods", zero: `["POST", "PATCH"]`, read: methods(&p.Key.Methods)},
			{name: "valid_for", zero: "24h0m0s", read: duration(&p.Key.ValidFor, 1, long)},
		}},
		{name: "statuses", zero: "{}", read: statuses(&p.Statuses)},
		{name: "private_pushback", zero: "false", read: boolean(&p.PrivatePushback)},
		{name: "announce", zero: "false", read: boolean(&p.Announce)},
	}
}

func names(fields []field) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	return all
}

// whole reads a whole number from 1 on.
func whole(to *int, most int) func(*file, *node) string {
	return func(_ *file, n *node) string {
		v, err := strconv.Atoi(n.raw)
		if n.kind != isNumber || err != nil || v < 1 || v > most {
			return fmt.Sprintf("a whole number from 1 to %d", most)
		}
		*to = v
		return ""
	}
}

// number reads a number above 0.
func number(to *float64, most float64, allowed string) func(*file, *node) string {
	return func(_ *file, n *node) string {
		v, err := strconv.ParseFloat(n.raw, 64)
		if n.kind != isNumber || err != nil || v <= 0 || v > most {
			return allowed
		}
		*to = v
		return ""
	}
}

// share reads a number above 0, at most 1.
func share(to *float64) func(*file, *node) string {
	return number(to, 1, "a number above 0, at most 1")
}

func boolean(to *bool) func(*file, *node) string {
	return func(_ *file, n *node) string {
		if n.kind != isTrue && n.kind != isFalse {
			return "true or false"
		}
		*to = n.kind == isTrue
		return ""
	}
}

// duration reads a duration from least to most.
func duration(to *time.Duration, least, most time.Duration) func(*file, *node) string {
	return func(_ *file, n *node) string {
		d, err := time.ParseDuration(n.text)
		if n.kind != isString || err != nil || d < least || d > most {
			if least == 1 {
				return `a duration above 0 as "1.5s"`
			}
			return fmt.Sprintf(`a duration as "1.5s", from %v to %v`, least, most)
		}
		*to = d
		return ""
	}
}

// limit reads a duration above 0, or "none".
func limit(to *time.Duration) func(*file, *node) string {
	above := duration(to, 1, math.MaxInt64)
	return func(f *file, n *node) string {
		if n.kind == isString && n.text == "none" {
			*to = NoLimit
			return ""
		}
		if allowed := above(f, n); allowed != "" {
			return allowed + `, or "none"`
		}
		return ""
	}
}

// word reads one of a few words, which are what the values print.
func word[T fmt.Stringer](to *T, values ...T) func(*file, *node) string {
	return func(_ *file, n *node) string {
		words := make([]string, len(values))
		for i, v := range values {
			if words[i] = v.String(); n.kind == isString && n.text == words[i] {
				*to = v
				return ""
			}
			words[i] = strconv.Quote(words[i])
		}
		return oneOf(words, "or")
	}
}

func header(to *string) func(*file, *node) string {
	return func(_ *file, n *node) string {
		if allowed := keyHeader(n.text); n.kind != isString || allowed != "" {
			return orElse(allowed, keyHeader(""))
		}
		*to = n.text
		return ""
	}
}

// methods reads a list, which may be empty.
func methods(to *[]string) func(*file, *node) string {
	return func(f *file, n *node) string {
		if n.kind != isList {
			return `a list of HTTP methods as ["POST"]`
		}
		read := make([]string, 0, len(n.inside))
		for _, item := range n.inside {
			switch m := item.text; {
			case item.kind != isString || !isToken(m) || m != strings.ToUpper(m):
				f.bad(item, `allowed is an HTTP method in capitals as "POST"`)
			case safeMethod(m):
				f.bad(item, "allowed is a method that writes: a read carries no key")
			default:
				read = append(read, m)
			}
		}
		*to = read
		return ""
	}
}

// statuses reads classes by status, over those that are there.
func statuses(to *map[int]classify.Class) func(*file, *node) string {
	return func(f *file, n *node) string {
		if n.kind != isObject {
			return `an object as {"503": "ambiguous"}`
		}
		for _, member := range n.inside {
			code, err := strconv.Atoi(member.name)
			if err != nil || len(member.name) != 3 || code < 200 {
				f.problem(member.at, member, quoted(member.name)+`: allowed is a final status, "200" to "999"`)
				continue
			}
			var class classify.Class
			if allowed := word(&class, classify.Ambiguous, classify.Retryable, classify.Permanent)(f, member); allowed != "" {
				f.bad(member, "allowed is "+allowed)
				continue
			}
			if *to == nil {
				*to = make(map[int]classify.Class)
			}
			(*to)[code] = class
		}
		return ""
	}
}
