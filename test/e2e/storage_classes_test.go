package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/storageclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

func liveClass(e *env, name string) (*storagev1.StorageClass, error) {
	c := &storagev1.StorageClass{}
	err := e.Client().Get(e.Ctx, client.ObjectKey{Name: name}, c)
	return c, err
}

// classWith waits until a StorageClass is there and as wanted.
func (e *env) classWith(name, what string, as func(*storagev1.StorageClass) bool) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("StorageClass %s is %s", name, what), func() error {
		c, err := liveClass(e, name)
		if err == nil && !as(c) {
			err = fmt.Errorf("it is %+v", c)
		}
		return err
	})
}

func noClass(e *env, name string) {
	e.T.Helper()
	gone(e, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// volumeOf is a PersistentVolume of a StorageClass.
func volumeOf(name, class string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		StorageClassName: class,
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: resources.DriverName, VolumeHandle: name}},
	}}
}

func setClasses(entries ...volumespec.StorageClassSpec) func(*v1alpha1.StorageCluster) {
	return func(c *v1alpha1.StorageCluster) { c.Spec.Volumes.StorageClasses = entries }
}

// TestStorageClasses makes StorageClasses, says of one that it cannot be satisfied, keeps them as they are wanted, and
// takes away the one that is not wanted any more.
func TestStorageClasses(t *testing.T) {
	e := start(t, harness.Nodes(3))
	old := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "old",
		Annotations: map[string]string{resources.AnnotationDefaultClass: "true"}}, Provisioner: "other.example.com"}
	create(e, old)
	e.Run()
	e.Apply(harness.Manifest(`
  volumes:
    driver: {mode: Managed}
    canary: None
    storageClasses:
    - {name: fast, storagePools: [ssd], default: true}
    - {name: wide, storagePools: [ssd], replicas: 5}
    - {name: old}
` + harness.ThinPool))
	st := e.says(conditions.StorageClassesReady, storageclass.ReasonUnsatisfiable,
		"old: the StorageClass with this name was not created by the operator",
		"wide: 5 replicas require as many nodes, but 3 nodes can hold a replica (n1, n2, n3)",
		"old is already the default").Status
	if !strings.HasPrefix(st.Attention, "StorageClass wide: ") {
		t.Errorf("ATTENTION is %q", st.Attention)
	}
	isDefault := func(want string) func(*storagev1.StorageClass) bool {
		return func(c *storagev1.StorageClass) bool {
			return c.Annotations[resources.AnnotationDefaultClass] == want &&
				c.Parameters["linstor.csi.linbit.com/storagePool"] == "ssd" && ptr.Deref(c.AllowVolumeExpansion, false)
		}
	}
	e.classWith("fast", "there, and not the default", isDefault(""))
	if c, err := liveClass(e, "old"); err != nil || c.Provisioner != "other.example.com" {
		t.Errorf("somebody else's class: %+v, %v", c, err)
	}
	if err := e.Client().Delete(e.Ctx, old); err != nil {
		t.Fatal(err)
	}
	e.Update(setClasses(volumespec.StorageClassSpec{Name: "fast", StoragePools: []string{"ssd"}, Default: true}))
	noClass(e, "wide")
	noClass(e, "old")
	e.classWith("fast", "the default", isDefault("true"))
	e.says(conditions.StorageClassesReady, conditions.ReasonAsExpected, "1 StorageClass exists")

	live, err := liveClass(e, "fast")
	if err != nil {
		t.Fatal(err)
	}
	live.AllowVolumeExpansion = ptr.To(false)
	if err := e.Client().Update(e.Ctx, live); err != nil {
		t.Fatal(err)
	}
	e.classWith("fast", "as wanted again", isDefault("true"))
	if err := e.Client().Delete(e.Ctx, live); err != nil {
		t.Fatal(err)
	}
	e.classWith("fast", "back", isDefault("true"))
	e.says(conditions.StorageClassesReady, conditions.ReasonAsExpected)
}

// TestAClassThatVolumesAreOf stays when its entry goes, and does not come back as another one.
func TestAClassThatVolumesAreOf(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(`
  volumes: {driver: {mode: Managed}, canary: None, storageClasses: [{name: fast, replicas: 2}]}
` + harness.ThinPool))
	e.says(conditions.StorageClassesReady, conditions.ReasonAsExpected)
	volume := volumeOf("pv-1", "fast")
	create(e, volume)
	e.Update(setClasses())
	e.says(conditions.StorageClassesReady, "NotWanted",
		"StorageClass fast is no longer in the spec, but is kept because 1 PersistentVolume uses it")
	uid := func() string {
		c, err := liveClass(e, "fast")
		if err != nil {
			t.Fatal(err)
		}
		return string(c.UID)
	}
	before := uid()
	e.Update(setClasses(volumespec.StorageClassSpec{Name: "fast", Replicas: 3}))
	h := e.WaitHold(v1alpha1.HoldUnsupportedChange)
	if !strings.Contains(h.Message, "spec.volumes.storageClasses[fast]") {
		t.Errorf("the hold says %q", h.Message)
	}
	e.Update(setClasses())
	e.says(conditions.StorageClassesReady, "NotWanted")
	if uid() != before {
		t.Error("the StorageClass was made anew under its volume")
	}
	remove(e, volume)
	noClass(e, "fast")
	e.says(conditions.StorageClassesReady, "NotWanted", "is empty")
}

// TestAChangedResourceGroup: a property that somebody changed in LINSTOR stops the driver from making volumes. The
// condition has the words to set it back with, after which the claim that waits is bound.
func TestAChangedResourceGroup(t *testing.T) {
	e := claimEnv{startWithDriver(t, harness.Nodes(3))}
	e.Run()
	e.Apply(harness.Manifest(`
  volumes:
    driver: {mode: Managed}
    canary: None
    storageClasses:
    - name: fast
      storagePools: [ssd]
      volumeBindingMode: Immediate
      parameters: {property.linstor.csi.linbit.com/DrbdOptions/Resource/on-no-quorum: suspend-io}
` + harness.ThinPool))
	e.says(conditions.StorageClassesReady, conditions.ReasonAsExpected)
	e.bound(e.claim("before", "fast", "64Mi"))
	set := func(value string) {
		e.LinstorWrite(http.MethodPut, "/v1/resource-groups/fast",
			fmt.Sprintf(`{"override_props":{"DrbdOptions/Resource/on-no-quorum":%q}}`, value))
	}
	set("io-error")
	st := e.says(conditions.StorageClassesReady, storageclass.ReasonGroupDiffers,
		`is "io-error" in LINSTOR, but "suspend-io" in the StorageClass`,
		"linstor resource-group set-property fast DrbdOptions/Resource/on-no-quorum suspend-io").Status
	if !strings.HasPrefix(st.Attention, "StorageClass fast: ") {
		t.Errorf("ATTENTION is %q", st.Attention)
	}
	waits := e.claim("waits", "fast", "64Mi")
	e.Eventually("the driver refuses the claim", func() error {
		if said := e.eventsOf(waits.Name); !strings.Contains(said, "on-no-quorum") {
			return fmt.Errorf("its events are: %s", said)
		}
		return nil
	})
	set("suspend-io")
	e.says(conditions.StorageClassesReady, conditions.ReasonAsExpected)
	e.bound(waits)
}
