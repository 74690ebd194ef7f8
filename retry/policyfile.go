package retry

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxFile is how much of a policy file is read.
const maxFile = 1 << 20

// maxProblems is how many problems of a policy file are named. A file that has
// more is not one that somebody wrote.
const maxProblems = 1000

// FileError is one problem of a policy file. Of the error that
// [ReadOrganization] returns, errors.AsType finds the first one, and the
// Unwrap() []error of what it wraps holds all of them, in the order of lines.
type FileError struct {
	// Line is where the problem stands, from 1.
	Line int
	// Path leads to it, as in destinations."api.example.com".breaker.probes. It
	// is empty if the file as a whole is meant.
	Path string
	// Problem names the value, and what is allowed in its place.
	Problem string
}

// Error returns all three in one line.
func (e *FileError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.Problem)
	}
	return fmt.Sprintf("line %d: %s: %s", e.Line, e.Path, e.Problem)
}

// ReadOrganization reads the policy file of an organization: a JSON object
// (RFC 8259) in UTF-8 with the names "default", a policy, and "destinations", an
// object of policies by destination as in [Organization]. Both may be left out.
//
// The names in a policy are those of the fields of [Policy] in snake_case.
// Durations are strings such as "1.5s", see [time.ParseDuration]; "none" for
// deadline and attempt_timeout is [NoLimit]. The words of jitter are "full",
// "equal" and "none", those of key.format "raw" and "structured_string", and
// those of statuses "ambiguous", "retryable" and "permanent", as in
// {"503": "ambiguous"}. Backoff cannot be said in a file.
//
// What is left out in the default is the default of the Go field. What is left
// out in a destination is what the default says: objects are merged name by
// name, statuses too, a list replaces the list. Nothing is shared between the
// policies that are returned. A zero is not left out but said, and refused where
// zero would mean the default.
//
// The error names every problem at once, up to 1,000, each with its line, path, value and what
// is allowed, see [FileError]: names that do not exist, names that come twice
// (destinations in other letters too), wrong types, null, values out of range,
// and values that contradict each other, inherited ones included. An input that
// is no JSON in UTF-8, or is longer than 1 MiB, is one problem. An error of r is
// wrapped.
//
// A file without problems gives an Organization that [NewLayer] accepts.
func ReadOrganization(r io.Reader) (Organization, error) {
	if r == nil {
		return Organization{}, errors.New("retry: policy file: the reader is nil")
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return Organization{}, fmt.Errorf("retry: policy file: %w", err)
	}
	f := &file{data: data}
	o := f.organization()
	if len(f.problems) == 0 {
		return o, nil
	}
	slices.SortStableFunc(f.problems, func(a, b *FileError) int { return cmp.Compare(a.Line, b.Line) })
	if f.more > 0 {
		last := f.problems[len(f.problems)-1].Line
		f.problems = append(f.problems, &FileError{Line: last, Problem: fmt.Sprintf("and %d more problems", f.more)})
	}
	problems := make([]error, len(f.problems))
	for i, p := range f.problems {
		problems[i] = p
	}
	return Organization{}, fmt.Errorf("retry: bad policy file: %w", errors.Join(problems...))
}

// file is a policy file while it is read.
type file struct {
	data     []byte
	problems []*FileError
	more     int // beyond maxProblems
}

// organization reads the whole file. What it returns counts only if there are
// no problems.
func (f *file) organization() (o Organization) {
	root := f.parse()
	if root == nil {
		return o
	}
	const allowed = `allowed is an object with "default" and "destinations"`
	if root.kind != isObject {
		f.bad(root, allowed)
		return o
	}
	var defaults, destinations *node
	for _, n := range root.inside {
		switch n.name {
		case "default":
			defaults = n
		case "destinations":
			destinations = n
		default:
			f.unknown(n, []string{"default", "destinations"})
		}
	}
	var inherited policyReader
	if defaults != nil {
		inherited.read(f, defaults)
		o.Default = inherited.policy
	}
	if destinations == nil {
		return o
	}
	if destinations.kind != isObject {
		f.bad(destinations, "allowed is an object of policies by destination")
		return o
	}
	o.Destinations = make(map[string]Policy, len(destinations.inside))
	for _, n := range destinations.inside {
		if !destinationName(n.name) {
			f.problem(n.at, n, quoted(n.name)+": allowed is "+destinationNames)
			continue
		}
		d := policyReader{policy: inherited.policy.clone(), defaults: &inherited}
		d.read(f, n)
		o.Destinations[n.name] = d.policy
	}
	return o
}

// bad reports that the value of n is none that is allowed.
func (f *file) bad(n *node, problem string) { f.problem(n.value, n, n.brief()+": "+problem) }

// unknown reports a name that does not exist beside those that do.
func (f *file) unknown(n *node, known []string) {
	if len(f.problems) == maxProblems {
		f.more++
		return
	}
	problem := fmt.Sprintf("%s: no such name", quoted(n.name))
	if like := nearest(n.name, known); like != "" {
		problem += fmt.Sprintf(", did you mean %q?", like)
	} else {
		problem += ":"
	}
	f.problem(n.at, n, problem+" allowed is "+oneOf(known, "or"))
}

func (f *file) problem(offset int, n *node, problem string) {
	if len(f.problems) == maxProblems {
		f.more++
		return
	}
	f.problems = append(f.problems, &FileError{Line: f.line(offset), Path: n.path(), Problem: problem})
}

// unreadable reports a problem of the file as a whole.
func (f *file) unreadable(offset int, format string, args ...any) {
	f.problems = append(f.problems, &FileError{Line: f.line(offset), Problem: fmt.Sprintf(format, args...)})
}

// line returns the line of an offset, from 1.
func (f *file) line(offset int) int {
	return 1 + bytes.Count(f.data[:min(max(0, offset), len(f.data))], []byte{'\n'})
}
