package main

import (
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// explain tells what a file means for a destination.
func explain(name, destination string, stdout io.Writer) int {
	f, err := load(name)
	if err != nil {
		printProblems(stdout, name, err)
		return exitProblems
	}
	// State is kept for scheme, host and port: path and query of a URL make no destination.
	if u, err := url.Parse(destination); err == nil && u.Host != "" {
		destination = u.Scheme + "://" + u.Host
	}
	p, under := f.layer.Policy(destination)
	switch {
	case under == "":
		fmt.Fprintf(stdout, "%s: not named in %s, so its default holds\n", destination, name)
	case strings.HasPrefix(under, "*"):
		fmt.Fprintf(stdout, "%s: the policy of %q in %s\n", destination, under, name)
	default:
		fmt.Fprintf(stdout, "%s: the policy of its own in %s\n", destination, name)
	}

	fmt.Fprintln(stdout, "\nAt worst")
	for line := range strings.SplitSeq(p.String(), "\n") {
		fmt.Fprintln(stdout, " ", line)
	}

	fmt.Fprintln(stdout, "\nTimeline of a call whose attempts take all their time and fail, and whose waits are the longest")
	fmt.Fprintln(stdout, "(a read or a trusted write; the budget is full, the breaker closed, the server asks for no wait)")
	printTimeline(stdout, timeline(p))
	if p.MaxAttempts > 1 {
		fmt.Fprintf(stdout, "  turned away at once, attempts begin at the latest at: %s\n", beginnings(p, p.BaseDelay))
		fmt.Fprintf(stdout, "  throttled at once, attempts begin at the latest at:   %s\n", beginnings(p, p.ThrottleDelay))
	}
	for _, note := range notes(p) {
		fmt.Fprintln(stdout, "  note:", note)
	}

	fmt.Fprintln(stdout, "\nWhat is repeated")
	printRepeats(stdout, p)

	fmt.Fprintln(stdout, "\nWhere each value comes from")
	w := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
	for _, v := range values(reflect.ValueOf(p), "") {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", v.path, v.text, f.origin(under, v.path))
	}
	w.Flush()
	return exitFine
}

// value is one value of a policy, by its path in a file.
type value struct{ path, text string }

// values lists the fields of a policy that a file can say.
func values(v reflect.Value, prefix string) (all []value) {
	for f, field := range v.Fields() {
		path := prefix + snake(f.Name)
		switch {
		case f.Tag.Get("json") == "-":
		case f.Type.Kind() == reflect.Struct:
			all = append(all, values(field, path+".")...)
		default:
			all = append(all, value{path, text(field.Interface())})
		}
	}
	return all
}

// snake is how a file writes the name of a field.
func snake(name string) string {
	var b strings.Builder
	for i, c := range name {
		if 'A' <= c && c <= 'Z' && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(c)
	}
	return strings.ToLower(b.String())
}

// text is how a value is shown.
func text(v any) string {
	switch v := v.(type) {
	case time.Duration:
		if v == retry.NoLimit {
			return "none"
		}
	case []string:
		return or(strings.Join(v, " "), "no methods")
	case map[int]classify.Class:
		var all []string
		for _, code := range slices.Sorted(maps.Keys(v)) {
			all = append(all, fmt.Sprintf("%d %v", code, v[code]))
		}
		return or(strings.Join(all, ", "), "as everywhere")
	}
	return fmt.Sprint(v)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
