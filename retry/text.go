package retry

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// String says in a few lines what a call under p can come to at worst: how many
// attempts, how long each of them and each wait may take, how long the whole, and
// how many requests the destination gets for it. Zero values count as what they
// mean. For a policy that [Policy.Validate] refuses it says why. No line is longer
// than 100 columns; one that begins with blanks goes on with the one before it.
//
// The numbers are those of the loop. What an operation does after its context has
// ended is not in them, nor is the time that a transport gives to an upload that
// makes progress, and to a response's body.
func (p Policy) String() string {
	if err := p.Validate(); err != nil {
		return err.Error()
	}
	d := p.withDefaults()
	lines := []string{
		"attempts: " + d.attemptsText(),
		"waits: " + d.waitsText(),
		"longest time: " + d.longestText(),
		"load factor: " + d.loadText(),
		"breaker: " + d.breakerText(),
	}
	for i, line := range lines {
		lines[i] = wrapped(line)
	}
	return strings.Join(lines, "\n")
}

// wrapped breaks a line between words, before it gets too long.
func wrapped(line string) string {
	const most = 100
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(line) {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+length > most:
			b.WriteString("\n  ")
			column = 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String()
}

func (p *Policy) attemptsText() string {
	if p.AttemptTimeout < 0 {
		return fmt.Sprintf("at most %d, without a timeout of its own", p.MaxAttempts)
	}
	return fmt.Sprintf("at most %d, each of at most %v", p.MaxAttempts, p.AttemptTimeout)
}

func (p *Policy) waitsText() string {
	if p.MaxAttempts == 1 {
		return "none, nothing is repeated"
	}
	hint := fmt.Sprintf("a server may ask for up to %v, and a longer hint ends the call at once", p.MaxRetryAfter)
	if p.Backoff != nil {
		return "by a schedule of its own; " + hint
	}
	return fmt.Sprintf("at most %s%s; after a throttled answer at most %s; %s",
		series(p.BaseDelay, p.MaxDelay, p.MaxAttempts-1), p.jitterText(),
		series(p.ThrottleDelay, p.MaxDelay, p.MaxAttempts-1), hint)
}

func (p *Policy) jitterText() string {
	switch p.Jitter {
	case FullJitter:
		return " (full jitter: from 0 up)"
	case EqualJitter:
		return " (equal jitter: from half of it up)"
	}
	return " (no jitter: exactly that)"
}

// longestText names the end of a call in which every attempt uses its time up
// and every wait is the longest.
func (p *Policy) longestText() string {
	busy, bounded := p.longest()
	switch {
	case p.Deadline > 0 && bounded && busy < p.Deadline:
		return fmt.Sprintf("%v; waiting for the end of a pushback, or a lookup given to Reconcile, can take it to the deadline of %v", busy, p.Deadline)
	case p.Deadline > 0 && bounded:
		return fmt.Sprintf("%v, the deadline; without it, attempts and waits could take %v", p.Deadline, busy)
	case p.Deadline > 0:
		return fmt.Sprintf("%v, the deadline", p.Deadline)
	case bounded:
		return fmt.Sprintf("%v, if the caller sets no deadline; waiting for the end of a pushback, or a lookup given to Reconcile, comes on top", busy)
	}
	return "no limit but the caller's own deadline"
}

// longest returns the sum of all attempts and waits, each at its longest, as if
// there were no deadline; bounded is false if one of them has no limit.
func (p *Policy) longest() (sum time.Duration, bounded bool) {
	if p.AttemptTimeout < 0 || p.Backoff != nil && p.MaxAttempts > 1 {
		return 0, false
	}
	hinted := p.MaxRetryAfter
	if p.Jitter != NoJitter {
		hinted = saturatedAdd(hinted, min(hinted/10, time.Second))
	}
	sum = p.AttemptTimeout
	delay, throttled := p.BaseDelay, p.ThrottleDelay
	for left := p.MaxAttempts - 1; left > 0 && sum < forever; left-- {
		next := saturatedAdd(max(delay, throttled, hinted), p.AttemptTimeout)
		if delay == p.MaxDelay && throttled == p.MaxDelay {
			// All that are left are as long as this one.
			if time.Duration(left) > (forever-sum)/next {
				return 0, false
			}
			return sum + next*time.Duration(left), true
		}
		sum = saturatedAdd(sum, next)
		delay, throttled = doubled(delay, p.MaxDelay), doubled(throttled, p.MaxDelay)
	}
	return sum, sum < forever
}

func (p *Policy) loadText() string {
	if p.MaxAttempts == 1 {
		return "1 request a call"
	}
	text := fmt.Sprintf("at most %d requests a call", p.MaxAttempts)
	b := p.Budget
	if b.Disabled {
		return text + fmt.Sprintf(", and without a budget that is what an outage brings: %d times the load", p.MaxAttempts)
	}
	return text + fmt.Sprintf("; repeats that fail for load or an outage use up a budget of %d, to which a call that succeeds at once adds %v and each second %v: "+
		"in an outage a process sends one request for each call, %s on top for all calls together, and then %s",
		b.Burst, b.Ratio, b.PerSecond, counted(b.Burst, "repeat"), everyText(b.PerSecond))
}

// everyText says how often a rate lets a repeat through.
func everyText(perSecond float64) string {
	seconds := 1 / perSecond
	if seconds >= forever.Seconds() {
		return "no more"
	}
	return fmt.Sprintf("one more every %v", round(time.Duration(seconds*float64(time.Second))))
}

func (p *Policy) breakerText() string {
	b := p.Breaker.WithDefaults()
	if b.Disabled {
		return "none"
	}
	return fmt.Sprintf("opens when %s %% of at least %s within %v are failures, refuses for %v, doubling up to %v (±20 %%), and closes after %s that succeed",
		strconv.FormatFloat(b.FailureRatio*100, 'g', 4, 64), counted(b.MinResults, "result"), b.Window, b.OpenFor, b.MaxOpenFor, counted(b.Probes, "probe"))
}

// series names n bounds that double from base up to limit.
func series(base, limit time.Duration, n int) string {
	const most = 4
	var bounds []string
	for d := base; len(bounds) < n; d = doubled(d, limit) {
		if len(bounds) == most && n > most+1 {
			bounds = append(bounds, fmt.Sprintf("… (%d waits, never above %v)", n, limit))
			break
		}
		bounds = append(bounds, d.String())
	}
	return strings.Join(bounds, ", ")
}

// doubled returns twice d, and at most limit.
func doubled(d, limit time.Duration) time.Duration {
	if d >= limit-d {
		return limit
	}
	return 2 * d
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
