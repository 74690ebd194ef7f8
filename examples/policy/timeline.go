package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/reintento/reintento/retry"
)

// step is something that happens in a call, or its end.
type step struct {
	from, to time.Duration // to is negative for the end of the call
	text     string
}

// maxAttemptsShown is how many attempts a timeline shows.
const maxAttemptsShown = 8

// timeline tells a call under p, a policy without zero values, in which every
// attempt takes all the time that it may and fails, and every wait is the
// longest of the policy's own.
func timeline(p retry.Policy) (steps []step) {
	at := time.Duration(0)
	end := func(text string) []step { return append(steps, step{from: at, to: -1, text: text}) }
	for n := 1; ; n++ {
		attempt := fmt.Sprintf("attempt %d of %d", n, p.MaxAttempts)
		length, cut := p.AttemptTimeout, false
		if left := p.Deadline - at; p.Deadline > 0 && (length < 0 || length >= left) {
			length, cut = left, true
		}
		switch {
		case length < 0:
			return end(attempt + " begins: it ends when the caller's own deadline does")
		case cut:
			steps = append(steps, step{at, at + length, attempt + ", cut by the deadline"})
		default:
			steps = append(steps, step{at, at + length, attempt + ", cut by its timeout"})
		}
		at += length
		switch {
		case cut:
			return end("stop: the deadline")
		case n == p.MaxAttempts:
			return end("stop: the attempts are used up")
		case n == maxAttemptsShown:
			return end(fmt.Sprintf("and so on, up to attempt %d", p.MaxAttempts))
		}
		wait := longestWait(p, p.BaseDelay, n)
		if p.Deadline > 0 && wait >= p.Deadline-at {
			return end(fmt.Sprintf("stop: no attempt could follow a wait of %v before the deadline of %v", wait, p.Deadline))
		}
		steps = append(steps, step{at, at + wait, "wait" + spread(p.Jitter)})
		at += wait
	}
}

// longestWait is the longest wait after failure n, in the series that begins
// with first.
func longestWait(p retry.Policy, first time.Duration, n int) time.Duration {
	for ; n > 1 && first < p.MaxDelay; n-- {
		first = min(first*2, p.MaxDelay)
	}
	return min(first, p.MaxDelay)
}

func spread(j retry.Jitter) string {
	switch j {
	case retry.FullJitter:
		return ", or any shorter one"
	case retry.EqualJitter:
		return ", or down to half of it"
	}
	return ""
}

// beginnings says when attempts that fail at once begin.
func beginnings(p retry.Policy, first time.Duration) string {
	at, all := time.Duration(0), []string{"0s"}
	for n := 1; n < p.MaxAttempts; n++ {
		at += longestWait(p, first, n)
		if p.Deadline > 0 && at >= p.Deadline {
			break
		}
		if n == maxAttemptsShown {
			all = append(all, "…")
			break
		}
		all = append(all, at.String())
	}
	return strings.Join(all, ", ")
}

// notes says what can end a call before its timeline does.
func notes(p retry.Policy) (all []string) {
	if b := p.Budget; !b.Disabled && b.Burst < p.MaxAttempts-1 {
		all = append(all, fmt.Sprintf("the budget holds %d, which is less than the %d that one call can take", b.Burst, p.MaxAttempts-1))
	}
	if b := p.Breaker; !b.Disabled && b.MinResults < p.MaxAttempts {
		all = append(all, fmt.Sprintf("the breaker may open after %s, and so within one call", counted(b.MinResults, "result")))
	}
	return all
}

func printTimeline(w io.Writer, steps []step) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range steps {
		to := ""
		if s.to >= 0 {
			to = "to " + s.to.String()
		}
		fmt.Fprintf(t, "  %v\t%s\t%s\n", s.from, to, s.text)
	}
	t.Flush()
}
