package retry

import (
	"fmt"
	"slices"
	"strings"
)

// policyReader reads one policy. Only values that are allowed by themselves get
// into it.
type policyReader struct {
	policy   Policy
	defaults *policyReader    // nil for the default itself
	node     *node            // nil if the file does not say the policy
	said     map[string]*node // by path within the policy
	wrong    map[string]bool
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
