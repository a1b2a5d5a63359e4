package specchange_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/monitoringspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
)

// oneEach is a spec in which each list with keys has one entry and each section is there, so that all fields can be
// visited.
func oneEach() *v1alpha1.StorageClusterSpec {
	return &v1alpha1.StorageClusterSpec{
		Version: catalogue.Embedded().Newest(), TLS: tlsspec.TLSSpec{Mode: tlsspec.Disabled},
		Nodes:        v1alpha1.NodesSpec{Interfaces: []nodespec.InterfaceSpec{{Name: "storage"}}},
		StoragePools: []v1alpha1.StoragePoolSpec{{Name: "ssd"}},
		Volumes:      volumespec.VolumesSpec{StorageClasses: []volumespec.StorageClassSpec{{Name: "fast"}}},
	}
}

// working is what a ControllerRevision keeps of a StorageCluster's spec.
func working(c *v1alpha1.StorageCluster) *v1alpha1.StorageClusterSpec {
	return (&cluster.Facts{Cluster: c, Catalogue: catalogue.Embedded()}).WorkingSpec()
}

func TestEachSpecFieldHasAClass(t *testing.T) {
	var paths []string
	spec := reflect.ValueOf(oneEach()).Elem()
	specchange.WalkSpec("", spec, spec, func(path string, _, _ reflect.Value) {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	})
	classes := map[string]specchange.Field{}
	for _, f := range specchange.Fields() {
		if _, twice := classes[f.Path]; twice {
			t.Errorf("%s is classified twice", f.Path)
		}
		classes[f.Path] = f
		if !slices.Contains(paths, f.Path) {
			t.Errorf("%s is classified but no field of the spec", f.Path)
		}
		if !slices.Contains([]specchange.Class{specchange.ClassImmediate, specchange.ClassRolling,
			specchange.ClassAtNextAssess, specchange.ClassRefused}, f.Class) || f.Effect == "" {
			t.Errorf("%s: class %q, effect %q", f.Path, f.Class, f.Effect)
		}
		if f.Class == specchange.ClassImmediate && len(f.Fixes) > 0 {
			t.Errorf("%s holds at once and has nothing to interrupt", f.Path)
		}
		for _, s := range f.Fixes {
			if !slices.Contains(fsm.Chain(), s) {
				t.Errorf("%s interrupts %s, which does no work", f.Path, s)
			}
		}
	}
	for _, path := range paths {
		if _, ok := classes[path]; !ok {
			t.Errorf("%s has no class: say in Fields of class.go what becomes of a change of it", path)
		}
	}
	if len(paths) < 50 {
		t.Errorf("only %d fields were visited: %v", len(paths), paths)
	}
}

// set gives a value something that it did not have.
func set(t *testing.T, v reflect.Value) {
	t.Helper()
	switch x := v.Addr().Interface().(type) {
	case **intstr.IntOrString:
		*x = ptr.To(intstr.FromInt32(7))
	case **bool:
		*x = ptr.To(true)
	case **metav1.Duration:
		*x = &metav1.Duration{Duration: time.Hour}
	case **v1alpha1.KubernetesDatabase:
		*x = &v1alpha1.KubernetesDatabase{}
	case *v1alpha1.ResourceAmounts:
		*x = v1alpha1.ResourceAmounts{corev1.ResourceCPU: resource.MustParse("1")}
	case *map[string]volumespec.ParameterValue:
		*x = map[string]volumespec.ParameterValue{"k": "v"}
	case *map[string]monitoringspec.LabelValue:
		*x = map[string]monitoringspec.LabelValue{"k": "v"}
	case *map[string]string:
		*x = map[string]string{"k": "v"}
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString("other")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int32:
			v.SetInt(7)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		default:
			t.Fatalf("no value for %s", v.Type())
		}
	}
}

// changeAt sets the field of that path in a spec of oneEach.
func changeAt(t *testing.T, spec *v1alpha1.StorageClusterSpec, path string) {
	t.Helper()
	v := reflect.ValueOf(spec).Elem()
	for part := range strings.SplitSeq(path, ".") {
		name, list := strings.CutSuffix(part, "[]")
		for i := range v.NumField() {
			if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag == name {
				v = v.Field(i)
				break
			}
		}
		if list && specchange.IsKeyed(v.Type().Elem()) {
			v = v.Index(0)
		}
		if v.Kind() == reflect.Pointer && specchange.IsSection(v.Type().Elem()) {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
	}
	set(t, v)
}

// TestSpecDiffFindsEachField also shows that a ControllerRevision keeps every field but those that hold at once, and
// that these are taken from the cluster's present spec.
func TestSpecDiffFindsEachField(t *testing.T) {
	for _, f := range specchange.Fields() {
		changed := oneEach()
		changeAt(t, changed, f.Path)
		diff := specchange.Diff(oneEach(), changed)
		if !slices.Equal(diff, []string{f.Path}) {
			t.Errorf("%s: the difference is %v", f.Path, diff)
		}
		if back := specchange.Diff(changed, oneEach()); !slices.Equal(back, diff) {
			t.Errorf("%s: the difference backwards is %v", f.Path, back)
		}
		if again := specchange.Diff(changed, changed.DeepCopy()); len(again) > 0 {
			t.Errorf("%s: a spec differs from itself in %v", f.Path, again)
		}
		c := &v1alpha1.StorageCluster{Spec: *changed}
		kept := working(c)
		if f.Class == specchange.ClassImmediate {
			if diff := specchange.Diff(kept, oneEach()); len(diff) > 0 {
				t.Errorf("%s holds at once, but a ControllerRevision keeps %v", f.Path, diff)
			}
		} else if diff := specchange.Diff(kept, changed); len(diff) > 0 {
			t.Errorf("%s: a ControllerRevision does not keep %v", f.Path, diff)
		}
		if diff := specchange.Diff(specchange.NewTarget("r", kept, clustertest.NewWorld(t, 1).Snapshot().Target.Release,
			c).Spec, changed); len(diff) > 0 {
			t.Errorf("%s: the accepted spec lacks %v", f.Path, diff)
		}
	}
}

func TestSpecDiffOfEntries(t *testing.T) {
	a, b := oneEach(), oneEach()
	b.StoragePools = append([]v1alpha1.StoragePoolSpec{{Name: "new", Devices: &v1alpha1.DevicesSpec{Optional: true}}},
		b.StoragePools...)
	want := []string{"storagePools[].devices.optional", "storagePools[].name"}
	if got := specchange.Diff(a, b); !slices.Equal(got, want) {
		t.Errorf("an entry more: %v", got)
	}
	if got := specchange.Diff(b, a); !slices.Equal(got, want) {
		t.Errorf("an entry less: %v", got)
	}
	swapped := b.DeepCopy()
	slices.Reverse(swapped.StoragePools)
	if got := specchange.Diff(b, swapped); len(got) > 0 {
		t.Errorf("another order: %v", got)
	}
}

// TestSpecWaits: what becomes of a change in a phase of the chain.
func TestSpecWaits(t *testing.T) {
	edit := func(path string) func(*clustertest.World) {
		return func(w *clustertest.World) {
			w.Cluster.Generation++
			w.Cluster.Spec.StoragePools[0].LVMThin = clustertest.Ssd().LVMThin
			changeAt(t, &w.Cluster.Spec, path)
		}
	}
	mode := edit("kernelModule.mode")
	for _, tc := range []struct {
		name  string
		phase v1alpha1.Phase
		spoil []func(*clustertest.World)
		waits bool
		class specchange.Class
	}{
		{"what the phase works on", v1alpha1.PhaseKernelModule, []func(*clustertest.World){mode}, false,
			specchange.ClassPreempt},
		{"what comes later", v1alpha1.PhaseKernelModule, []func(*clustertest.World){edit("nodes.properties")}, true,
			specchange.ClassAtNextAssess},
		{"what was done before", v1alpha1.PhaseStoragePools, []func(*clustertest.World){mode}, true,
			specchange.ClassRolling},
		{"what was done before and is broken now", v1alpha1.PhaseStoragePools,
			[]func(*clustertest.World){mode,
				func(w *clustertest.World) { w.FailPod(v1alpha1.ComponentModuleLoader, "n01", "no headers") }}, false,
			specchange.ClassRolling},
		{"what cannot be done is told at once", v1alpha1.PhaseSatellites,
			[]func(*clustertest.World){func(w *clustertest.World) {
				w.Cluster.Generation++
				w.Cluster.Spec.Version = "9.9.9"
			}}, false, specchange.ClassPreempt},
		{"nothing", v1alpha1.PhaseSatellites, nil, false, ""},
		{"taken back", v1alpha1.PhaseSatellites,
			[]func(*clustertest.World){func(w *clustertest.World) { w.Cluster.Generation += 2 }}, false, ""},
		{"what holds at once", v1alpha1.PhaseSatellites, []func(*clustertest.World){edit("nodes.minReady")}, false,
			specchange.ClassImmediate},
		{"no work in progress", v1alpha1.PhaseReady, []func(*clustertest.World){edit("nodes.properties")}, false,
			specchange.ClassAtNextAssess},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			w.Phase(tc.phase, 0)
			for _, f := range tc.spoil {
				f(w)
			}
			if got := phases.SpecWaits(w.Snapshot()); got != tc.waits {
				t.Errorf("waits: %t", got)
			}
		})
	}
	fields := specchange.Fields()
	i := slices.IndexFunc(fields, func(f specchange.Field) bool { return f.Path == "kernelModule.mode" })
	if in, out := fields[i].In(fsm.KernelModule),
		fields[i].In(fsm.StoragePools); in != specchange.ClassPreempt || out != specchange.ClassRolling {
		t.Errorf("kernelModule.mode is %s and %s", in, out)
	}
}

// TestAChangeThatWaitsIsTakenUpBeforeAHumanIsAsked: a phase that fails or does not end must not keep a change for
// ever.
func TestAChangeThatWaitsIsTakenUpBeforeAHumanIsAsked(t *testing.T) {
	stuck := map[string]func(*clustertest.World){
		"too long": func(w *clustertest.World) {
			w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
			w.Phase(v1alpha1.PhaseSatellites, time.Hour)
		},
		"failed": func(w *clustertest.World) {
			w.FailPod(v1alpha1.ComponentSatellite, "n01", "java.lang.Error")
			w.Phase(v1alpha1.PhaseSatellites, 0)
		},
	}
	for name, spoil := range stuck {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			spoil(w)
			in, _ := w.Input()
			if o := phases.Decide(t.Context(), in); o.Event != fsm.HumanNeeded {
				t.Fatalf("without a change: %s %s", o.Event, o.Message)
			}
			w.Cluster.Generation++
			w.Cluster.Spec.Nodes.Properties = map[string]string{"Aux/x": "y"}
			in, _ = w.Input()
			if !phases.SpecWaits(in.Snapshot) {
				t.Fatal("the change does not wait")
			}
			if o := phases.Decide(t.Context(), in); o.Event != fsm.SpecChanged || !strings.Contains(o.Message, "generation 2") {
				t.Errorf("with a change that waits: %s %s", o.Event, o.Message)
			}
		})
	}
}

// TestImmediateFieldsHoldWithoutAStep: the accepted spec has their present value in every phase.
func TestImmediateFieldsHoldWithoutAStep(t *testing.T) {
	w := clustertest.NewWorld(t, 4)
	w.Cluster.Generation++
	w.Cluster.Spec.Nodes.MinReady = ptr.To(intstr.FromInt32(2))
	w.Cluster.Spec.StoragePools[0].WarnUsedPercent = 50
	s := w.Snapshot()
	if s.SpecPending() || s.MinReady() != 2 || poolspec.WarnAt(&s.Target.Spec.StoragePools[0]) != 50 {
		t.Errorf("pending %t, minReady %d, warn at %d", s.SpecPending(), s.MinReady(),
			poolspec.WarnAt(&s.Target.Spec.StoragePools[0]))
	}
	kept := slices.Collect(maps.Values(w.Kube.Revisions))[0]
	if text := string(kept.Data.Raw); strings.Contains(text, "minReady") || strings.Contains(text, "warnUsedPercent") {
		t.Errorf("the ControllerRevision keeps %s", text)
	}
}
