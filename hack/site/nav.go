package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// expand returns the key "nav" of MkDocs' configuration. An entry that ends with a slash stands for the pages of that
// directory, README first. A page that is not there, is there twice or is missing is an error.
func (s *site) expand(text []byte) ([]byte, error) {
	var entries []any
	if err := yaml.UnmarshalStrict(text, &entries); err != nil {
		return nil, err
	}
	n := nav{site: s, seen: map[string]bool{}}
	out, err := n.list(entries)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if path.Ext(name) == ".md" && !n.seen[name] {
			return nil, fmt.Errorf("page %s is not listed", name)
		}
	}
	return yaml.Marshal(map[string]any{"nav": out})
}

type nav struct {
	site *site
	seen map[string]bool
}

func (n *nav) list(entries []any) ([]any, error) {
	var out []any
	for _, e := range entries {
		switch e := e.(type) {
		case string:
			names, err := n.pages(e)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				out = append(out, name)
			}
		case map[string]any:
			for title, below := range e {
				list, single := below.([]any)
				var err error
				if !single {
					below, err = n.one(below)
				} else {
					below, err = n.list(list)
				}
				if err != nil {
					return nil, fmt.Errorf("%s: %w", title, err)
				}
				out = append(out, map[string]any{title: below})
			}
		default:
			return nil, fmt.Errorf("%v is neither a page nor a section", e)
		}
	}
	return out, nil
}

// one is an entry with a title: a page, a directory, or an address.
func (n *nav) one(value any) (any, error) {
	name, ok := value.(string)
	if !ok {
		return nil, fmt.Errorf("%v is not a page", value)
	}
	if strings.Contains(name, "://") {
		return name, nil
	}
	names, err := n.pages(name)
	if err != nil || !strings.HasSuffix(name, "/") {
		return name, err
	}
	return names, nil
}

// pages are the pages that an entry stands for.
func (n *nav) pages(name string) ([]string, error) {
	names := []string{name}
	if dir, all := strings.CutSuffix(name, "/"); all {
		names = nil
		for _, page := range slices.Sorted(maps.Keys(n.site.files)) {
			if path.Dir(page) == dir && path.Ext(page) == ".md" && path.Base(page) != "README.md" {
				names = append(names, page)
			}
		}
		names = append([]string{path.Join(dir, "README.md")}, names...)
	}
	for _, page := range names {
		if n.site.files[page] == nil {
			return nil, fmt.Errorf("page %s does not exist", page)
		}
		if n.seen[page] {
			return nil, fmt.Errorf("page %s is listed twice", page)
		}
		n.seen[page] = true
	}
	return names, nil
}
