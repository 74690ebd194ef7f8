package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// writeTable prints the audit for people.
func (a audit) writeTable(w io.Writer, o options, s *system, interrupted bool) error {
	var b strings.Builder
	row := func(name string, figure any, note string) {
		line := fmt.Sprintf("  %-28s %8v   %s", name, figure, note)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	network, server := s.network.Counts(), s.bank.Counts()

	fmt.Fprintf(&b, "\nAudit: %s client, seed %d", o.client, o.seed)
	if interrupted {
		fmt.Fprintf(&b, ", interrupted: %d of %d payments were begun", a.Intentions, o.n)
	}
	b.WriteString("\n\n")
	row("payments intended", a.Intentions, "")
	row("charged exactly once", a.AppliedOnce, "")
	row("charged twice or more", a.Duplicates, mark(a.Duplicates, "<- money lost"))
	row("never charged", a.Missing, "")
	row("told failed though charged", a.ToldFailedButApplied, mark(a.ToldFailedButApplied, "<- a lie"))
	row("told charged though not", a.toldAppliedButMissing, mark(a.toldAppliedButMissing, "<- a lie"))
	unknown := "no caller was left without an answer"
	if a.Unknown > 0 {
		unknown = fmt.Sprintf("%d of them were charged; those callers must find out before they pay again", a.unknownApplied)
	}
	row("told unknown", a.Unknown, unknown)
	b.WriteString("\n")
	per := float64(a.Attempts) / float64(max(1, a.Intentions))
	row("attempts", a.Attempts, fmt.Sprintf("%.2f a payment, at most %d", per, a.mostAttempts))
	row("waited between them", seconds(a.waited), fmt.Sprintf("summed over %s, at most %s for one payment", workers(o.workers), seconds(a.longestWait)))
	row("breaker opened", a.BreakerOpened, "")
	row("hidden re-sends", a.HiddenResends, "")
	row("requests on the network", network.Requests, fmt.Sprintf("%d cut, %d reset, %d held", network.Cut, network.Reset, network.Slow))
	row("requests at the bank", server.Seen, fmt.Sprintf("%d throttled, %d replayed, %d in progress, %d reconciled",
		server.Throttled, server.Replayed, server.Running, server.Reconciled))
	row("time", seconds(time.Duration(a.ElapsedMS)*time.Millisecond), "")
	fmt.Fprintf(&b, "\n%s\n", a.sentence())
	_, err := io.WriteString(w, b.String())
	return err
}

// sentence is the audit's result in words.
func (a audit) sentence() string {
	switch {
	case a.Duplicates > 0 && a.ToldFailedButApplied+a.toldAppliedButMissing > 0:
		return "Payments were charged twice, and callers were told what is not so."
	case a.Duplicates > 0:
		return "Payments were charged twice."
	case !a.true():
		return "Callers were told what is not so."
	case a.AppliedOnce == a.Intentions && a.Unknown == 0:
		return "Every payment was charged exactly once, and every caller knows it."
	case a.Unknown > 0:
		return "Nobody was charged twice, and everybody was told the truth: some that it is not known."
	}
	return "Nobody was charged twice, and everybody was told the truth."
}

// mark returns what is to be said of a figure that should be 0.
func mark(n int, what string) string {
	if n == 0 {
		return ""
	}
	return what
}

func workers(n int) string {
	if n == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", n)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
