package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// refusedLife is a scenario with a Node of which every patch is refused, and what is true meanwhile, by step.
type refusedLife struct {
	scenario
	node      string
	meanwhile []meanwhile
}

// meanwhile is what goes on in a step while the node is refused.
type meanwhile struct {
	// disturb gives the operator more to do; nil for nothing.
	disturb func(*harness.Env)
	// goesOn is nil once all is done but what the refusal hinders.
	goesOn func(*harness.Env) error
	// tells is where the status names the node, with what the API server said.
	tells func(*v1alpha1.StorageClusterStatus) string
}

func refusedLives() []refusedLife {
	removed := newRemovedObjects()
	return []refusedLife{
		{installScenario(""), "n2", []meanwhile{
			{goesOn: summary("2/3", "4/6"), tells: toldAsProblem("n2")},
			{goesOn: nothingBut("n2"), tells: func(s *v1alpha1.StorageClusterStatus) string { return s.Message }},
		}},
		{membersScenario(), "n4", []meanwhile{
			{disturb: removed.remove, goesOn: func(e *harness.Env) error {
				return errors.Join(removed.putBack(e), summary("3/4", "3/4")(e))
			}, tells: toldAsProblem("n4")},
			{goesOn: evacuated("n4"), tells: toldAsProblem("n4")},
		}},
	}
}

// TestRefusedNode refuses every patch of one Node in each step of an installation, a deletion, a join and an
// evacuation, as an admission webhook does. All else goes on, the status names the node, and once the refusal is over
// all is as without it. The bounded part has the join and the evacuation.
func TestRefusedNode(t *testing.T) {
	t.Parallel()
	for _, life := range refusedLives() {
		if !full() && life.name != "members" {
			continue
		}
		t.Run(life.name, func(t *testing.T) {
			t.Parallel()
			net := &apiNet{}
			e := life.start(t)
			net.attach(e)
			e.Lease = longLease
			e.Run()
			c := &course{scenario: life.scenario, Env: e, wire: &wire{}}
			c.learn()
			for i := range life.steps {
				if !t.Run(life.steps[i].name, func(t *testing.T) { c.refuse(t, net, &life, i) }) {
					return
				}
			}
			c.rewind()
		})
	}
}

// refuse plays a step while the node is refused, until all else is through, and then to its end.
func (c *course) refuse(t *testing.T, net *apiNet, life *refusedLife, i int) {
	r := *c
	r.Env = c.For(t)
	s, want, m := &r.steps[i], &c.want[i], &life.meanwhile[i]
	before := r.depart()
	net.refuse(life.node)
	defer net.refuse("")
	s.do(r.Env)
	if m.disturb != nil {
		m.disturb(r.Env)
	}
	r.Eventually(s.name+": all else goes on, and the status names "+life.node, func() error {
		if err := m.goesOn(r.Env); err != nil {
			return err
		}
		st := status(r.Env)
		if got := m.tells(st); !strings.Contains(got, "node "+life.node) || !strings.Contains(got, wentWrong) {
			return fmt.Errorf("%s: %s; told is %q", st.Phase, st.Message, got)
		}
		return nil
	})
	net.refuse("")
	r.Eventually(s.name, func() error { return s.done(r.Env) })
	r.EventuallyEvery(lookEvery, s.name+": all is as it is without the refusal", func() error {
		if diff := cmp.Diff(want.picture, look(r.Env)); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
	if got := r.asked(before); len(got) != len(want.asked) {
		t.Errorf("%s: a human was asked for %q, want %q", s.name, got, want.asked)
	}
}

// refuse lets the API server refuse every patch of a Node from now on; "" for none.
func (a *apiNet) refuse(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = node
}

// toldAsProblem is the message of the problem with a node's labels; "" if there is none.
func toldAsProblem(node string) func(*v1alpha1.StorageClusterStatus) string {
	return func(s *v1alpha1.StorageClusterStatus) string {
		for _, p := range s.Nodes.Problems {
			if p.Reason == "NodeNotLabelled" && slices.Equal(p.Nodes, []string{node}) {
				return p.Message
			}
		}
		return ""
	}
}

// summary is nil once so many nodes and pools are ready.
func summary(nodes, pools string) func(*harness.Env) error {
	return func(e *harness.Env) error {
		if s := status(e); s.Nodes.Summary != nodes || s.Pools.Summary != pools {
			return fmt.Errorf("%s, nodes %s, pools %s: %s", s.Phase, s.Nodes.Summary, s.Pools.Summary, s.Message)
		}
		return nil
	}
}

// nothingBut is nil once a deletion has left nothing but the claim and one node's labels.
func nothingBut(node string) func(*harness.Env) error {
	return func(e *harness.Env) error {
		if owned := e.Owned(); !slices.Equal(owned, []string{"ConfigMap/" + resources.ClaimName}) {
			return fmt.Errorf("there are %v", owned)
		}
		if labels := e.MemberLabels(); slices.ContainsFunc(labels,
			func(l string) bool { return !strings.HasPrefix(l, node) }) {
			return fmt.Errorf("there are labels %v", labels)
		}
		return e.NoPods()
	}
}

// evacuated is nil once LINSTOR does not have a node any more.
func evacuated(node string) func(*harness.Env) error {
	return func(e *harness.Env) error {
		v, err := e.Linstor().View(e.Ctx, linstor.ViewOptions{})
		if err == nil && v.Node(node) != nil {
			err = fmt.Errorf("%s is still in LINSTOR", node)
		}
		return err
	}
}
