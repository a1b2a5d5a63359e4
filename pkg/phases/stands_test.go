package phases

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
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// destructions are steps that take something away for good, each with the world in which it is due.
var destructions = []struct {
	name string
	w    func(*testing.T) *world
	do   func(t *testing.T, in *Input, r *record) error
	// call is what it does; ofNode is whether it is about n01.
	call   string
	ofNode bool
}{
	{"evacuate", going, leaveTask, "evacuate node n01", true},
	{"delete", func(t *testing.T) *world { w := going(t); w.spread("a@n02 UpToDate"); return w }, leaveTask, "delete node n01", true},
	{"lose", func(t *testing.T) *world {
		w := goneWorld(t, v1alpha1.NodesRemove, 2*time.Hour)
		w.node("n01").Properties[auxDeclareLost] = "h-1"
		return w
	}, leaveTask, "lose node n01", true},
	{"forget", func(t *testing.T) *world {
		w := newWorld(t, 5)
		w.leaves(v1alpha1.NodesRemove, "n01")
		delete(w.linstor.View.Nodes, "n01")
		return w
	}, func(t *testing.T, in *Input, _ *record) error { return in.leave(t.Context()) }, "label n01 member=- os=- platform=-", true},
	{"remove a pool", func(t *testing.T) *world { return withoutEntry(t, 2) }, func(t *testing.T, in *Input, r *record) error {
		r.pools["n01/hot"] = &linstor.Pool{Name: "hot", Properties: map[string]string{auxEntry: "hot"}}
		return poolTask(t, in, r, "oldpool/n01/hot")
	}, "delete pool n01/hot", true},
	{"use a disk", func(t *testing.T) *world { return hot(t, ssdDisk("/dev/sdb", "S1")) }, func(t *testing.T, in *Input, r *record) error {
		r.devices["n01"] = []linstor.Device{ssdDisk("/dev/sdb", "S1")}
		return poolTask(t, in, r, "pool/n01/hot")
	}, "create devices n01 LVM vg_hot from /dev/sdb", true},
	{"restart", func(t *testing.T) *world { w := newWorld(t, 8); w.outdate("n01"); return w }, func(t *testing.T, in *Input, _ *record) error {
		return satelliteLink{}.Work(t.Context(), in)
	}, "delete Pod/satellite-n01", false},
	{"take down", func(t *testing.T) *world { return deletedWorld(t, 2) }, decided, "delete DaemonSet/linstor-satellite", false},
	{"deregister", func(t *testing.T) *world {
		w := deletedWorld(t, 2)
		w.cluster.Spec.DeletionPolicy = v1alpha1.DeletionDelete
		return w
	}, func(t *testing.T, in *Input, r *record) error {
		Decide(t.Context(), in)
		return r.run(t, "deregister/n01")
	}, "delete node n01", false},
}

func leaveTask(t *testing.T, in *Input, r *record) error { return runLeave(t, in, r, in.Linstor.View) }

func poolTask(t *testing.T, in *Input, r *record, key string) error {
	if err := (poolLink{}).Work(t.Context(), in); err != nil {
		return err
	}
	return r.run(t, key)
}

func decided(t *testing.T, in *Input, _ *record) error {
	o := Decide(t.Context(), in)
	return o.Err()
}

// What is destroyed is justified by what the API server has, not by what the cache had.
func TestNothingIsDestroyedOnAnOutdatedView(t *testing.T) {
	change := func(f func(*v1alpha1.StorageCluster)) func(*Input, *record) {
		return func(_ *Input, r *record) { r.live.cluster = r.live.cluster.DeepCopy(); f(r.live.cluster) }
	}
	node := func(f func(n *corev1.Node)) func(*Input, *record) {
		return func(in *Input, r *record) {
			k := *r.live.kube
			k.Nodes = []*corev1.Node{newNode("n01")}
			for _, n := range in.Kube.Nodes {
				if n.Name == "n01" {
					k.Nodes[0] = n.DeepCopy()
				}
			}
			f(k.Nodes[0])
			r.live.kube = &k
		}
	}
	for _, live := range []struct {
		name   string
		change func(*Input, *record)
		done   bool
		ofNode bool
	}{
		{name: "as seen", change: func(*Input, *record) {}, done: true},
		{name: "another StorageCluster", change: change(func(c *v1alpha1.StorageCluster) { c.UID = "other" })},
		{name: "another spec", change: change(func(c *v1alpha1.StorageCluster) { c.Generation++ })},
		{name: "another status", change: change(func(c *v1alpha1.StorageCluster) { c.ResourceVersion = "99" }), done: true},
		{name: "no StorageCluster", change: func(_ *Input, r *record) { r.live.cluster = nil }},
		{name: "another Node", change: node(func(n *corev1.Node) { n.UID = "other" }), ofNode: true},
		{name: "other labels", change: node(func(n *corev1.Node) { n.Labels["disk"] = "new" }), ofNode: true},
		{name: "no taint any more", change: node(func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "y"}) }), ofNode: true},
	} {
		for _, d := range destructions {
			if live.ofNode && !d.ofNode {
				continue
			}
			t.Run(live.name+"/"+d.name, func(t *testing.T) {
				in, r := d.w(t).input()
				live.change(in, r)
				if err := d.do(t, in, r); err != nil {
					t.Fatal(err)
				}
				if got := slices.Contains(r.calls, d.call); got != live.done || !live.done && len(r.calls) > 0 {
					t.Errorf("done: %t, calls %v", got, r.calls)
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
			w := deletedWorld(t, 1)
			w.cluster.Spec.DeletionPolicy = tc.policy
			w.kube = Kube{}
			w.linstor = Linstor{}
			if tc.cached != "" {
				claim := resources.Claim(w.cluster.Name, resources.ClaimData{Backend: "k8s", ReleasedBy: "earlier"})
				claim.ResourceVersion = tc.cached
				w.kube.ConfigMaps = map[string]*corev1.ConfigMap{claim.Name: claim}
			}
			in, r := w.input()
			o := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: tc.kind}, ObjectMeta: metav1.ObjectMeta{Name: tc.name, ResourceVersion: "7"}}
			o.Labels = map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentRevision}
			r.live.labelled = []metav1.PartialObjectMetadata{o}
			out := Decide(t.Context(), in)
			if (out.Kind() == KindDone) != tc.stays || !tc.stays && !strings.Contains(out.Message(), tc.name) {
				t.Errorf("%s: %s", out.Kind(), out.Message())
			}
		})
	}
}

func TestDeletionWaitsForWritesThatWereBegun(t *testing.T) {
	in, r := deletedWorld(t, 2).input()
	r.running = 1
	if o := Decide(t.Context(), in); o.Kind() != KindWait || len(r.calls) > 0 {
		t.Errorf("%s %s: %v", o.Kind(), o.Message(), r.calls)
	}
	if d := cmp.Diff([]work.Task(nil), r.queued); d != "" {
		t.Error(d)
	}
}

// deafLive is an API server that never answers.
type deafLive struct{ Live }

func (deafLive) Cluster(ctx context.Context, _ string) (*v1alpha1.StorageCluster, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestTheQuestionIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &Input{Snapshot: newWorld(t, 1).snapshot(), Live: deafLive{}}
		began := time.Now()
		if err := in.stands(t.Context()); !errors.Is(err, errUnasked) || !Passes(err) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != askWithin {
			t.Errorf("the step waited for %s, want %s", took, askWithin)
		}
	})
}
