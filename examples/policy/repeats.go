package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// row is a kind of failure, and whether it is repeated.
type row struct {
	failure                  string
	idempotent, keyed, other bool
}

// idempotent are the methods whose repeat is harmless by the standard.
var idempotent = []string{"GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "PUT", "DELETE"}

// repeats says what is repeated under p: by the class that the failure has, and
// by whether a repeat could have a second effect.
func repeats(p retry.Policy) []row {
	codes := byClass(p)
	list := func(class classify.Class, kinds string) string {
		return strings.Join(append([]string{kinds}, codes[class]...), ", ")
	}
	honored := p.Key.Honored && len(keyedMethods(p)) > 0
	rows := []row{
		{list(classify.Retryable, "not sent (refused, no name for the moment, no handshake)"), true, true, true},
		{list(classify.Ambiguous, "answer lost, timeout"), true, honored, false},
	}
	if _, own := p.Statuses[http.StatusConflict]; honored && !own {
		rows = append(rows, row{"409: the first attempt is still running", false, true, false})
	}
	return append(rows, row{list(classify.Permanent, "every other failure"), false, false, false})
}

// byClass sorts statuses into classes, as those of package classify and of the
// destination's own say. Permanent are only those that are said so here.
func byClass(p retry.Policy) map[classify.Class][]string {
	hint := http.Header{"Retry-After": {"1"}}
	all := map[classify.Class][]string{}
	for code := 200; code <= 999; code++ {
		if own, declared := p.Statuses[code]; declared {
			all[own] = append(all[own], strconv.Itoa(code)+" (by statuses)")
			continue
		}
		v, failed := classify.Status(code, nil, time.Time{})
		hinted, _ := classify.Status(code, hint, time.Time{})
		if !failed || http.StatusText(code) == "" && !slices.Contains(vendor, code) {
			continue
		}
		if hinted.Class != v.Class {
			all[hinted.Class] = append(all[hinted.Class], fmt.Sprintf("%d with Retry-After", code))
		}
		if v.Class != classify.Permanent {
			all[v.Class] = append(all[v.Class], strconv.Itoa(code)+once(code))
		}
	}
	return all
}

// vendor are statuses that no standard names and that are met all the same.
var vendor = []int{499, 509, 520, 521, 522, 523, 524, 525, 527, 529, 598, 599}

// once marks statuses whose second time in one call ends it.
func once(code int) string {
	if code == http.StatusMisdirectedRequest || code == http.StatusTooEarly {
		return " (once)"
	}
	return ""
}

// keyedMethods are the methods whose repeat the key makes harmless.
func keyedMethods(p retry.Policy) []string {
	return slices.DeleteFunc(slices.Clone(p.Key.Methods), func(m string) bool { return slices.Contains(idempotent, m) })
}

func printRepeats(w io.Writer, p retry.Policy) {
	if p.MaxAttempts == 1 {
		fmt.Fprintln(w, "  nothing: max_attempts is 1")
		return
	}
	keyed := keyedMethods(p)
	fmt.Fprintf(w, "  A: %s\n", strings.Join(idempotent, ", "))
	if len(keyed) > 0 {
		trust := "\n     not known to be honored: a caller that gives a key of its own declares that it is"
		if p.Key.Honored {
			trust = fmt.Sprintf(" honored for %v", p.Key.ValidFor)
		}
		fmt.Fprintf(w, "  B: %s with the key in %s,%s\n", strings.Join(keyed, ", "), p.Key.Header, trust)
	}
	fmt.Fprintln(w, "  C: every other method")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	cells := func(a, b, c, text string) {
		if len(keyed) == 0 {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", a, c, text)
			return
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", a, b, c, text)
	}
	cells("A", "B", "C", "failure or answer")
	for _, r := range repeats(p) {
		lines := listed(r.failure)
		cells(yes(r.idempotent), yes(r.keyed), yes(r.other), lines[0])
		for _, line := range lines[1:] {
			cells("", "", "", "  "+line)
		}
	}
	t.Flush()
}

// listed breaks a list into lines of a width that fits beside the columns.
func listed(list string) (lines []string) {
	const most = 88
	for i, item := range strings.SplitAfter(list, ", ") {
		if i == 0 || len(lines[len(lines)-1])+len(item) > most {
			lines = append(lines, "")
		}
		lines[len(lines)-1] += item
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
