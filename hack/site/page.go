package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// page is a page of the repository as MkDocs is to get it.
func (s *site) page(name, text string) (string, error) {
	var wrong []error
	var out []string
	var l lists
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case !l.fenced && strings.HasPrefix(line, "```mermaid"):
			i += slices.Index(append(lines[i+1:], "```"), "```") + 1
			drawing := strings.TrimSuffix(path.Base(name), ".md") + ".svg"
			if s.places[path.Join(path.Dir(name), drawing)] == "" {
				wrong = append(wrong, fmt.Errorf("%s: browsers can render this diagram only with a script from another host: "+
					"save it as %s next to the page", name, drawing))
			}
			out = append(out, "![Diagram]("+drawing+")")
			continue
		case !l.fenced && !strings.HasPrefix(strings.TrimSpace(line), "```"):
			var err error
			if line, err = s.links(name, line); err != nil {
				wrong = append(wrong, err)
			}
		}
		out = append(out, l.next(line)...)
	}
	return strings.Join(out, "\n"), errors.Join(wrong...)
}

// linkOrCode finds the targets of links; code is not looked into.
var linkOrCode = regexp.MustCompile("`[^`]*`|\\]\\([^)\\s]+\\)")

// links writes the links of a line anew.
func (s *site) links(name, line string) (string, error) {
	var wrong []error
	line = linkOrCode.ReplaceAllStringFunc(line, func(found string) string {
		if strings.HasPrefix(found, "`") {
			return found
		}
		target, err := s.target(name, found[len("]("):len(found)-len(")")])
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
		}
		return "](" + target + ")"
	})
	return line, errors.Join(wrong...)
}

// target is where a link of a page leads in the site. What the site does not have is shown by the repository's host.
func (s *site) target(from, target string) (string, error) {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") || strings.HasPrefix(target, "#") {
		return target, nil
	}
	file, anchor, anchored := strings.Cut(target, "#")
	if anchored {
		anchor = "#" + anchor
	}
	file = path.Join(path.Dir(from), file)
	info, err := fs.Stat(s.repo, file)
	if err != nil {
		return target, fmt.Errorf("link to %s: the file does not exist", target)
	}
	place, ours := s.places[file]
	if !ours && info.IsDir() {
		place, ours = s.places[path.Join(file, "README.md")]
	}
	switch {
	case ours:
		there, err := filepath.Rel(path.Dir(s.places[from]), place)
		return filepath.ToSlash(there) + anchor, err
	case info.IsDir():
		return repository + "tree/main/" + file + anchor, nil
	}
	return repository + "blob/main/" + file + anchor, nil
}
