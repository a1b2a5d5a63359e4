package tree

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestLines(t *testing.T) {
	items := []Item{
		{Name: "Nodes", State: Bad, Text: "2/3 online", Items: []Item{
			{Name: "node-2", State: Bad, Text: "NodeNotReady: the Kubernetes node is not ready, and this goes on for long"},
			{Name: "node-3", State: Busy, Text: "StartingSatellite"},
		}},
		{Name: "Chain", State: Well, Text: "all links are satisfied, of which this line has a lot to say"},
		{Name: "bare", State: Note},
	}
	want := []string{
		"├─ ✘ Nodes  2/3 online",
		"│  ├─ ✘ node-2  NodeNotReady: the",
		"│  │            Kubernetes node is",
		"│  │            not ready, and this",
		"│  │            goes on for long",
		"│  └─ … node-3  StartingSatellite",
		"├─ ✔ Chain  all links are satisfied,",
		"│           of which this line has a",
		"│           lot to say",
		"└─ · bare",
	}
	got := Style{Width: 36}.Lines(items)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, line := range got {
		if utf8.RuneCountInString(line) > 36 {
			t.Errorf("too long: %q", line)
		}
	}
	coloured := strings.Join(Style{Width: 36, Colour: true}.Lines(items), "\n")
	for _, part := range []string{"\x1b[31m✘\x1b[0m \x1b[31mnode-2\x1b[0m", "\x1b[32m✔\x1b[0m Chain"} {
		if !strings.Contains(coloured, part) {
			t.Errorf("no %q in %q", part, coloured)
		}
	}
	if strings.Contains(strings.Join(got, ""), "\x1b") {
		t.Error("colours although they are off")
	}
}

// TestHostileText: what a node says cannot move the cursor.
func TestHostileText(t *testing.T) {
	got := Style{Width: 80}.Lines([]Item{{Name: "n\x1b[2J1", State: Bad, Text: "a\r\nb\x1b]0;title\x07 \u009b1m"}})
	if len(got) != 1 || strings.ContainsAny(got[0], "\x1b\r\n\x07\u009b") {
		t.Errorf("%q", got)
	}
}

// TestCommand: a command that is broken can still be pasted into a shell.
func TestCommand(t *testing.T) {
	const command = "kubectl annotate storagecluster linstor --overwrite storage.linstor.dev/resume=h-c07d75:retry"
	want := []string{
		`  kubectl annotate storagecluster linstor --overwrite \`,
		`      storage.linstor.dev/resume=h-c07d75:retry`,
	}
	if diff := cmp.Diff(want, Style{Width: 80}.Command(command, "  ")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"  " + command}, Style{Width: 120}.Command(command, "  ")); diff != "" {
		t.Error(diff)
	}
}

func TestWorst(t *testing.T) {
	if got := Worst(); got != Well {
		t.Errorf("of none: %s", got)
	}
	if got := Worst(Well, Warn, Note, Busy); got != Warn {
		t.Errorf("got %s", got)
	}
}
