package main

import (
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/reintento/reintento/retry"
)

// column is one figure of a result.
type column struct {
	Head, Means string
	of          func(result) string
}

var columns = []column{
	{"in fault", "attempts per call in the fault; a call that is refused unsent counts with none", func(r result) string { return fmt.Sprintf("%.2f", r.inFault()) }},
	{"after", fmt.Sprintf("attempts per call in the %v after it", soon), func(r result) string { return fmt.Sprintf("%.2f", r.afterIt()) }},
	{"peak", "the highest load of a second after the fault, as a share of the capacity", func(r result) string { return fmt.Sprintf("%.2f", r.peak()) }},
	{"goodput", "what succeeded in the time of the fault, as a share of its calls", func(r result) string { return fmt.Sprintf("%.1f %%", 100*r.goodput()) }},
	{"success", "the calls of the fault that succeeded, then or later", func(r result) string { return fmt.Sprintf("%.2f %%", 100*r.success()) }},
	{"fails in", "99 of 100 calls of the fault that fail take no longer", func(r result) string { return fmt.Sprintf("%.2f s", r.FailTime.Round(10*time.Millisecond).Seconds()) }},
	{"recovery", "from the end of the fault until goodput stays at 95 % of the calls", func(r result) string { return recoveryText(r.recovery()) }},
	{"fail after", fmt.Sprintf("the calls of the %v after the fault that failed", after), func(r result) string { return fmt.Sprintf("%.1f %%", 100*r.failAfter()) }},
	{"twice", "writes with a key that were done more than once", func(r result) string {
		if r.scenario.safety != retry.Keyed {
			return "–"
		}
		return strconv.Itoa(r.Twice)
	}},
	{"failed, done", "the calls of the fault that ended in an error although the work was done", func(r result) string { return fmt.Sprintf("%.2f ‰", 1000*r.failedThough()) }},
	{"told not", "calls that were told that the work was not done, although it was", func(r result) string { return strconv.Itoa(r.ToldNot) }},
}

func recoveryText(d time.Duration) string {
	if d < 0 {
		return fmt.Sprintf("> %.0f s", after.Seconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// fleetText says what is simulated.
func (o options) fleetText() string {
	rate := o.rate * float64(o.processes)
	return fmt.Sprintf("%d processes, each making %v calls a second: %.0f in all, %.0f %% of what the service can do", o.processes, o.rate, rate, load*100)
}

// writeTable prints what the columns are, and one line for each scenario and
// variant.
func writeTable(w io.Writer, results []result, o options) {
	fmt.Fprintf(w, "%s\n%s\n\n", o.source, o.fleetText())
	for _, c := range columns {
		fmt.Fprintf(w, "%-12s  %s\n", c.Head, c.Means)
	}
	lines := [][]string{{"scenario", "policy"}}
	for _, c := range columns {
		lines[0] = append(lines[0], c.Head)
	}
	for _, r := range results {
		lines = append(lines, append([]string{r.scenario.name, r.variant.name}, r.figures()...))
	}
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	last := ""
	for _, line := range lines {
		if line[0] == last {
			line[0] = ""
		} else {
			last = line[0]
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%-*s  %-*s", widths[0], line[0], widths[1], line[1])
		for i, cell := range line[2:] {
			fmt.Fprintf(w, "  %*s", widths[i+2], cell)
		}
		fmt.Fprintln(w)
	}
}

// figures returns what the columns say of a result.
func (r result) figures() (cells []string) {
	for _, c := range columns {
		cells = append(cells, c.of(r))
	}
	return cells
}
