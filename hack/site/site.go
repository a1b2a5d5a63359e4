package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// repository is where files are shown that are not part of the site.
	repository = "https://github.com/linstor-dev/storagecluster-operator/"
	docs       = "docs"
	config     = "hack/site/mkdocs.yml"
	navigation = "hack/site/nav.yml"
)

// elsewhere are files whose place in the site is another one than in the repository. The reference has a directory for
// each version of the API.
var elsewhere = map[string]string{
	"docs/api-reference.md": "reference/v1alpha1.md",
	"CHANGELOG.md":          "changelog.md",
	"CONTRIBUTING.md":       "contributing.md",
	"SECURITY.md":           "security.md",
}

// site is the documentation as MkDocs is to get it.
type site struct {
	repo fs.FS
	// places are the paths in the site of all files that it has, by their paths in the repository.
	places map[string]string
	// files are their contents, by their paths in the site.
	files map[string][]byte
	// config is the configuration of MkDocs, with the navigation.
	config []byte
}

// newSite makes the site of a repository. All that is wrong is in the error.
func newSite(repo fs.FS) (*site, error) {
	s := &site{repo: repo, places: maps.Clone(elsewhere), files: map[string][]byte{}}
	err := fs.WalkDir(repo, docs, func(name string, d fs.DirEntry, err error) error {
		if ext := path.Ext(name); err == nil && !d.IsDir() && (ext == ".md" || ext == ".svg") && s.places[name] == "" {
			s.places[name] = strings.TrimPrefix(name, docs+"/")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find the pages: %w", err)
	}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(s.places)) {
		if err := s.add(name); err != nil {
			wrong = append(wrong, err)
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	return s, s.configure()
}

// add adds a file of the repository.
func (s *site) add(name string) error {
	content, err := fs.ReadFile(s.repo, name)
	if err != nil {
		return err
	}
	place := s.places[name]
	if path.Ext(name) != ".md" {
		s.files[place] = content
		return nil
	}
	text, err := s.page(name, string(content))
	s.files[place] = []byte(text)
	return err
}

// configure makes MkDocs' configuration.
func (s *site) configure() error {
	base, err := fs.ReadFile(s.repo, config)
	if err != nil {
		return err
	}
	text, err := fs.ReadFile(s.repo, navigation)
	if err != nil {
		return err
	}
	nav, err := s.expand(text)
	if err != nil {
		return fmt.Errorf("%s: %w", navigation, err)
	}
	s.config = slices.Concat(base, nav)
	return nil
}

// write writes the site to a directory: mkdocs.yml, and the pages in docs.
func (s *site) write(dir string) error {
	pages := filepath.Join(dir, docs)
	if err := os.RemoveAll(pages); err != nil {
		return err
	}
	for name, content := range s.files {
		file := filepath.Join(pages, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "mkdocs.yml"), s.config, 0o600)
}
