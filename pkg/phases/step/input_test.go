package step_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// destructions are steps that take something away for good, each with the world in which it is due.
var destructions = []struct {
	name string
	w    func(*testing.T) *clustertest.World
	do   func(t *testing.T, in *step.Input, r *clustertest.Record) error
	// call is what it does; ofNode reports whether it is about n01.
	call   string
	ofNode bool
}{
	{"evacuate", clustertest.Going, leaveTask, "evacuate node n01", true},
	{"delete", func(t *testing.T) *clustertest.World { w := clustertest.Going(t); w.Spread("a@n02 UpToDate"); return w },
		leaveTask, "delete node n01", true},
	{"lose", func(t *testing.T) *clustertest.World {
		w := clustertest.GoneWorld(t, v1alpha1.NodesRemove, 2*time.Hour)
		w.Node("n01").Properties[remembered.DeclareLost] = "h-1"
		return w
	}, leaveTask, "lose node n01", true},
	{"forget", func(t *testing.T) *clustertest.World {
		w := clustertest.NewWorld(t, 5)
		w.Leaves(v1alpha1.NodesRemove, "n01")
		delete(w.Linstor.View.Nodes, "n01")
		return w
	}, func(t *testing.T, in *step.Input, _ *clustertest.Record) error { return leaving.Leave(t.Context(), in) },
		"label n01 member=- os=- platform=-", true},
	{"remove a pool", func(t *testing.T) *clustertest.World { return clustertest.WithoutEntry(t, 2) },
		func(t *testing.T, in *step.Input, r *clustertest.Record) error {
			r.Pools["n01/hot"] = &linstor.Pool{Name: "hot", Properties: map[string]string{remembered.Entry: "hot"}}
			return poolTask(t, in, r, "oldpool/n01/hot")
		}, "delete pool n01/hot", true},
	{"use a disk", func(t *testing.T) *clustertest.World {
		return clustertest.Hot(t, clustertest.SsdDisk("/dev/sdb", "S1"))
	}, func(t *testing.T, in *step.Input, r *clustertest.Record) error {
		r.DisksOf["n01"] = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1")}
		return poolTask(t, in, r, "pool/n01/hot")
	}, "create devices n01 LVM vg_hot from /dev/sdb", true},
	{"restart", func(t *testing.T) *clustertest.World { w := clustertest.NewWorld(t, 8); w.Outdate("n01"); return w },
		func(t *testing.T, in *step.Input, _ *clustertest.Record) error {
			return satellites.Link().Work(t.Context(), in)
		}, "delete Pod/satellite-n01", false},
	{"take down", func(t *testing.T) *clustertest.World { return clustertest.DeletedWorld(t, 2) }, decided,
		"delete DaemonSet/linstor-satellite", false},
	{"deregister", func(t *testing.T) *clustertest.World {
		w := clustertest.DeletedWorld(t, 2)
		w.Cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
		return w
	}, func(t *testing.T, in *step.Input, r *clustertest.Record) error {
		phases.Decide(t.Context(), in)
		r.Now = in.Snapshot.Linstor.View
		return r.Run(t, "deregister/n01")
	}, "delete node n01", false},
}

func leaveTask(t *testing.T, in *step.Input, r *clustertest.Record) error {
	return clustertest.RunLeave(t, in, r, in.Snapshot.Linstor.View)
}

func poolTask(t *testing.T, in *step.Input, r *clustertest.Record, key string) error {
	if err := pools.Link().Work(t.Context(), in); err != nil {
		return err
	}
	return r.Run(t, key)
}

func decided(t *testing.T, in *step.Input, _ *clustertest.Record) error {
	o := phases.Decide(t.Context(), in)
	return o.Err
}

// What is destroyed is justified by what the API server has, not by what the cache had.
func TestNothingIsDestroyedOnAnOutdatedView(t *testing.T) {
	change := func(f func(*v1alpha1.StorageCluster)) func(*step.Input, *clustertest.Record) {
		return func(_ *step.Input, r *clustertest.Record) { r.Live.Object = r.Live.Object.DeepCopy(); f(r.Live.Object) }
	}
	node := func(f func(n *corev1.Node)) func(*step.Input, *clustertest.Record) {
		return func(in *step.Input, r *clustertest.Record) {
			k := *r.Live.Kube
			k.Nodes = []*corev1.Node{clustertest.NewNode("n01")}
			for _, n := range in.Snapshot.Kube.Nodes {
				if n.Name == "n01" {
					k.Nodes[0] = n.DeepCopy()
				}
			}
			f(k.Nodes[0])
			r.Live.Kube = &k
		}
	}
	for _, live := range []struct {
		name   string
		change func(*step.Input, *clustertest.Record)
		done   bool
		ofNode bool
	}{
		{name: "as seen", change: func(*step.Input, *clustertest.Record) {}, done: true},
		{name: "another StorageCluster", change: change(func(c *v1alpha1.StorageCluster) { c.UID = "other" })},
		{name: "another spec", change: change(func(c *v1alpha1.StorageCluster) { c.Generation++ })},
		{name: "another status", change: change(func(c *v1alpha1.StorageCluster) { c.ResourceVersion = "99" }), done: true},
		{name: "no StorageCluster", change: func(_ *step.Input, r *clustertest.Record) { r.Live.Object = nil }},
		{name: "another Node", change: node(func(n *corev1.Node) { n.UID = "other" }), ofNode: true},
		{name: "another machine", change: node(func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID = "other" }),
			ofNode: true},
		{name: "other labels", change: node(func(n *corev1.Node) { n.Labels["disk"] = "new" }), ofNode: true},
		{name: "no taint any more",
			change: node(func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "y"}) }), ofNode: true},
	} {
		for _, d := range destructions {
			if live.ofNode && !d.ofNode {
				continue
			}
			t.Run(live.name+"/"+d.name, func(t *testing.T) {
				in, r := d.w(t).Input()
				live.change(in, r)
				if err := d.do(t, in, r); err != nil {
					t.Fatal(err)
				}
				if got := slices.Contains(r.Calls, d.call); got != live.done || !live.done && len(r.Calls) > 0 {
					t.Errorf("done: %t, calls %v", got, r.Calls)
				}
			})
		}
	}
}

// What was made right before the deletion may not be in the cache yet.
func TestDeletionEndsWhenTheAPIServerHasNothingLeft(t *testing.T) {
	for _, tc := range []struct {
		kind, name string
		policy     v1alpha1.DeletionPolicy
		cached     string // the version of the claim, released by an earlier cluster, that the cache has
		stays      bool
	}{
		{"ConfigMap", "linstor-satellite-config", v1alpha1.DeletionRetain, "", false},
		{"ConfigMap", "linstor-claim", v1alpha1.DeletionRetain, "", true},
		{"ConfigMap", "linstor-claim", v1alpha1.DeletionDelete, "", false},
		{"ConfigMap", "linstor-claim", v1alpha1.DeletionDelete, "6", false}, // ours by now
		{"ConfigMap", "linstor-claim", v1alpha1.DeletionDelete, "7", true},
		{"ControllerRevision", "linstor-1", v1alpha1.DeletionRetain, "", true},
		{"ControllerRevision", "linstor-1", v1alpha1.DeletionDelete, "", false},
		{"Node", "n01", v1alpha1.DeletionRetain, "", false},
	} {
		t.Run(tc.kind+" "+string(tc.policy)+" "+tc.cached, func(t *testing.T) {
			w := clustertest.DeletedWorld(t, 1)
			w.Cluster.Spec.DeletionPolicy = tc.policy
			w.Kube = cluster.Kube{Optional: w.Kube.Optional}
			w.Linstor = cluster.Linstor{}
			if tc.cached != "" {
				claim := resources.Claim(w.Cluster.Name, resources.ClaimData{Backend: "k8s", ReleasedBy: "earlier"})
				claim.ResourceVersion = tc.cached
				w.Kube.ConfigMaps = map[string]*corev1.ConfigMap{claim.Name: claim}
			}
			in, r := w.Input()
			o := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: tc.kind},
				ObjectMeta: metav1.ObjectMeta{Name: tc.name, ResourceVersion: "7"}}
			o.Labels = map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentRevision}
			r.Live.Left = []metav1.PartialObjectMetadata{o}
			out := phases.Decide(t.Context(), in)
			if (out.Kind == step.KindDone) != tc.stays || !tc.stays && !strings.Contains(out.Message, tc.name) {
				t.Errorf("%s: %s", out.Kind, out.Message)
			}
		})
	}
}

func TestDeletionWaitsForWritesThatWereBegun(t *testing.T) {
	in, r := clustertest.DeletedWorld(t, 2).Input()
	r.Running = 1
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || len(r.Calls) > 0 {
		t.Errorf("%s %s: %v", o.Kind, o.Message, r.Calls)
	}
	if d := cmp.Diff([]work.Task(nil), r.Queued); d != "" {
		t.Error(d)
	}
}

// deafLive is an API server that never answers.
type deafLive struct{ step.Live }

func (deafLive) Cluster(ctx context.Context, _ string) (*v1alpha1.StorageCluster, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestTheQuestionIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &step.Input{Snapshot: clustertest.NewWorld(t, 1).Snapshot(), Live: deafLive{}}
		began := time.Now()
		if err := in.Stands(t.Context()); !errors.Is(err, step.ErrUnconfirmed) || !step.Passes(err) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != step.ConfirmWithin {
			t.Errorf("the step waited for %s, want %s", took, step.ConfirmWithin)
		}
	})
}
