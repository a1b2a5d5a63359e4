package anycluster

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Result is that of a step.
type Result string

// Results of steps.
const (
	Passed  Result = "passed"
	Failed  Result = "FAILED"
	Skipped Result = "skipped"
)

// Line is what a report says of a step.
type Line struct {
	Step   string
	Result Result
	Took   time.Duration
	Text   string
}

// Report is one page about a test.
type Report struct {
	Began                 time.Time
	LINSTOR, StorageClass string
	// Nodes are the members, each with its operating system, kernel, kubelet and container runtime.
	Nodes []string
	Lines []Line
}

func (r *Report) add(l Line) { r.Lines = append(r.Lines, l) }

// Passed reports whether no step has failed, and at least one was done.
func (r *Report) Passed() bool {
	done := false
	for _, l := range r.Lines {
		if l.Result == Failed {
			return false
		}
		done = done || l.Result == Passed
	}
	return done
}

// WriteTo writes the report as Markdown.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Test of a StorageCluster, %s\n\n", r.Began.UTC().Format("2006-01-02 15:04 UTC"))
	fmt.Fprintf(&b, "LINSTOR %s, StorageClass %s, %d nodes:\n\n", r.LINSTOR, r.StorageClass, len(r.Nodes))
	for _, n := range r.Nodes {
		fmt.Fprintf(&b, "* %s\n", n)
	}
	b.WriteString("\n| step | result | seconds | |\n|---|---|---|---|\n")
	for _, l := range r.Lines {
		seconds := ""
		if l.Result != Skipped {
			seconds = fmt.Sprintf("%.0f", l.Took.Seconds())
		}
		text := strings.Join(strings.Fields(strings.ReplaceAll(l.Text, "|", "\\|")), " ")
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.Step, l.Result, seconds, text)
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}
