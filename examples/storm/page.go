package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/reintento/reintento/retry"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is what the template shows.
type page struct {
	Source, Fleet, Service string
	Seed                   int64
	Policy                 []clause
	Columns                []column
	Sections               []section
}

// clause is a line of a policy in words.
type clause struct{ Term, Text string }

// section is one scenario.
type section struct {
	Name, What string
	Panels     []panel
}

// panel is one variant of the policy in a scenario.
type panel struct {
	Name    string
	Control bool
	Changes []clause // what its policy says that the given one does not
	Cells   []string // of the table
	Chart   chart
}

// writePage writes one page that needs nothing else: the same results give the
// same bytes.
func writePage(w io.Writer, results []result, o options) error {
	p := page{
		Source: o.source, Fleet: o.fleetText(), Seed: o.seed,
		Service: fmt.Sprintf("A request takes the service %v, 20 %% more or less. Calls come at random moments, from any process alike. "+
			"The fault begins after %v, and %v follow it.", serviceTime, warmUp, after),
		Policy: words(o.policy), Columns: columns,
	}
	for i, r := range results {
		policy := r.variant.apply(o.policy)
		if i == 0 || results[i-1].scenario.name != r.scenario.name {
			p.Sections = append(p.Sections, section{Name: r.scenario.name, What: r.scenario.what})
		}
		s := &p.Sections[len(p.Sections)-1]
		s.Panels = append(s.Panels, panel{
			Name: r.variant.name, Control: r.control(), Cells: r.figures(),
			Changes: changes(p.Policy, policy),
			Chart:   newChart(r, policy, of(results, r.scenario)),
		})
	}
	return pageTemplate.Execute(w, p)
}

// of returns the results of one scenario.
func of(results []result, sc scenario) (some []result) {
	for _, r := range results {
		if r.scenario.name == sc.name {
			some = append(some, r)
		}
	}
	return some
}

// words returns what a policy says of itself, line by line.
func words(p retry.Policy) (clauses []clause) {
	for line := range strings.Lines(strings.ReplaceAll(p.String(), "\n  ", " ")) { // the page has a width of its own
		term, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		clauses = append(clauses, clause{term, text})
	}
	return clauses
}

// changes returns what p says that given does not.
func changes(given []clause, p retry.Policy) (changed []clause) {
	for i, c := range words(p) {
		if i >= len(given) || c != given[i] {
			changed = append(changed, c)
		}
	}
	if p.Announce {
		changed = append(changed, clause{"announced", "the service is told how long its caller waits, and works on nothing that cannot be in time"})
	}
	return changed
}
