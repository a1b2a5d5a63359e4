package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// etcdEnv is a cluster whose LINSTOR keeps its state in an etcd that the operator runs.
type etcdEnv struct {
	*env
	db *sim.Database
}

// newEtcd brings a cluster up from nothing with so many members. What has no effect for longer than start is stuck.
func newEtcd(t *testing.T, nodes, members int, start time.Duration) etcdEnv {
	t.Helper()
	e := startEtcd(t, nodes, start)
	e.up(nodes, members)
	return e
}

// startEtcd brings up nodes, without an operator.
func startEtcd(t *testing.T, nodes int, start time.Duration) etcdEnv {
	t.Helper()
	ns := harness.EtcdNodes(t, nodes)
	e := etcdEnv{env: readyOfAll(newEnv(harness.Start(t, ns)))}
	e.db = e.UseEtcd(ns)
	e.Timing.Deadlines[fsm.Database], e.Timing.NodeGone = machine.Slow(start), machine.Slow(time.Minute)
	return e
}

// up runs the operator until a cluster with so many members is Ready.
func (e etcdEnv) up(nodes, members int) {
	e.T.Helper()
	e.Run()
	e.Apply(harness.Manifest(fmt.Sprintf("  version: 1.33.3\n  database: {managedEtcd: {replicas: %d}}", members) +
		harness.ThinPool))
	e.ready(fmt.Sprintf("%d/%d", nodes, nodes), fmt.Sprintf("%d/%d", nodes, nodes))
	e.members(members)
}

// members waits until there are so many, all of them well, and the cluster is Ready.
func (e etcdEnv) members(n int) []etcdspec.EtcdMember {
	e.T.Helper()
	var found []etcdspec.EtcdMember
	e.Eventually(fmt.Sprintf("%d members of etcd", n), func() error {
		c := e.Get()
		st := c.Status.Etcd
		if st == nil {
			return fmt.Errorf("%s: %s", c.Status.Phase, c.Status.Message)
		}
		found = st.Members
		sick := slices.ContainsFunc(found, func(m etcdspec.EtcdMember) bool { return !m.Healthy })
		if int(st.Replicas) != n || len(found) != n || sick || st.Step != "rest" ||
			c.Status.Phase != v1alpha1.PhaseReady {
			return fmt.Errorf("%s: %+v", c.Status.Phase, st)
		}
		return nil
	})
	return found
}

func (e etcdEnv) scale(n int) {
	e.T.Helper()
	out, err := e.Sim.Kubectl(e.Ctx, "scale", "storagecluster/linstor", fmt.Sprint("--replicas=", n))
	if err != nil {
		e.T.Fatalf("%v: %s", err, out)
	}
}

// TestManagedEtcdScales goes from nothing to one member, to three, and back.
func TestManagedEtcdScales(t *testing.T) {
	e := newEtcd(t, 3, 1, time.Minute)
	first := e.members(1)[0]
	id := e.db.LocalID()
	e.scale(3)
	all := e.members(3)
	if !slices.ContainsFunc(all, func(m etcdspec.EtcdMember) bool { return m.ID == first.ID }) {
		t.Errorf("%+v is not among %+v", first, all)
	}
	e.scale(1)
	e.members(1)
	if e.db.LocalID() != id || id == "" {
		t.Errorf("LINSTOR has another database: %s, and before %s", e.db.LocalID(), id)
	}
}

// TestManagedEtcdLosesAMember has a member lose its data: another one takes its place.
func TestManagedEtcdLosesAMember(t *testing.T) {
	e := newEtcd(t, 3, 3, 20*time.Second)
	before := e.members(3)
	lost := before[0]
	simcluster.KillEtcd(e.Sim, before[1].Node) // it comes back as it was
	if now := e.members(3); now[1].ID != before[1].ID {
		t.Errorf("%+v became %+v", before, now)
	}
	if err := simcluster.LoseEtcd(e.Sim, lost.Node); err != nil {
		t.Fatal(err)
	}
	e.Eventually("another member", func() error {
		for _, m := range e.members(3) {
			if m.ID == lost.ID {
				return fmt.Errorf("%s is still there", m.Name)
			}
		}
		return nil
	})
}

// TestManagedEtcdOperatorsDie has operators end one after the other while members are added: at each step that shows.
func TestManagedEtcdOperatorsDie(t *testing.T) {
	e := newEtcd(t, 3, 1, time.Minute)
	first := e.members(1)[0]
	e.scale(3)
	ends := 0
	for at := e.stepAfter(""); at != ""; at = e.stepAfter(at) {
		t.Logf("operator %d ends at %s", ends, at)
		e.StopOperator()
		e.Run()
		ends++
	}
	if ends < 4 { // each of the two is added, comes up and gets its vote
		t.Errorf("only %d operators have ended while members were added", ends)
	}
	all := e.members(3)
	if !slices.ContainsFunc(all, func(m etcdspec.EtcdMember) bool { return m.ID == first.ID }) {
		t.Errorf("%+v is not among %+v", first, all)
	}
}

// stepAfter waits until something is done that is not what was done before, and says what; "" once three members have
// a vote and nothing is left to be done.
func (e etcdEnv) stepAfter(before string) (now string) {
	e.T.Helper()
	e.EventuallyEvery(20*time.Millisecond, "another step than "+before, func() error {
		st := e.Get().Status.Etcd
		switch {
		case st == nil:
			return errors.New("nothing is known")
		case st.Step == "rest" && st.Replicas == 3:
			now = ""
			return nil
		case st.Step == "rest":
			return errors.New("it has not begun")
		}
		if now = fmt.Sprintf("%s with %d of %d", st.Step, st.Replicas, len(st.Members)); now == before {
			return fmt.Errorf("%s still", now)
		}
		return nil
	})
	return now
}

// TestManagedEtcdOutlivesTheCluster: who makes the StorageCluster again has the same members.
func TestManagedEtcdOutlivesTheCluster(t *testing.T) {
	e := newEtcd(t, 3, 3, time.Minute)
	before, id := e.members(3), e.db.LocalID()
	manifest := harness.Manifest("  version: 1.33.3\n  database: {managedEtcd: {replicas: 3}}" + harness.ThinPool)
	e.Remove()
	e.WaitGone()
	var sets appsv1.DaemonSetList
	if err := e.Client().List(e.Ctx, &sets); err != nil || len(sets.Items) > 0 {
		t.Errorf("%d DaemonSets are left: %v", len(sets.Items), err)
	}
	e.Apply(manifest)
	e.ready("3/3", "3/3")
	if after := e.members(3); !slices.EqualFunc(before, after, func(a, b etcdspec.EtcdMember) bool {
		return a.ID == b.ID && a.Node == b.Node
	}) || e.db.LocalID() != id {
		t.Errorf("%+v became %+v", before, after)
	}
}

// TestOffManagedEtcd: LINSTOR's data goes into Kubernetes, LINSTOR is upgraded, and the members are left alone.
func TestOffManagedEtcd(t *testing.T) {
	e := newEtcd(t, 3, 3, time.Minute)
	id := e.db.LocalID()
	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Database, c.Spec.Version = v1alpha1.DatabaseSpec{Kubernetes: &v1alpha1.KubernetesDatabase{}}, "1.35.3"
	})
	e.Resume(e.WaitHold(v1alpha1.HoldUnsupportedChange), v1alpha1.OptionMigrate)
	e.Eventually("Ready with LINSTOR 1.35.3", func() error {
		if c := e.Get(); c.Status.Phase != v1alpha1.PhaseReady || c.Status.Version != "1.35.3" || c.Status.Upgrade != nil {
			return fmt.Errorf("%s, LINSTOR %s: %s", c.Status.Phase, c.Status.Version, c.Status.Message)
		}
		return nil
	})
	if db := e.Sim.World().Database("k8s"); db.LocalID() != id || e.Get().Status.Etcd != nil {
		t.Errorf("the LocalID is %s, and was %s; etcd %+v", db.LocalID(), id, e.Get().Status.Etcd)
	}
	var sets appsv1.DaemonSetList
	if err := e.Client().List(e.Ctx, &sets, client.MatchingLabels{v1alpha1.LabelComponent: "etcd"}); err != nil ||
		len(sets.Items) != 3 {
		t.Errorf("%d members are left: %v", len(sets.Items), err)
	}
}
