package gobin

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// progressEvery is how often a running build reports.
const progressEvery = 15 * time.Second

// Compilation is a "go build" that says how far it is.
type Compilation struct {
	// Dir is a directory of the module. Default: the working directory.
	Dir string
	// Package is what is built, and Out the file or directory that is written.
	Package, Out string
	// Flags are further flags of "go build".
	Flags []string
	// Static leaves out C.
	Static bool
	// Log receives a line every 15 seconds.
	Log io.Writer
}

// Run compiles. The Go tool's -v output, one line a compiled package, feeds the progress line.
func (c *Compilation) Run(ctx context.Context) error {
	total, err := c.total(ctx)
	if err != nil {
		return err
	}
	args := append([]string{"build", "-v"}, c.Flags...)
	cmd := c.command(ctx, append(args, "-o", c.Out, c.Package)...)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("build %s: %w", c.Package, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build %s: %w", c.Package, err)
	}
	p := progress{started: time.Now(), total: total}
	done := make(chan struct{})
	go p.report(c.Log, done)
	tail := p.count(pipe)
	close(done)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", c.Package, err, tail)
	}
	return nil
}

func (c *Compilation) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if c.Static {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	}
	return cmd
}

// total is of how many packages the build consists. Those that the Go tool has compiled before are counted in.
func (c *Compilation) total(ctx context.Context) (int, error) {
	cmd := c.command(ctx, "list", "-deps", c.Package)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("list the packages of %s: %w: %s", c.Package, err, stderr.String())
	}
	return bytes.Count(out, []byte("\n")), nil
}

// progress is how far a build is.
type progress struct {
	started  time.Time
	packages atomic.Int64
	total    int
}

// count reads to the end of r and returns the last lines that are no package paths: the compiler's complaints.
func (p *progress) count(r io.Reader) string {
	const keep = 20
	var tail []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if line != "" && !strings.ContainsAny(line, " \t:") {
			p.packages.Add(1)
			continue
		}
		tail = append(tail, line)
		if len(tail) > keep {
			tail = tail[1:]
		}
	}
	return strings.Join(tail, "\n")
}

func (p *progress) report(log io.Writer, done <-chan struct{}) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			fmt.Fprintln(log, p.line(time.Since(p.started)))
		}
	}
}

// line says how far the build is, and, once that can be estimated, how long it still takes. That is too much where
// some of the packages had been compiled before.
func (p *progress) line(after time.Duration) string {
	const few = 20 // a twentieth of the packages tells nothing yet
	done, estimate := int(p.packages.Load()), ""
	if left := p.total - done; left > 0 && done > p.total/few {
		minutes := (after * time.Duration(left) / time.Duration(done)).Minutes()
		estimate = fmt.Sprintf(", about %.0f min left", math.Ceil(minutes))
	}
	return fmt.Sprintf("  %4.0f s: %d of about %d packages compiled%s", after.Seconds(), done, p.total, estimate)
}
