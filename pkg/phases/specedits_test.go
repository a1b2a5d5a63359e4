package phases

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// step runs one reconcile and stores what it decides, as the status does.
func (w *world) step(t *rapid.T) {
	in, _ := w.input()
	o := Decide(w.t.Context(), in)
	st := &w.cluster.Status
	st.ObservedGeneration = w.cluster.Generation
	if a := o.Acceptance(); a != nil {
		rev := resources.Revision(w.cluster.Name, in.nextRevision(), WorkingSpec(w.cluster, a.Version))
		w.kube.Revisions[rev.Name] = rev
		st.Target, st.AcceptedGeneration, st.Version = a.Revision, a.Generation, a.Version
	} else if !in.SpecPending() {
		st.AcceptedGeneration = w.cluster.Generation
	}
	if o.Event() == "" {
		return
	}
	m, err := fsm.Restore(fsm.Cluster(), fsm.State(in.Phase()))
	if err != nil {
		t.Fatal(err)
	}
	moved, err := m.Fire(w.t.Context(), o.Event())
	if err != nil {
		t.Fatalf("%v (%s)", err, o.Message())
	}
	st.Hold = nil
	if o.Hold() != nil {
		st.Hold = NewHold(in.Snapshot, o.Hold())
	}
	w.phase(v1alpha1.Phase(moved.To), 0)
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
			s.StoragePools = append(s.StoragePools[:1:1], v1alpha1.StoragePoolSpec{Name: "more", File: &v1alpha1.FilePool{Directory: "/var/lib/more"}})
		},
		"impossible": func(s *v1alpha1.StorageClusterSpec) { s.Version = "9.9.9" },
	}
}

// TestSpecEditsEndInTheLastSpec edits the spec, takes edits back, works and looks in any order. In the end the cluster is what
// the last spec alone would have made.
func TestSpecEditsEndInTheLastSpec(t *testing.T) {
	edits := specEdits()
	names := slices.Sorted(maps.Keys(edits))
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, 2)
		first := w.cluster.Spec.DeepCopy()
		change := func(f func(*v1alpha1.StorageClusterSpec)) {
			f(&w.cluster.Spec)
			w.cluster.Generation++
		}
		for range rapid.IntRange(1, 25).Draw(rt, "deeds") {
			switch rapid.SampledFrom([]string{"edit", "take back", "work", "look", "look"}).Draw(rt, "deed") {
			case "edit":
				change(edits[rapid.SampledFrom(names).Draw(rt, "edit")])
			case "take back":
				change(func(s *v1alpha1.StorageClusterSpec) { *s = *first.DeepCopy() })
			case "work":
				w.deploy()
				w.register()
			case "look":
				w.step(rt)
			}
		}
		if w.cluster.Spec.Version != "" {
			change(func(s *v1alpha1.StorageClusterSpec) { s.Version = "" })
		}
		for range 40 {
			if w.step(rt); w.cluster.Status.Phase == v1alpha1.PhaseReady && !w.snapshot().SpecPending() {
				break
			}
			w.deploy()
			w.register()
			w.linstor.View.Properties = linstor.Diff(nil, w.snapshot().controllerProperties()).Set
		}
		fresh := newWorld(t, 2)
		fresh.cluster.Spec = *w.cluster.Spec.DeepCopy()
		fresh.settle()
		st := w.cluster.Status
		if st.Phase != v1alpha1.PhaseReady || st.Target != fresh.cluster.Status.Target || st.AcceptedGeneration != w.cluster.Generation {
			rt.Fatalf("phase %s, target %s of generation %d; want Ready, %s, %d", st.Phase, st.Target, st.AcceptedGeneration, fresh.cluster.Status.Target, w.cluster.Generation)
		}
		ignore := cmpopts.IgnoreTypes(metav1.Time{})
		if diff := cmp.Diff(fresh.snapshot().Target.Spec, w.snapshot().Target.Spec); diff != "" {
			rt.Errorf("accepted spec (-fresh +edited):\n%s", diff)
		}
		for name, want := range fresh.kube.DaemonSets {
			if diff := cmp.Diff(want, w.kube.DaemonSets[name], ignore); diff != "" {
				rt.Errorf("DaemonSet %s (-fresh +edited):\n%s", name, diff)
			}
		}
		if diff := cmp.Diff(fresh.kube.Deployments, w.kube.Deployments, ignore); diff != "" {
			rt.Errorf("Deployments (-fresh +edited):\n%s", diff)
		}
	})
}
