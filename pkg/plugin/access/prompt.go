package access

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
)

// Streams are where a command reads and writes, and what is there.
type Streams struct {
	genericclioptions.IOStreams
	// Interactive reports whether somebody can be asked.
	Interactive bool
	// Terminal reports whether the output is one.
	Terminal bool
	// Width of the terminal, or the one that COLUMNS asks for; 0 if there is neither.
	Width int
	// Colour reports whether the output shows colours.
	Colour bool
}

// Standard are the streams of the process.
func Standard() Streams {
	s := Streams{IOStreams: genericclioptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}}
	s.Interactive = isTerminal(os.Stdin) && isTerminal(os.Stderr)
	if s.Terminal = isTerminal(os.Stdout); s.Terminal {
		s.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			s.Width = width
		}
	}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && s.Width == 0 {
		s.Width = columns
	}
	return s
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Widths of what is shown. Wider lines are hard to read, and in narrower ones the tree has no room.
const (
	usualWidth = 80
	leastWidth = 40
	mostWidth  = 140
)

// Style is how trees are rendered there.
func (s *Streams) Style(noColour bool) tree.Style {
	width := s.Width
	if width <= 0 {
		width = usualWidth
	}
	return tree.Style{Width: min(max(width, leastWidth), mostWidth), Colour: s.Colour && !noColour}
}

// Confirm asks whether to go on. The question is on the error stream, so that the output can be piped. Where nobody
// can be asked it refuses: a script says --yes.
func (s *Streams) Confirm(ctx context.Context, question string, yes bool) error {
	switch {
	case yes:
		return nil
	case !s.Interactive:
		return errors.New("nothing was changed: cannot prompt for confirmation without a terminal; use --yes to skip the " +
			"prompt")
	}
	fmt.Fprintf(s.ErrOut, "%s [y/N] ", tree.Clean(question))
	answer := make(chan string, 1)
	go func() { // a read cannot be called off
		line, _ := bufio.NewReader(s.In).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(s.ErrOut)
		return exit.Refusedf("nothing was changed")
	case a := <-answer:
		if a == "y" || a == "yes" {
			return nil
		}
		return exit.Refusedf("nothing was changed")
	}
}

// Say writes lines, safe for a terminal: names, messages and errors in them come from the cluster.
func Say(w io.Writer, lines ...string) {
	for _, l := range lines {
		fmt.Fprintln(w, tree.Clean(l))
	}
}

// Show writes lines that package tree has rendered: it has cleaned what is in them, and coloured them.
func Show(w io.Writer, lines ...string) {
	for _, l := range lines {
		fmt.Fprintln(w, l)
	}
}
