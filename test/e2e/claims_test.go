package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// claimEnv is a cluster with LINSTOR's volume driver, whose pods use volumes.
type claimEnv struct{ *env }

// withDriver brings up a cluster with the driver.
func withDriver(t *testing.T, nodes int) claimEnv {
	t.Helper()
	e := claimEnv{startWithDriver(t, harness.Nodes(nodes))}
	e.Run()
	e.Apply(harness.Manifest(driven))
	e.says(conditions.VolumeDriverReady, "True/DriverRunning", fmt.Sprintf("%d of %d nodes", nodes, nodes))
	return e
}

func create(e *env, o client.Object) {
	e.T.Helper()
	if err := e.Client().Create(e.Ctx, o); err != nil {
		e.T.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

func remove(e *env, o client.Object) {
	e.T.Helper()
	if err := e.Client().Delete(e.Ctx, o); err != nil {
		e.T.Fatalf("delete %T %s: %v", o, o.GetName(), err)
	}
}

// gone waits until an object is not there any more.
func gone(e *env, o client.Object) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("%T %s is gone", o, o.GetName()), func() error {
		err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(o), o)
		if err == nil {
			return fmt.Errorf("it is there, with finalizers %v", o.GetFinalizers())
		}
		return client.IgnoreNotFound(err)
	})
}

func (e claimEnv) class(name string, mode storagev1.VolumeBindingMode, parameters map[string]string) {
	e.T.Helper()
	parameters["storagePool"], parameters["resourceGroup"] = "ssd", name
	create(e.env, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: resources.DriverName,
		VolumeBindingMode: &mode, AllowVolumeExpansion: ptr.To(true), Parameters: parameters})
}

func (e claimEnv) claim(name, class, size string) *corev1.PersistentVolumeClaim {
	e.T.Helper()
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse(size)}}}}
	create(e.env, c)
	return c
}

// pod runs steps on the volume of a claim, which is at /data; see kubelet.VolumeIO. With a node it runs there.
func (e claimEnv) pod(name, claim, node string, steps ...string) *corev1.Pod {
	e.T.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "main", Image: "registry.example/tools:1",
			Command: []string{kubelet.VolumeIO}, Args: steps,
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			VolumeMounts:             []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
	}}
	if node != "" {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	create(e.env, p)
	return p
}

// phase waits until a pod is in a phase.
func (e claimEnv) phase(p *corev1.Pod, want corev1.PodPhase) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("pod %s is %s", p.Name, want), func() error {
		if err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.Phase != want {
			return fmt.Errorf("it is %s: %+v; %s", p.Status.Phase, p.Status.ContainerStatuses, e.eventsOf(p.Name))
		}
		return nil
	})
}

// said is what the pod's container left in its termination message.
func said(p *corev1.Pod) string {
	if len(p.Status.ContainerStatuses) != 1 || p.Status.ContainerStatuses[0].State.Terminated == nil {
		return ""
	}
	return p.Status.ContainerStatuses[0].State.Terminated.Message
}

// eventsOf are the messages of the events about an object of that name.
func (e claimEnv) eventsOf(name string) string {
	var list corev1.EventList
	if err := e.Client().List(e.Ctx, &list, client.InNamespace("default")); err != nil {
		return err.Error()
	}
	var out []string
	for _, ev := range list.Items {
		if ev.InvolvedObject.Name == name {
			out = append(out, ev.Reason+": "+ev.Message)
		}
	}
	return strings.Join(out, "; ")
}

// bound waits until a claim is bound, and returns its volume.
func (e claimEnv) bound(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	e.T.Helper()
	e.Eventually("claim "+c.Name+" is Bound", func() error {
		if err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if c.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s; %s", c.Status.Phase, e.eventsOf(c.Name))
		}
		return nil
	})
	v := &corev1.PersistentVolume{}
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Name: c.Spec.VolumeName}, v); err != nil {
		e.T.Fatal(err)
	}
	return v
}

// linstorHas reports whether LINSTOR knows an object.
func (e claimEnv) linstorHas(path string) bool {
	e.T.Helper()
	return e.LinstorRequest(http.MethodGet, "/v1/"+path, "") == http.StatusOK
}

// TestClaim goes through the life of a volume, from the claim to the last trace of it, with Kubernetes' own sidecars
// and the rights that the manifests give them.
func TestClaim(t *testing.T) {
	e := withDriver(t, 3)
	e.class("replicated", storagev1.VolumeBindingImmediate, map[string]string{"placementCount": "2"})
	c := e.claim("data", "replicated", "64Mi")
	pv := e.bound(c)
	name := pv.Spec.CSI.VolumeHandle
	if held := e.Sim.World().Volumes().Data(name); len(held) != 2 {
		t.Errorf("copies of %s on %v", name, held)
	}
	if pv.Spec.NodeAffinity != nil {
		t.Errorf("a volume that can be used from anywhere is bound to nodes: %+v", pv.Spec.NodeAffinity)
	}

	writer := e.pod("writer", c.Name, "", "write /data/greeting hello", "hold")
	e.phase(writer, corev1.PodRunning)
	e.grow(c, "128Mi")
	remove(e.env, writer)
	gone(e.env, writer)

	// On each node in turn, those without a copy included.
	for _, node := range []string{"n1", "n2", "n3"} {
		reader := e.pod("reader-"+node, c.Name, node, "size /data/greeting", "read /data/greeting")
		e.phase(reader, corev1.PodSucceeded)
		if got := said(reader); got != "131072\nhello" {
			t.Errorf("the pod on %s read %q", node, got)
		}
		remove(e.env, reader)
		gone(e.env, reader)
	}
	remove(e.env, c)
	gone(e.env, pv)
	e.nothingLeft(name, "replicated")
}

// grow asks for a larger volume while a pod uses it, and waits until the file system has grown.
func (e claimEnv) grow(c *corev1.PersistentVolumeClaim, size string) {
	e.T.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	if err := e.Client().Patch(e.Ctx, c, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		e.T.Fatal(err)
	}
	e.Eventually("the claim has "+size, func() error {
		if err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if have := c.Status.Capacity[corev1.ResourceStorage]; have.Cmp(resource.MustParse(size)) != 0 {
			return fmt.Errorf("it has %s: %+v; %s", have.String(), c.Status.Conditions, e.eventsOf(c.Name))
		}
		return nil
	})
}

// nothingLeft waits until neither LINSTOR, its machines nor Kubernetes have anything of a volume.
func (e claimEnv) nothingLeft(volume, group string) {
	e.T.Helper()
	e.Eventually("nothing is left of "+volume, func() error {
		if e.linstorHas("resource-definitions/" + volume) {
			return fmt.Errorf("LINSTOR has the resource definition")
		}
		if e.linstorHas("resource-groups/" + group) {
			return fmt.Errorf("LINSTOR has the resource group %s", group)
		}
		if held := e.Sim.World().Volumes().Data(volume); len(held) > 0 {
			return fmt.Errorf("there is data on %v", held)
		}
		var attachments storagev1.VolumeAttachmentList
		if err := e.Client().List(e.Ctx, &attachments); err != nil {
			return err
		}
		for _, a := range attachments.Items {
			if a.Spec.Attacher == resources.DriverName {
				return fmt.Errorf("there is a VolumeAttachment to %s", a.Spec.NodeName)
			}
		}
		return nil
	})
}

// TestClaimOnTheNodeOfItsPod: a volume that only the node with its copy can use is made where the pod will be, and the
// pods that follow go there.
func TestClaimOnTheNodeOfItsPod(t *testing.T) {
	e := withDriver(t, 3)
	e.class("local", storagev1.VolumeBindingWaitForFirstConsumer, map[string]string{"layerList": "storage"})
	c := e.claim("data", "local", "32Mi")
	writer := e.pod("writer", c.Name, "n2", "write /data/greeting hello")
	e.phase(writer, corev1.PodSucceeded)
	pv := e.bound(c)
	if held := e.Sim.World().Volumes().Data(pv.Spec.CSI.VolumeHandle); !slices.Equal(held, []string{"n2"}) {
		t.Errorf("copies on %v", held)
	}
	remove(e.env, writer)
	reader := e.pod("reader", c.Name, "", "read /data/greeting")
	e.phase(reader, corev1.PodSucceeded)
	if said(reader) != "hello" || reader.Spec.NodeName != "n2" {
		t.Errorf("the pod on %s read %q", reader.Spec.NodeName, said(reader))
	}
	remove(e.env, reader)
	remove(e.env, c)
	gone(e.env, pv)
	e.nothingLeft(pv.Spec.CSI.VolumeHandle, "local")
}

// TestClaimThatCannotBe: what is wrong with a class is said by the claim's events, and the claim is bound once it is
// put right.
func TestClaimThatCannotBe(t *testing.T) {
	e := withDriver(t, 2)
	e.class("too-many", storagev1.VolumeBindingImmediate, map[string]string{"placementCount": "3"})
	c := e.claim("data", "too-many", "32Mi")
	e.Eventually("the claim's events say why", func() error {
		if got := e.eventsOf(c.Name); !strings.Contains(got, "Not enough available nodes") {
			return fmt.Errorf("they say %q", got)
		}
		return nil
	})
	e.AddNode(nodeSpec(3, nil))
	pv := e.bound(c)
	if held := e.Sim.World().Volumes().Data(pv.Spec.CSI.VolumeHandle); len(held) != 3 {
		t.Errorf("copies on %v", held)
	}
	remove(e.env, c)
	gone(e.env, pv)
	e.nothingLeft(pv.Spec.CSI.VolumeHandle, "too-many")
	if err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(c), c); !apierrors.IsNotFound(err) {
		t.Errorf("the claim: %v", err)
	}
}
