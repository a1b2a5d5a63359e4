package deploy

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

// specs are accepted specs that lead to different objects.
func specs() map[string]v1alpha1.StorageClusterSpec {
	sql := &v1alpha1.SQLDatabase{Host: "db.example.com", CredentialsSecret: "db"}
	return map[string]v1alpha1.StorageClusterSpec{
		"default": {},
		"pod network, sql": {
			Images: v1alpha1.ImagesSpec{Registry: "registry.example.com/x", PullSecrets: []string{"pull"}},
			Nodes: v1alpha1.NodesSpec{Network: nodespec.NetworkSpec{Mode: nodespec.NetworkPod},
				Tolerations: []v1alpha1.Toleration{{Operator: "Exists"}}},
			KernelModule: v1alpha1.KernelModuleSpec{Mode: v1alpha1.ModulePrebuilt},
			Database:     v1alpha1.DatabaseSpec{PostgreSQL: sql},
			Controller:   v1alpha1.ControllerSpec{PassphraseSecret: "passphrase"},
			StoragePools: []v1alpha1.StoragePoolSpec{{Name: "files", File: &v1alpha1.FilePool{Directory: "/srv/linstor"}}},
		},
		"compile": {KernelModule: v1alpha1.KernelModuleSpec{Mode: v1alpha1.ModuleCompile}},
	}
}

// objects are all that the builders make of a spec, with the embedded catalogue's newest release.
func objects(t *testing.T, spec v1alpha1.StorageClusterSpec) []client.Object {
	t.Helper()
	c := catalogue.Embedded()
	release, ok := c.Release(c.Newest())
	if !ok {
		t.Fatal("the catalogue is empty")
	}
	generic, talos := platform.ProfileOf(v1alpha1.PlatformGeneric), platform.ProfileOf(v1alpha1.PlatformTalos)
	openshift := platform.ProfileOf(v1alpha1.PlatformOpenShift)
	p := resources.Params{Cluster: v1alpha1.ClusterName, Spec: &spec, Release: release}
	access := connection.Settings{URL: connection.URL(&spec.Database)}
	if spec.Database.PostgreSQL != nil {
		access.User, access.Password = "linstor", "example"
	}
	return []client.Object{
		resources.ModuleLoader(p, generic, c.LoaderFor("Ubuntu 24.04 LTS")),
		resources.ModuleLoader(p, generic, c.LoaderFor("Something else")),
		resources.ModuleLoader(p, openshift, c.LoaderFor("Red Hat Enterprise Linux CoreOS 417.94.202411261220-0")),
		resources.SatelliteConfig(p),
		resources.Satellite(p, generic),
		resources.Satellite(p, talos),
		resources.ControllerConfig(p, access),
		resources.ControllerService(p, false),
		resources.Controller(p, "0123456789abcdef"),
		resources.CSIDriver(p),
		resources.StorageClass(p, &volumespec.StorageClassSpec{Name: "replicated", MountOptions: []string{"noatime"}}, true),
		resources.SnapshotClass(p, true),
		canary.Claim(p, resources.StorageClass(p, &volumespec.StorageClassSpec{Name: "replicated"}, false)),
		controlledByNobody(canary.Pod(p, &v1alpha1.StorageCluster{}, "replicated")),
		canary.Snapshot(p, "replicated", "linstor-snapshots"),
		resources.DriverController(p, true, true),
		resources.DriverNode(p, generic),
		resources.DriverNode(p, talos),
		revision.Of(v1alpha1.ClusterName, 1, &spec),
		resources.Claim(v1alpha1.ClusterName, resources.ClaimData{Backend: access.URL}),
	}
}

// controlledByNobody is a pod without the StorageCluster that controls it, which is not there.
func controlledByNobody(p *corev1.Pod) *corev1.Pod {
	p.OwnerReferences = nil
	return p
}

// TestObjectsApply applies all objects as the operator: the API server must accept them, keep what they say, and find
// nothing to change when they are applied again.
func TestObjectsApply(t *testing.T) {
	for name, spec := range specs() {
		t.Run(name, func(t *testing.T) {
			for _, o := range objects(t, spec) {
				t.Cleanup(func() {
					if err := operator.Delete(context.WithoutCancel(t.Context()), o); err != nil {
						t.Errorf("the operator cannot delete what it made: %v", err)
					}
				})
				want := o.DeepCopyObject().(client.Object)
				first := applied(t, o)
				if !keeps(want, first) {
					t.Errorf("the API server holds another %T %s than was applied (-applied +held):\n%s", o, o.GetName(),
						cmp.Diff(want, first))
				}
				again := applied(t, want)
				if changed(first, again) {
					t.Errorf("applying %T %s again changes it", o, o.GetName())
				}
			}
		})
	}
}

// changed reports whether an object was changed between two looks. Workloads get another resourceVersion from their
// controllers as well, but only we change their generation; claims have none, and a status that changes by itself.
func changed(first, again client.Object) bool {
	if claim, ok := first.(*corev1.PersistentVolumeClaim); ok {
		now, ok := again.(*corev1.PersistentVolumeClaim)
		return !ok || !equality.Semantic.DeepEqual(claim.Spec, now.Spec) ||
			!equality.Semantic.DeepEqual(claim.Labels, now.Labels)
	}
	return first.GetGeneration() != again.GetGeneration() ||
		first.GetGeneration() == 0 && first.GetResourceVersion() != again.GetResourceVersion()
}

func applied(t *testing.T, o client.Object) client.Object {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	delete(fields, "status")
	kind, err := apiutil.GVKForObject(o, admin.Scheme())
	if err != nil || kind != o.GetObjectKind().GroupVersionKind() {
		t.Fatalf("%T calls itself %s (%v)", o, o.GetObjectKind().GroupVersionKind(), err)
	}
	u := &unstructured.Unstructured{Object: fields}
	if err := operator.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("deploy-test"),
		client.ForceOwnership); err != nil {
		t.Fatalf("apply %s %s: %v", kind.Kind, o.GetName(), err)
	}
	live, err := admin.Scheme().New(kind)
	if err != nil {
		t.Fatal(err)
	}
	out := live.(client.Object)
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// keepsPod compares what a pod is made of. Kubernetes adds tolerations of its own.
func keepsPod(want, live corev1.PodSpec) bool {
	want.Tolerations = nil
	return equality.Semantic.DeepDerivative(want, live)
}

// keeps reports whether every field that the builder set has its value in the live object.
func keeps(want, live client.Object) bool {
	if !equality.Semantic.DeepDerivative(want.GetLabels(), live.GetLabels()) ||
		!equality.Semantic.DeepDerivative(want.GetAnnotations(), live.GetAnnotations()) ||
		len(live.GetOwnerReferences()) != 0 {
		return false
	}
	return keepsSpec(want, live) || keepsData(want, live)
}

func keepsSpec(want, live client.Object) bool {
	switch want := want.(type) {
	case *appsv1.DaemonSet:
		return equality.Semantic.DeepDerivative(want.Spec, live.(*appsv1.DaemonSet).Spec)
	case *appsv1.Deployment:
		return equality.Semantic.DeepDerivative(want.Spec, live.(*appsv1.Deployment).Spec)
	case *corev1.Service:
		return equality.Semantic.DeepDerivative(want.Spec, live.(*corev1.Service).Spec)
	case *storagev1.StorageClass:
		return step.Matches(live.(*storagev1.StorageClass), want)
	case *snapshotv1.VolumeSnapshotClass:
		return step.Matches(live.(*snapshotv1.VolumeSnapshotClass), want)
	case *snapshotv1.VolumeSnapshot:
		return equality.Semantic.DeepDerivative(want.Spec, live.(*snapshotv1.VolumeSnapshot).Spec)
	case *storagev1.CSIDriver:
		return equality.Semantic.DeepDerivative(want.Spec, live.(*storagev1.CSIDriver).Spec)
	case *corev1.PersistentVolumeClaim:
		return equality.Semantic.DeepDerivative(want.Spec, live.(*corev1.PersistentVolumeClaim).Spec)
	case *corev1.Pod:
		return keepsPod(want.Spec, live.(*corev1.Pod).Spec)
	default:
		return false
	}
}

func keepsData(want, live client.Object) bool {
	switch want := want.(type) {
	case *corev1.ConfigMap:
		return equality.Semantic.DeepEqual(want.Data, live.(*corev1.ConfigMap).Data)
	case *corev1.Secret:
		return equality.Semantic.DeepEqual(want.Data, live.(*corev1.Secret).Data)
	case *appsv1.ControllerRevision:
		back, err := revision.Spec(live.(*appsv1.ControllerRevision))
		return err == nil && revision.Of(v1alpha1.ClusterName, 1, back).Name == want.Name
	default:
		return false
	}
}
