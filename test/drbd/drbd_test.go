package drbd

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/fabric"
)

func TestMain(m *testing.M) {
	prepare := func(ctx context.Context) error {
		_, err := pack(ctx)
		return err
	}
	os.Exit(fabric.Main(m, missing, prepare, nil))
}

// TestDRBD does all in one lab: to start one takes minutes.
func TestDRBD(t *testing.T) {
	l := start(t)
	// What the operator sets: how DRBD behaves depends on it.
	facts := &clustertest.NewWorld(t, 3).Snapshot().Facts
	l.must(l.api.SetProperties(l.ctx, controller.Properties(facts, l.look().Version), nil))
	l.createVolume(volume, nil, "n01", "n02")
	l.createVolume(plain, map[string]string{linstor.PropQuorum: "off"}, "n01", "n02")
	for _, part := range []struct {
		name string
		test func(*lab)
	}{{"states", (*lab).goThrough}, {"failover", (*lab).failOver}, {"evacuation", (*lab).emptyNode}} {
		l.finish(part.name, part.test)
	}
}

// finish runs a test within the test. It may fail, but must come to its end: what follows expects a healthy cluster.
func (l *lab) finish(name string, test func(*lab)) {
	cutShort := false                               // not if -run leaves it out
	l.T.(*testing.T).Run(name, func(t *testing.T) { //nolint:forcetypeassert // it is one
		cutShort = true
		test(l.in(t))
		cutShort = false
	})
	if cutShort {
		l.T.Fatal("what follows expects a healthy cluster")
	}
}

// scene is a state of a volume: how it comes about, what LINSTOR shows of it, and the operator's verdict.
type scene struct {
	name string
	// make brings the state about, and waits until LINSTOR shows it.
	make func(l *lab)
	// want are the beginnings of lines of the verdict.
	want []string
	// off are nodes whose kubelets do not respond.
	off []string
	// end ends the state, so that all is well again. If next is true, the next scene starts from the state instead.
	end  func(l *lab)
	next bool
}

// goThrough goes through the states of a volume, and prints what LINSTOR and the operator make of each.
func (l *lab) goThrough() {
	for _, s := range scenes() {
		l.finish(s.name, func(l *lab) {
			if s.make != nil {
				s.make(l)
			}
			l.judge(&s)
			if s.next {
				return
			}
			if s.end != nil {
				s.end(l)
			}
			l.allWell(volume, plain)
		})
	}
}

func (l *lab) allWell(volumes ...string) {
	l.T.Helper()
	l.until("all is well", func(v *linstor.View) error {
		for _, name := range volumes {
			if err := settled(v, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
}

// judge prints the view and the verdict, and checks the verdict.
func (l *lab) judge(s *scene) {
	l.T.Helper()
	var said strings.Builder
	v := l.look()
	for _, name := range volumesOf(v) {
		said.WriteString("\n  LINSTOR   " + name + ": " + seenText(v, name))
	}
	got := verdict(l.T, l.look, s.off...)
	for _, line := range got {
		said.WriteString("\n  operator  " + line)
	}
	l.T.Logf("%s%s", s.name, said.String())
	for _, want := range s.want {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
			l.T.Errorf("the verdict lacks %q", want)
		}
	}
}
