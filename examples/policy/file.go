package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/reintento/reintento/retry"
)

// file is a policy file without problems: what it means, and what it says.
type file struct {
	organization retry.Organization
	layer        *retry.Layer
	said         struct {
		Default      section
		Destinations map[string]section
	}
}

// section is a part of a file by name.
type section map[string]any

func load(name string) (*file, error) {
	r, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f := &file{}
	var data bytes.Buffer // no longer than a policy file may be
	if f.organization, err = retry.ReadOrganization(io.TeeReader(r, &data)); err != nil {
		return nil, err
	}
	if f.layer, err = retry.NewLayer(f.organization, nil); err != nil {
		return nil, err
	}
	// The organization no longer tells what was said from what was inherited.
	return f, json.Unmarshal(data.Bytes(), &f.said)
}

// origin says where a value of the policy that stands under a name comes from.
func (f *file) origin(under, path string) string {
	var places []string
	if under != "" {
		for name, said := range f.said.Destinations {
			if strings.ToLower(name) == under && said.has(path) {
				places = append(places, name)
			}
		}
	}
	// The statuses of a destination are added to those of the default, any
	// other value of it takes the default's place.
	if (len(places) == 0 || path == "statuses") && f.said.Default.has(path) {
		places = append(places, "default")
	}
	if len(places) == 0 {
		return "built in"
	}
	return strings.Join(places, " and ")
}

// has reports whether the section says the value of a path such as
// "breaker.probes".
func (s section) has(path string) bool {
	name, rest, inside := strings.Cut(path, ".")
	value, ok := s[name]
	if !inside {
		return ok
	}
	members, _ := value.(map[string]any)
	return section(members).has(rest)
}
