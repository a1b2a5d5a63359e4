package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// about is what is said of a release in all its parts.
type about struct {
	// Version is as in v0.2.0, Registry where its image will be.
	Version, Registry string
	// Commit is what is released. Time is that of the commit: a second build, at another time, writes the same.
	Commit string
	Time   time.Time
	// Notes is the text of the changelog's section.
	Notes string
}

var (
	versions   = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-rc\.[1-9]\d*)?$`)
	registries = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*$`)
)

// describe finds out what a version is of.
func describe(ctx context.Context, root, version string) (about, error) {
	commit, err := git(ctx, root, "rev-parse", "HEAD")
	if err != nil {
		return about{}, err
	}
	stamp, err := git(ctx, root, "log", "-1", "--format=%ct")
	if err != nil {
		return about{}, err
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return about{}, err
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return about{}, err
	}
	return about{Version: version, Commit: commit, Time: time.Unix(seconds, 0).UTC(),
		Notes: notes(string(changelog), version)}, nil
}

// complete is an error if there is something that a release needs and this one lacks.
func (a about) complete() error {
	switch {
	case !versions.MatchString(a.Version):
		return fmt.Errorf("the version must have the form v0.2.0 or v0.2.0-rc.1, not %q: set VERSION=…", a.Version)
	case !registries.MatchString(a.Registry):
		return fmt.Errorf("the registry must have the form registry.example.com/storage, not %q: set REGISTRY=…", a.Registry)
	case a.Notes == "":
		return fmt.Errorf("CHANGELOG.md has no [%s] section, or the section is empty", section(a.Version))
	}
	return nil
}

// plain is the version without its first letter, as Helm wants it.
func (a about) plain() string { return strings.TrimPrefix(a.Version, "v") }

// candidate reports whether the release is there to be tried before another one.
func (a about) candidate() bool { return strings.Contains(a.Version, "-") }

// section is that of the changelog which tells of a version: one that is there to be tried has none of its own yet.
func section(version string) string {
	if strings.Contains(version, "-") {
		return "Unreleased"
	}
	return strings.TrimPrefix(version, "v")
}

// notes is a section of a changelog, without its heading; "" if there is none.
func notes(changelog, version string) string {
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(section(version)) + `\].*\n`).FindStringIndex(changelog)
	if heading == nil {
		return ""
	}
	text := changelog[heading[1]:]
	if end := regexp.MustCompile(`(?m)^## `).FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	return strings.TrimSpace(text)
}

// clean is an error if nobody could build that release again: if the version's tag is on another commit, or the work
// tree has what the commit has not.
func clean(ctx context.Context, root, version string) error {
	tags, err := git(ctx, root, "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Split(tags, "\n"), version) {
		return fmt.Errorf("the commit has no tag %[1]s: check out the tag, or create it with git tag -a %[1]s -m %[1]s",
			version)
	}
	changed, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return errors.New("commit or remove these files first, so that the release matches a commit:\n" + changed)
	}
	return nil
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
