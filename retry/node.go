package retry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

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

// maxDepth is how deep a policy file may be nested. A policy needs five levels.
const maxDepth = 16

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
