// Command check runs what a change can break, in two minutes or so: it lints the packages that the change touches,
// compiles, vets and runs the tests of all packages that import them, and the end-to-end tests of their area. "make
// check" starts it. Whether everything works is for "make test" to say.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// options are the command's flags.
type options struct {
	base, lint, parallel string
	dry                  bool
}

func main() {
	var o options
	flag.StringVar(&o.base, "base", "main", "branch or commit to compare with; the change includes uncommitted and "+
		"untracked files")
	flag.StringVar(&o.lint, "lint", "", "path to golangci-lint; if empty, nothing is linted")
	flag.StringVar(&o.parallel, "parallel", "8", "how many tests run concurrently on the simulated cluster")
	flag.BoolVar(&o.dry, "n", false, "print the commands without running them")
	flag.Parse()
	if err := run(context.Background(), o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	files, err := changedFiles(ctx, o.base)
	if err != nil {
		return err
	}
	packages, err := listPackages(ctx)
	if err != nil {
		return err
	}
	p, err := newPlan(files, packages, os.DirFS("."))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Changed since %s: %d files and %d packages (%d including the packages that import them).\n",
		o.base, len(files), len(p.changed), len(p.affected))
	var (
		failed []string
		times  strings.Builder
	)
	for _, step := range p.steps(o) {
		fmt.Fprintln(out, strings.Join(step.command, " "))
		if o.dry {
			continue
		}
		began := time.Now()
		cmd := exec.CommandContext(ctx, step.command[0], step.command[1:]...)
		cmd.Stdout, cmd.Stderr = out, out
		result := "ok"
		if err := cmd.Run(); err != nil {
			result = "FAILED"
			failed = append(failed, step.name)
		}
		fmt.Fprintf(&times, "%8.1f s  %-6s  %s\n", time.Since(began).Seconds(), result, step.name)
	}
	fmt.Fprint(out, times.String())
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// step is one command of the check.
type step struct {
	name    string
	command []string
}

func (p plan) steps(o options) []step {
	var steps []step
	add := func(name string, packages []string, command ...string) {
		if len(packages) > 0 {
			steps = append(steps, step{name, append(command, packages...)})
		}
	}
	add("compile and vet", p.affected, "go", "vet")
	if o.lint != "" {
		add("lint", p.changed, o.lint, "run")
	}
	add("unit tests", p.unit, "go", "test", "-vet=off")
	add("suites", p.suites, "go", "test", "-vet=off", "-p", "1", "-parallel", o.parallel)
	for _, single := range []struct {
		dir   string
		tests []string
	}{{e2eDir, p.e2e}, {chaosDir, p.chaos}} {
		if len(single.tests) > 0 {
			add(single.dir, []string{"./" + single.dir}, "go", "test", "-vet=off", "-parallel", o.parallel, "-run",
				"^("+strings.Join(single.tests, "|")+")$")
		}
	}
	return steps
}

// changedFiles are the files, from the repository's root, in which the work tree differs from where it left base.
func changedFiles(ctx context.Context, base string) ([]string, error) {
	fork, err := output(ctx, "git", "merge-base", base, "HEAD")
	if err != nil {
		return nil, err
	}
	tracked, err := output(ctx, "git", "diff", "--name-only", "--no-renames", strings.TrimSpace(fork))
	if err != nil {
		return nil, err
	}
	untracked, err := output(ctx, "git", "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	return strings.Fields(tracked + untracked), nil
}

// listPackages are all packages of the module.
func listPackages(ctx context.Context) ([]goPackage, error) {
	text, err := output(ctx, "go", "list", "-json=ImportPath,Dir,Imports,TestImports,XTestImports", "./...")
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the repository: %w", err)
	}
	var packages []goPackage
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var pkg goPackage
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the output of go list: %w", err)
		}
		dir, err := filepath.Rel(root, pkg.Dir)
		if err != nil {
			return nil, fmt.Errorf("package %s is not in the repository: %w", pkg.ImportPath, err)
		}
		pkg.Dir = filepath.ToSlash(dir)
		packages = append(packages, pkg)
	}
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
