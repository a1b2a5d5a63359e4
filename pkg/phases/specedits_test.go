package phases_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
)

// reconcile takes one step and stores what it decides, as the status does.
func reconcile(w *clustertest.World, t *rapid.T) {
	in, r := w.Input()
	o := phases.Decide(w.T.Context(), in)
	st := &w.Cluster.Status
	st.ObservedGeneration = w.Cluster.Generation
	if a := o.Acceptance; a != nil {
		for _, applied := range r.Applied {
			if rev, ok := applied.(*appsv1.ControllerRevision); ok {
				w.Kube.Revisions[rev.Name] = rev
			}
		}
		st.Target, st.AcceptedGeneration, st.Version = a.Revision, a.Generation, a.Version
	} else if !in.Snapshot.SpecPending() {
		st.AcceptedGeneration = w.Cluster.Generation
	}
	if o.Event == "" {
		return
	}
	moved, err := fire(w.T.Context(), w, o.Event)
	if err != nil {
		t.Fatalf("%v (%s)", err, o.Message)
	}
	st.Hold = nil
	if o.Hold != nil {
		st.Hold = hold.New(in.Snapshot, o.Hold)
	}
	w.Phase(v1alpha1.Phase(moved.To), 0)
}

// specEdits are changes of every class, one of them impossible.
func specEdits() map[string]func(*v1alpha1.StorageClusterSpec) {
	return map[string]func(*v1alpha1.StorageClusterSpec){
		"minReady":   func(s *v1alpha1.StorageClusterSpec) { s.Nodes.MinReady = ptr.To(intstr.FromInt32(1)) },
		"policy":     func(s *v1alpha1.StorageClusterSpec) { s.DeletionPolicy = v1alpha1.DeletionDelete },
		"warn":       func(s *v1alpha1.StorageClusterSpec) { s.StoragePools[0].WarnUsedPercent = 50 },
		"registry":   func(s *v1alpha1.StorageClusterSpec) { s.Images.Registry = "registry.example.com/mirror" },
		"mode":       func(s *v1alpha1.StorageClusterSpec) { s.KernelModule.Mode = v1alpha1.ModuleCompile },
		"properties": func(s *v1alpha1.StorageClusterSpec) { s.Nodes.Properties = map[string]string{"Aux/x": "y"} },
		"cluster":    func(s *v1alpha1.StorageClusterSpec) { s.Controller.Properties = map[string]string{"Aux/c": "d"} },
		"resources": func(s *v1alpha1.StorageClusterSpec) {
			s.Controller.Resources.Requests = v1alpha1.ResourceAmounts{corev1.ResourceMemory: resource.MustParse("1Gi")}
		},
		"pool": func(s *v1alpha1.StorageClusterSpec) {
			s.StoragePools = append(s.StoragePools[:1:1],
				v1alpha1.StoragePoolSpec{Name: "more", File: &v1alpha1.FilePool{Directory: "/var/lib/more"}})
		},
		"impossible": func(s *v1alpha1.StorageClusterSpec) { s.Version = "9.9.9" },
	}
}

// TestSpecEditsEndInTheLastSpec edits the spec, takes edits back, works and looks in any order. In the end the cluster
// is what the last spec alone would have made.
func TestSpecEditsEndInTheLastSpec(t *testing.T) {
	edits := specEdits()
	names := slices.Sorted(maps.Keys(edits))
	rapid.Check(t, func(rt *rapid.T) {
		w := clustertest.NewWorld(t, 2)
		first := w.Cluster.Spec.DeepCopy()
		change := func(f func(*v1alpha1.StorageClusterSpec)) {
			f(&w.Cluster.Spec)
			w.Cluster.Generation++
		}
		for range rapid.IntRange(1, 25).Draw(rt, "deeds") {
			switch rapid.SampledFrom([]string{"edit", "take back", "work", "look", "look"}).Draw(rt, "deed") {
			case "edit":
				change(edits[rapid.SampledFrom(names).Draw(rt, "edit")])
			case "take back":
				change(func(s *v1alpha1.StorageClusterSpec) { *s = *first.DeepCopy() })
			case "work":
				w.Deploy()
				w.Register()
			case "look":
				reconcile(w, rt)
			}
		}
		if w.Cluster.Spec.Version != "" {
			change(func(s *v1alpha1.StorageClusterSpec) { s.Version = "" })
		}
		for range 40 {
			if reconcile(w, rt); w.Cluster.Status.Phase == v1alpha1.PhaseReady && !w.Snapshot().SpecPending() {
				break
			}
			w.Deploy()
			w.Register()
			for _, n := range w.Kube.Nodes { // the loaders' DaemonSets roll by themselves
				w.PutPod(v1alpha1.ComponentModuleLoader, n.Name, w.ReadyPod(v1alpha1.ComponentModuleLoader, n.Name))
			}
			w.Linstor.View.Properties = linstor.Initial(controller.Properties(&w.Snapshot().Facts,
				w.Linstor.View.Version))
		}
		fresh := clustertest.NewWorld(t, 2)
		fresh.Cluster.Spec = *w.Cluster.Spec.DeepCopy()
		fresh.Settle()
		st := w.Cluster.Status
		if st.Phase != v1alpha1.PhaseReady || st.Target != fresh.Cluster.Status.Target ||
			st.AcceptedGeneration != w.Cluster.Generation {
			rt.Fatalf("phase %s, target %s of generation %d; want Ready, %s, %d", st.Phase, st.Target, st.AcceptedGeneration,
				fresh.Cluster.Status.Target, w.Cluster.Generation)
		}
		checkSameCluster(rt, fresh, w)
	})
}

// checkSameCluster wants the accepted spec and the workloads of a cluster that was made anew.
func checkSameCluster(rt *rapid.T, fresh, edited *clustertest.World) {
	ignore := cmpopts.IgnoreTypes(metav1.Time{})
	if diff := cmp.Diff(fresh.Snapshot().Target.Spec, edited.Snapshot().Target.Spec); diff != "" {
		rt.Errorf("accepted spec (-fresh +edited):\n%s", diff)
	}
	for name, want := range fresh.Kube.DaemonSets {
		if diff := cmp.Diff(want, edited.Kube.DaemonSets[name], ignore); diff != "" {
			rt.Errorf("DaemonSet %s (-fresh +edited):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(fresh.Kube.Deployments, edited.Kube.Deployments, ignore); diff != "" {
		rt.Errorf("Deployments (-fresh +edited):\n%s", diff)
	}
}
