package access

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
)

// streams are those of somebody who types this.
func streams(typed string, interactive bool) (*Streams, *bytes.Buffer) {
	var out bytes.Buffer
	return &Streams{IOStreams: genericclioptions.IOStreams{In: strings.NewReader(typed), Out: &out, ErrOut: &out},
		Interactive: interactive}, &out
}

func TestConfirm(t *testing.T) {
	for name, c := range map[string]struct {
		typed            string
		interactive, yes bool
		code             int
	}{
		"y": {"y\n", true, false, exit.Done}, "yes in capitals": {" YES \n", true, false, exit.Done},
		"n": {"n\n", true, false, exit.Refused}, "nothing": {"\n", true, false, exit.Refused},
		"the end of the input":     {"", true, false, exit.Refused},
		"something else":           {"yeah\n", true, false, exit.Refused},
		"no terminal":              {"y\n", false, false, exit.Failed},
		"no terminal, and --yes":   {"", false, true, exit.Done},
		"a terminal, and --yes":    {"n\n", true, true, exit.Done},
		"no line break at the end": {"y", true, false, exit.Done},
	} {
		s, _ := streams(c.typed, c.interactive)
		if got := exit.Code(s.Confirm(t.Context(), "Go on?", c.yes)); got != c.code {
			t.Errorf("%s: code %d, want %d", name, got, c.code)
		}
	}
}

// TestInterruptedQuestion: Ctrl-C is no, also while the terminal is being read.
func TestInterruptedQuestion(t *testing.T) {
	s, _ := streams("", true)
	s.In = blocks{t.Context()}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := exit.Code(s.Confirm(ctx, "Go on?", false)); got != exit.Refused {
		t.Errorf("code %d", got)
	}
}

// blocks is a terminal at which nobody types anything.
type blocks struct{ end context.Context }

func (b blocks) Read([]byte) (int, error) {
	<-b.end.Done()
	return 0, errors.New("closed")
}

func TestStyle(t *testing.T) {
	for _, c := range []struct{ width, want int }{{0, 80}, {20, 40}, {100, 100}, {400, 140}} {
		if got := (&Streams{Width: c.width}).Style(false).Width; got != c.want {
			t.Errorf("a terminal of %d: width %d, want %d", c.width, got, c.want)
		}
	}
	if s := (&Streams{Colour: true}); !s.Style(false).Colour || s.Style(true).Colour {
		t.Error("--no-color")
	}
	t.Setenv("COLUMNS", "97")
	if got := Standard(); got.Width == 0 || got.Colour && got.Width != 97 {
		t.Errorf("%+v", got)
	}
}

func TestArgs(t *testing.T) {
	cmd := &cobra.Command{Use: "x"}
	for n, want := range []int{exit.Usage, exit.Done, exit.Done, exit.Usage} {
		if got := exit.Code(Args(1, 2)(cmd, make([]string, n))); got != want {
			t.Errorf("%d arguments: code %d", n, got)
		}
	}
}

func TestPoll(t *testing.T) {
	looks := 0
	err := Poll(t.Context(), time.Millisecond, func(context.Context) (bool, error) { looks++; return looks == 3, nil })
	if err != nil || looks != 3 {
		t.Errorf("%v after %d looks", err, looks)
	}
	ctx, cancel := WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := Poll(ctx, time.Millisecond, func(context.Context) (bool, error) { return false, nil }); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestSay: what comes from the cluster cannot move the cursor; what package tree has coloured stays so.
func TestSay(t *testing.T) {
	var out bytes.Buffer
	Say(&out, "a\x1b[2Jb\rc", "d")
	Show(&out, "\x1b[31me\x1b[0m")
	if got := out.String(); got != "a [2Jb c\nd\n\x1b[31me\x1b[0m\n" {
		t.Errorf("%q", got)
	}
}

func TestResourceOf(t *testing.T) {
	if got := ResourceOf(&v1alpha1.StorageCluster{}) + " " + ResourceOf(&corev1.Node{}); got !=
		"storageclusters.storage.linstor.dev nodes" {
		t.Error(got)
	}
}
