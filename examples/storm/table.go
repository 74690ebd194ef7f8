package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/reintento/reintento/retry"
)

// writeTable prints one line for each scenario and variant.
func writeTable(w io.Writer, results []result, processes int) {
	fmt.Fprintf(w, "%d processes at %.0f %% load\n\n", processes, load*100)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "scenario\tpolicy\tattempts/call\tafter\tpeak after\tgoodput\trecovery\tfails in\tsuccess\ttwice\tfailed, done\ttold not\t")
	last := ""
	for _, r := range results {
		name := r.scenario.name
		if name == last {
			name = ""
		} else if last != "" {
			fmt.Fprintln(t, "\t\t\t\t\t\t\t\t\t\t\t\t")
		}
		last = r.scenario.name
		twice := "–"
		if r.scenario.safety == retry.Keyed {
			twice = strconv.Itoa(r.Twice)
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%.2f\t%.1f %%\t%s\t%s\t%.2f %%\t%s\t%.2f ‰\t%d\t\n",
			name, r.variant.name, r.inFault(), r.afterIt(), r.peak(), 100*r.goodput(), recoveryText(r.recovery()),
			r.FailTime.Round(10*time.Millisecond), 100*r.success(), twice, 1000*float64(r.FailedThough)/float64(r.Total), r.ToldNot)
	}
	t.Flush()
	fmt.Fprint(w, `
attempts/call: in the fault, and in the 15 s after it; calls that are refused unsent count with none
peak after: highest load after the fault, as a share of the capacity
goodput: share of the calls of the fault that succeeded; recovery: until 95 % of new calls do
fails in: 99 of 100 calls that fail in the fault take no longer
twice: writes done twice; failed, done: ended in an error although done; told not: of these, told that it was not done
`)
}

func recoveryText(d time.Duration) string {
	if d < 0 {
		return "never"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
