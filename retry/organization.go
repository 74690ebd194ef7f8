package retry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/reintento/reintento/classify"
)

// maxFile is how much of a policy file is read.
const maxFile = 1 << 20

// maxProblems is how many problems of a policy file are named. A file that has
// more is not one that somebody wrote.
const maxProblems = 1000

// maxDepth is how deep a policy file may be nested. A policy needs five levels.
const maxDepth = 16

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

// Policy returns the policy under which a call to a destination would begin now,
// zero values replaced by what they mean, and the name that it stands under in
// the organization, in small letters: the destination's own, "*.suffix", or ""
// for the default. It keeps nothing and changes nothing.
func (l *Layer) Policy(destination string) (p Policy, under string) {
	l.mu.Lock()
	org := l.org
	l.mu.Unlock()
	found, under := org.find(destination)
	p = found.clone()
	p.Breaker = p.Breaker.WithDefaults()
	return p, under
}

// clone returns a copy of p that shares no map or slice with it.
func (p Policy) clone() Policy {
	p.Statuses = maps.Clone(p.Statuses)
	p.Key.Methods = slices.Clone(p.Key.Methods)
	return p
}

// destinationNames is what destinationName allows.
const destinationNames = "a name, scheme://host:port without a path, host:port, host or *.suffix"

// destinationName reports whether an organization can have a destination of
// this name.
func destinationName(name string) bool {
	domain, wild := strings.CutPrefix(name, "*")
	switch {
	case name == "", strings.Contains(domain, "*"):
		return false
	case wild:
		return len(domain) > 1 && domain[0] == '.'
	}
	scheme, authority, isURL := strings.Cut(strings.ToLower(name), "://")
	if isURL && (scheme == "http" || scheme == "https") {
		// Requests have no destination with more than that in its name.
		return authority != "" && !strings.ContainsAny(authority, "/?#@")
	}
	return true
}

// file is a policy file while it is read.
type file struct {
	data     []byte
	problems []*FileError
	more     int // beyond maxProblems
}

// node is a value of a file, with its place.
type node struct {
	in    *node  // nil for the whole file
	name  string // as a member of an object
	index int    // as an item of a list

	at     int // offset of the name, or of the value where it has none
	value  int // offset of the value
	kind   byte
	raw    string // a string, number, true, false or null as it is written
	text   string // of a string
	inside []*node
}

// Kinds of nodes are the first byte of the value, with 0 for every number.
const (
	isObject = '{'
	isList   = '['
	isString = '"'
	isNumber = '0'
	isTrue   = 't'
	isFalse  = 'f'
)

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

// policyReader reads one policy. Only values that are allowed by themselves get
// into it.
type policyReader struct {
	policy   Policy
	defaults *policyReader    // nil for the default itself
	node     *node            // nil if the file does not say the policy
	said     map[string]*node // by path within the policy
	wrong    map[string]bool
}

// field is a name that a policy has in a file. read stores the value of n, or
// returns what is allowed in its place; zero is what it means to leave it out.
type field struct {
	name    string
	zero    string
	read    func(f *file, n *node) (allowed string)
	members []field // in place of read: an object
}

// fields says which names a policy has, and what may stand there.
func fields(p *Policy) []field {
	const long = math.MaxInt64
	return []field{
		{name: "max_attempts", zero: "3", read: whole(&p.MaxAttempts, math.MaxInt32)},
		{name: "base_delay", zero: "100ms, or max_delay if that is shorter", read: duration(&p.BaseDelay, 1, long)},
		{name: "max_delay", zero: "5s", read: duration(&p.MaxDelay, 1, long)},
		{name: "throttle_delay", zero: "1s, or max_delay if that is shorter", read: duration(&p.ThrottleDelay, 1, long)},
		{name: "jitter", zero: `"full"`, read: word(&p.Jitter, FullJitter, EqualJitter, NoJitter)},
		{name: "max_retry_after", zero: "30s", read: duration(&p.MaxRetryAfter, 1, long)},
		{name: "deadline", zero: "30s", read: limit(&p.Deadline)},
		{name: "attempt_timeout", zero: "10s, or deadline or breaker.window if that is shorter", read: limit(&p.AttemptTimeout)},
		{name: "budget", members: []field{
			{name: "burst", zero: "10", read: whole(&p.Budget.Burst, math.MaxInt32)},
			{name: "ratio", zero: "0.2", read: share(&p.Budget.Ratio)},
			{name: "per_second", zero: "0.01", read: number(&p.Budget.PerSecond, math.MaxFloat64, "a number above 0")},
			{name: "disabled", zero: "false", read: boolean(&p.Budget.Disabled)},
		}},
		{name: "breaker", members: []field{
			{name: "window", zero: "30s", read: duration(&p.Breaker.Window, time.Millisecond, 24*time.Hour)},
			{name: "min_results", zero: "20", read: whole(&p.Breaker.MinResults, 1_000_000)},
			{name: "failure_ratio", zero: "0.5", read: share(&p.Breaker.FailureRatio)},
			{name: "open_for", zero: "5s", read: duration(&p.Breaker.OpenFor, time.Millisecond, 24*time.Hour)},
			{name: "max_open_for", zero: "1m0s, or open_for if that is longer", read: duration(&p.Breaker.MaxOpenFor, time.Millisecond, 24*time.Hour)},
			{name: "probes", zero: "3", read: whole(&p.Breaker.Probes, 1_000_000)},
			{name: "disabled", zero: "false", read: boolean(&p.Breaker.Disabled)},
		}},
		{name: "key", members: []field{
			{name: "header", zero: strconv.Quote(defaultKeyHeader), read: header(&p.Key.Header)},
			{name: "format", zero: `"raw"`, read: word(&p.Key.Format, Raw, StructuredString)},
			{name: "honored", zero: "false", read: boolean(&p.Key.Honored)},
			{name: "methods", zero: `["POST", "PATCH"]`, read: methods(&p.Key.Methods)},
			{name: "valid_for", zero: "24h0m0s", read: duration(&p.Key.ValidFor, 1, long)},
		}},
		{name: "statuses", zero: "{}", read: statuses(&p.Statuses)},
		{name: "private_pushback", zero: "false", read: boolean(&p.PrivatePushback)},
		{name: "announce", zero: "false", read: boolean(&p.Announce)},
	}
}

// read reads the policy that n is.
func (r *policyReader) read(f *file, n *node) {
	r.node, r.said, r.wrong = n, make(map[string]*node), make(map[string]bool)
	r.object(f, n, "", fields(&r.policy))
	r.contradictions(f)
}

// object reads the members of n, which lie under prefix in the policy.
func (r *policyReader) object(f *file, n *node, prefix string, members []field) {
	if n.kind != isObject {
		r.wrong[strings.TrimSuffix(prefix, ".")] = true
		f.bad(n, "allowed is an object with "+oneOf(names(members), "and"))
		return
	}
	for _, m := range n.inside {
		i := slices.IndexFunc(members, func(m2 field) bool { return m2.name == m.name })
		if i < 0 {
			f.unknown(m, names(members))
			continue
		}
		member, path := members[i], prefix+m.name
		r.said[path] = m
		if member.members != nil {
			r.object(f, m, path+".", member.members)
			continue
		}
		if allowed := member.read(f, m); allowed != "" {
			r.wrong[path] = true
			zero := "is " + member.zero
			if r.defaults != nil {
				zero = "is what default says"
			}
			f.bad(m, fmt.Sprintf("allowed is %s; left out it %s", allowed, zero))
		}
	}
}

// contradictions reports values that are allowed by themselves but not
// together.
func (r *policyReader) contradictions(f *file) {
	for _, c := range inFile(r.policy) {
		r.contradiction(f, c)
	}
}

// inFile returns the contradictions of p, with that of the breaker, which in a
// Go literal is the breaker's own to find.
func inFile(p Policy) []*fieldError {
	all := p.contradictions()
	if b := p.Breaker.WithDefaults(); b.OpenFor > b.MaxOpenFor {
		all = append(all, &fieldError{
			field: "Breaker.MaxOpenFor", value: b.MaxOpenFor.String(),
			relation: "at least", other: "Breaker.OpenFor", limit: b.OpenFor,
		})
	}
	return all
}

// contradiction reports c at the value that stands in this policy. Where a
// destination has both sides from the default, and the default by itself is
// without fault, the destination is named.
func (r *policyReader) contradiction(f *file, c *fieldError) {
	path, other := snake(c.field), snake(c.other)
	if r.isWrong(path) || r.isWrong(other) {
		return
	}
	n, with := r.said[path], r.said[other]
	switch {
	case n != nil:
		f.problem(n.value, n, fmt.Sprintf("%s: allowed is %s %s, which is %v%s", n.brief(), c.relation, other, c.limit, r.source(f, other)))
	case with != nil:
		// Only the other side stands here: tell it from there.
		turned := map[string]string{"at most": "at least", "at least": "at most"}[c.relation]
		f.problem(with.value, with, fmt.Sprintf("%s: allowed is %s %s, which is %s%s", with.brief(), turned, path, c.value, r.source(f, path)))
	case r.defaults != nil && !r.defaults.contradicts(c.field):
		f.problem(r.node.at, r.node, fmt.Sprintf("%s is %s%s: allowed is %s %s, which is %v%s",
			path, c.value, r.source(f, path), c.relation, other, c.limit, r.source(f, other)))
	}
}

// contradicts reports whether the policy has a contradiction of that field, so
// that those who inherit it need not be told again.
func (r *policyReader) contradicts(field string) bool {
	return slices.ContainsFunc(inFile(r.policy), func(c *fieldError) bool { return c.field == field })
}

// isWrong reports whether the value that holds for a path was refused, here or
// in the default.
func (r *policyReader) isWrong(path string) bool {
	section, _, _ := strings.Cut(path, ".")
	if r.wrong[""] || r.wrong[path] || r.wrong[section] {
		return true
	}
	return r.said[path] == nil && r.defaults != nil && r.defaults.isWrong(path)
}

// source says where a value comes from that does not stand in this policy.
func (r *policyReader) source(f *file, path string) string {
	switch {
	case r.said[path] != nil:
		return ""
	case r.defaults != nil && r.defaults.said[path] != nil:
		return fmt.Sprintf(" (from default, line %d)", f.line(r.defaults.said[path].value))
	}
	return " (left out)"
}

// snake returns the path of a field in a file: "breaker.max_open_for" for
// "Breaker.MaxOpenFor".
func snake(field string) string {
	var b strings.Builder
	for i := range len(field) {
		c := field[i]
		if 'A' <= c && c <= 'Z' {
			if i > 0 && field[i-1] != '.' {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

// whole reads a whole number from 1 on.
func whole(to *int, most int) func(*file, *node) string {
	return func(_ *file, n *node) string {
		v, err := strconv.Atoi(n.raw)
		if n.kind != isNumber || err != nil || v < 1 || v > most {
			return fmt.Sprintf("a whole number from 1 to %d", most)
		}
		*to = v
		return ""
	}
}

// number reads a number above 0.
func number(to *float64, most float64, allowed string) func(*file, *node) string {
	return func(_ *file, n *node) string {
		v, err := strconv.ParseFloat(n.raw, 64)
		if n.kind != isNumber || err != nil || v <= 0 || v > most {
			return allowed
		}
		*to = v
		return ""
	}
}

// share reads a number above 0, at most 1.
func share(to *float64) func(*file, *node) string {
	return number(to, 1, "a number above 0, at most 1")
}

func boolean(to *bool) func(*file, *node) string {
	return func(_ *file, n *node) string {
		if n.kind != isTrue && n.kind != isFalse {
			return "true or false"
		}
		*to = n.kind == isTrue
		return ""
	}
}

// duration reads a duration from least to most.
func duration(to *time.Duration, least, most time.Duration) func(*file, *node) string {
	return func(_ *file, n *node) string {
		d, err := time.ParseDuration(n.text)
		if n.kind != isString || err != nil || d < least || d > most {
			if least == 1 {
				return `a duration above 0 as "1.5s"`
			}
			return fmt.Sprintf(`a duration as "1.5s", from %v to %v`, least, most)
		}
		*to = d
		return ""
	}
}

// limit reads a duration above 0, or "none".
func limit(to *time.Duration) func(*file, *node) string {
	above := duration(to, 1, math.MaxInt64)
	return func(f *file, n *node) string {
		if n.kind == isString && n.text == "none" {
			*to = NoLimit
			return ""
		}
		if allowed := above(f, n); allowed != "" {
			return allowed + `, or "none"`
		}
		return ""
	}
}

// word reads one of a few words, which are what the values print.
func word[T fmt.Stringer](to *T, values ...T) func(*file, *node) string {
	return func(_ *file, n *node) string {
		words := make([]string, len(values))
		for i, v := range values {
			if words[i] = v.String(); n.kind == isString && n.text == words[i] {
				*to = v
				return ""
			}
			words[i] = strconv.Quote(words[i])
		}
		return oneOf(words, "or")
	}
}

func header(to *string) func(*file, *node) string {
	return func(_ *file, n *node) string {
		if allowed := keyHeader(n.text); n.kind != isString || allowed != "" {
			return orElse(allowed, keyHeader(""))
		}
		*to = n.text
		return ""
	}
}

// methods reads a list, which may be empty.
func methods(to *[]string) func(*file, *node) string {
	return func(f *file, n *node) string {
		if n.kind != isList {
			return `a list of HTTP methods as ["POST"]`
		}
		read := make([]string, 0, len(n.inside))
		for _, item := range n.inside {
			switch m := item.text; {
			case item.kind != isString || !isToken(m) || m != strings.ToUpper(m):
				f.bad(item, `allowed is an HTTP method in capitals as "POST"`)
			case safeMethod(m):
				f.bad(item, "allowed is a method that writes: a read carries no key")
			default:
				read = append(read, m)
			}
		}
		*to = read
		return ""
	}
}

// statuses reads classes by status, over those that are there.
func statuses(to *map[int]classify.Class) func(*file, *node) string {
	return func(f *file, n *node) string {
		if n.kind != isObject {
			return `an object as {"503": "ambiguous"}`
		}
		for _, member := range n.inside {
			code, err := strconv.Atoi(member.name)
			if err != nil || len(member.name) != 3 || code < 200 {
				f.problem(member.at, member, quoted(member.name)+`: allowed is a final status, "200" to "999"`)
				continue
			}
			var class classify.Class
			if allowed := word(&class, classify.Ambiguous, classify.Retryable, classify.Permanent)(f, member); allowed != "" {
				f.bad(member, "allowed is "+allowed)
				continue
			}
			if *to == nil {
				*to = make(map[int]classify.Class)
			}
			(*to)[code] = class
		}
		return ""
	}
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

// parse makes nodes of the file, and returns nil if it cannot.
func (f *file) parse() *node {
	const allowed = "allowed is one JSON object in UTF-8"
	switch {
	case len(f.data) > maxFile:
		f.unreadable(maxFile, "the input is longer than %d bytes: allowed is 1 MiB", maxFile)
		return nil
	case bytes.HasPrefix(f.data, []byte("\xef\xbb\xbf")):
		f.unreadable(0, "the input begins with a byte order mark (EF BB BF): %s without one", allowed)
		return nil
	case len(bytes.TrimSpace(f.data)) == 0:
		f.unreadable(0, "the input is empty: %s, at least {}", allowed)
		return nil
	}
	for i := 0; i < len(f.data); {
		r, size := utf8.DecodeRune(f.data[i:])
		if r == utf8.RuneError && size == 1 {
			f.unreadable(i, "byte 0x%02X is not UTF-8: %s", f.data[i], allowed)
			return nil
		}
		i += size
	}
	// The decoder's tokens are looked at one by one; whether they are a whole
	// document, and the only one, is known best to the one who sees it at once.
	var whole json.RawMessage
	if err := json.Unmarshal(f.data, &whole); err != nil {
		offset := len(f.data)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			offset = int(syntax.Offset) - 1
		}
		f.unreadable(offset, "%v: %s", err, allowed)
		return nil
	}
	p := &parser{file: f, dec: json.NewDecoder(bytes.NewReader(f.data))}
	p.dec.UseNumber()
	root := &node{}
	if err := p.parse(root, 0); err != nil {
		f.unreadable(int(p.dec.InputOffset()), "%v: %s", err, allowed)
		return nil
	}
	return root
}

// parser makes nodes of tokens.
type parser struct {
	*file
	dec *json.Decoder
}

// next returns the next token and where it begins.
func (p *parser) next() (t json.Token, at int, err error) {
	at = int(p.dec.InputOffset())
	for at < len(p.data) && strings.IndexByte(" \t\r\n,:", p.data[at]) >= 0 {
		at++
	}
	t, err = p.dec.Token()
	return t, at, err
}

// parse reads the value of n, depth levels below the root.
func (p *parser) parse(n *node, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested more than %d levels deep", maxDepth)
	}
	t, at, err := p.next()
	if err != nil {
		return err
	}
	n.value = at
	if n.in == nil || n.in.kind == isList {
		n.at = at
	}
	n.kind = p.data[at]
	switch t := t.(type) {
	case json.Delim:
		return p.inside(n, depth)
	case json.Number:
		n.kind = isNumber
	case string:
		n.text = t
	}
	n.raw = string(p.data[at:p.dec.InputOffset()])
	return nil
}

// inside reads the members of an object or the items of a list up to its end. A
// name that comes twice is reported and read twice, so that the problems of both
// are told.
func (p *parser) inside(n *node, depth int) error {
	first := make(map[string]*node)
	for p.dec.More() {
		member := &node{in: n, index: len(n.inside)}
		if n.kind == isObject {
			t, at, err := p.next()
			if err != nil {
				return err
			}
			member.name, member.at = t.(string), at
			id := member.name
			if n.in != nil && n.in.in == nil && n.name == "destinations" {
				id = strings.ToLower(id)
			}
			if before := first[id]; before != nil {
				p.problem(at, member, fmt.Sprintf("%s comes twice: allowed is once, and it stands in line %d", quoted(member.name), p.line(before.at)))
			} else {
				first[id] = member
			}
		}
		if err := p.parse(member, depth+1); err != nil {
			return err
		}
		n.inside = append(n.inside, member)
	}
	_, _, err := p.next()
	return err
}

// path returns how to find n from the root of the file.
func (n *node) path() string {
	switch {
	case n.in == nil:
		return ""
	case n.in.kind == isList:
		return fmt.Sprintf("%s[%d]", n.in.path(), n.index)
	}
	name := n.name
	if n.in.name == "destinations" || !isFileName(name) {
		name = quoted(name)
	}
	if n.in.in == nil {
		return name
	}
	return n.in.path() + "." + name
}

// isFileName reports whether s looks like a name that a policy may have.
func isFileName(s string) bool {
	return s != "" && len(s) <= maxShown && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// brief returns the value as it is written, if that is short enough to be read.
func (n *node) brief() string {
	switch {
	case n.kind == isObject && len(n.inside) > 0:
		return "{…}"
	case n.kind == isObject:
		return "{}"
	case n.kind == isList && len(n.inside) > 0:
		return "[…]"
	case n.kind == isList:
		return "[]"
	}
	return short(n.raw)
}

// quoted returns a name as it stands in a path.
func quoted(name string) string { return strconv.Quote(short(name)) }

// maxShown is how many bytes of a name or value are shown.
const maxShown = 80

// short cuts off what nobody would read.
func short(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}

func names(fields []field) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	return all
}

// oneOf joins words as "a, b or c".
func oneOf(words []string, last string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// nearest returns the known name that was probably meant: the same but for
// capitals and separators, or at most two letters away. It is empty if there is
// none.
func nearest(name string, known []string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	}
	best, least := "", 3
	for _, k := range known {
		if d := distance(plain(name), plain(k), least); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance returns how many letters must be put in, taken out or replaced to
// make b of a, or limit if that are as many or more.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], limit)
}
