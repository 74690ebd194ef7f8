package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// row is a path with its bounds.
type row struct {
	path               string
	ours               float64 // nanoseconds
	beside             string
	theirs             float64
	most               float64 // of ours/theirs
	allocs, mostAllocs float64
	above              string // what the allocations are counted above; empty: nothing
}

// kept reports whether the row is within its bounds.
func (r row) kept() bool {
	return r.ours/r.theirs <= r.most && (r.mostAllocs < 0 || r.allocs <= r.mostAllocs)
}

// table prints rows as they come.
type table struct {
	w     *tabwriter.Writer // into block
	block bytes.Buffer
	out   io.Writer
	above int // rows that are not within their bounds
}

func newTable(w io.Writer) *table {
	t := &table{out: w}
	t.w = tabwriter.NewWriter(&t.block, 0, 0, 2, ' ', 0)
	return t
}

func (t *table) verdict(kept bool) string {
	if kept {
		return "kept"
	}
	t.above++
	return "ABOVE"
}

func (t *table) add(r row) {
	allowed := "-"
	if r.mostAllocs >= 0 {
		allowed = fmt.Sprintf("<= %.0f", r.mostAllocs)
	}
	allocs := "allocs"
	if r.above != "" {
		allocs += " above " + r.above
	}
	fmt.Fprintf(t.w, "\n%s\ttime\tratio\tallowed\t%s\tallowed\tbounds\n", r.path, allocs)
	fmt.Fprintf(t.w, "  %s\t%s\t%.2f × %s\t<= %.2f\t%.0f\t%s\t%s\n",
		sdk, duration(r.ours), r.ours/r.theirs, r.beside, r.most, r.allocs, allowed, t.verdict(r.kept()))
}

// other adds a contender below the last row.
func (t *table) other(name string, nanoseconds, allocs float64) {
	fmt.Fprintf(t.w, "  %s\t%s\t\t\t%.0f\t\t\n", name, duration(nanoseconds), allocs)
}

// flush prints what was added, as one block with its own columns.
func (t *table) flush() error {
	if err := t.w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(t.block.String()) {
		if _, err := fmt.Fprintln(t.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	t.block.Reset()
	return nil
}

// end says whether every bound was kept.
func (t *table) end() (kept bool, err error) {
	return t.above == 0, t.flush()
}

func duration(nanoseconds float64) string {
	if nanoseconds >= 10_000 {
		return fmt.Sprintf("%.1f µs", nanoseconds/1000)
	}
	return fmt.Sprintf("%.0f ns", nanoseconds)
}
