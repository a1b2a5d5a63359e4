package realnodes

import (
	"fmt"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
)

// storageClass is the StorageClass of the tests' StorageCluster.
const storageClass = "replicated"

// useVolume goes through the life of a volume: it is written to, used on another node, expanded, snapshotted, restored
// and deleted.
func useVolume(c *cluster) {
	claim := c.claim("data", "")
	c.shell("writer", claim.Name, nil, "echo hello > /data/greeting && sync")

	user := c.pod("user", claim.Name, nil, "trap 'exit 0' TERM; sleep 600 & wait")
	c.phase(user, corev1.PodRunning)
	if said := c.kubectl("exec", user.Name, "--", "cat", "/data/greeting"); said != "hello\n" {
		c.T.Errorf("the pod on %s reads %q", user.Spec.NodeName, said)
	}
	c.grow(claim, "128Mi")
	c.remove(user)
	elsewhere := &corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn,
		Values: []string{user.Spec.NodeName}}
	c.reads("reader", claim.Name, elsewhere, "hello")

	snapshot := &snapshotv1.VolumeSnapshot{ObjectMeta: inDefault("before"),
		Spec: snapshotv1.VolumeSnapshotSpec{VolumeSnapshotClassName: ptr.To(volumespec.DefaultSnapshotClass),
			Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim.Name}}}
	c.must(c.Client().Create(c.Ctx, snapshot))
	c.Eventually("the snapshot can be used", func() error {
		err := c.Client().Get(c.Ctx, client.ObjectKeyFromObject(snapshot), snapshot)
		if err == nil && (snapshot.Status == nil || !ptr.Deref(snapshot.Status.ReadyToUse, false)) {
			err = fmt.Errorf("its status is %+v", snapshot.Status)
		}
		return err
	})
	c.shell("overwriter", claim.Name, nil, "echo changed > /data/greeting && sync")
	restored := c.claim("restored", snapshot.Name)
	c.reads("reader", restored.Name, nil, "hello")
	c.reads("reader", claim.Name, nil, "changed")

	c.remove(snapshot)
	for _, used := range []*corev1.PersistentVolumeClaim{claim, restored} {
		c.must(c.Client().Get(c.Ctx, client.ObjectKeyFromObject(used), used))
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: used.Spec.VolumeName}}
		c.must(c.Client().Get(c.Ctx, client.ObjectKeyFromObject(pv), pv))
		c.remove(used)
		c.gone(pv)
		if held := c.Sim.World().Volumes().Data(pv.Spec.CSI.VolumeHandle); len(held) > 0 {
			c.T.Errorf("there is still data of %s on %v", pv.Name, held)
		}
	}
}

func inDefault(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
}

// claim creates a claim for a volume, with the content of a snapshot if one is named.
func (c *cluster) claim(name, snapshot string) *corev1.PersistentVolumeClaim {
	c.T.Helper()
	size := "64Mi"
	var from *corev1.TypedLocalObjectReference
	if snapshot != "" {
		size = "128Mi"
		from = &corev1.TypedLocalObjectReference{APIGroup: ptr.To(snapshotv1.GroupName), Kind: "VolumeSnapshot",
			Name: snapshot}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: inDefault(name), Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: ptr.To(storageClass), DataSource: from,
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}}}
	c.must(c.Client().Create(c.Ctx, claim))
	return claim
}

// pod creates a pod that runs a script with the volume of a claim at /data, on a node as wanted.
func (c *cluster) pod(name, claim string, where *corev1.NodeSelectorRequirement, script string) *corev1.Pod {
	c.T.Helper()
	p := &corev1.Pod{ObjectMeta: inDefault(name), Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "main", Image: standinImage, Command: []string{"/bin/sh", "-c", script},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			VolumeMounts:             []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}}}
	if where != nil {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{*where}}}}}}
	}
	c.must(c.Client().Create(c.Ctx, p))
	return p
}

// shell runs a script on a volume until it ends well, and returns what it wrote into its termination log.
func (c *cluster) shell(name, claim string, where *corev1.NodeSelectorRequirement, script string) string {
	c.T.Helper()
	p := c.pod(name, claim, where, script)
	c.phase(p, corev1.PodSucceeded)
	said := p.Status.ContainerStatuses[0].State.Terminated.Message
	c.remove(p)
	return said
}

// reads checks what a pod reads from the file that useVolume writes.
func (c *cluster) reads(name, claim string, where *corev1.NodeSelectorRequirement, want string) {
	c.T.Helper()
	if got := c.shell(name, claim, where, "cat /data/greeting > /dev/termination-log"); strings.TrimSpace(got) != want {
		c.T.Errorf("a pod reads %q from the volume of %s, not %q", got, claim, want)
	}
}

// phase waits until a pod is in a phase.
func (c *cluster) phase(p *corev1.Pod, want corev1.PodPhase) {
	c.T.Helper()
	c.Eventually(fmt.Sprintf("pod %s is %s", p.Name, want), func() error {
		err := c.Client().Get(c.Ctx, client.ObjectKeyFromObject(p), p)
		if err == nil && p.Status.Phase != want {
			err = fmt.Errorf("it is %s: %s", p.Status.Phase, strings.Join(seen(p, c.warnings(p)), "\n"))
		}
		return err
	})
}

// warnings are the Events of that type about a pod.
func (c *cluster) warnings(p *corev1.Pod) []corev1.Event {
	c.T.Helper()
	var all corev1.EventList
	c.must(c.Client().List(c.Ctx, &all, client.InNamespace(p.Namespace)))
	return warningsAbout(p, all.Items)
}

// grow requests a larger volume, and waits until its file system has grown.
func (c *cluster) grow(claim *corev1.PersistentVolumeClaim, size string) {
	c.T.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	c.must(c.Client().Patch(c.Ctx, claim, client.RawPatch("application/merge-patch+json", patch)))
	c.Eventually("the claim has "+size, func() error {
		err := c.Client().Get(c.Ctx, client.ObjectKeyFromObject(claim), claim)
		have := claim.Status.Capacity[corev1.ResourceStorage]
		if err == nil && have.Cmp(resource.MustParse(size)) != 0 {
			err = fmt.Errorf("it has %s: %+v", have.String(), claim.Status.Conditions)
		}
		return err
	})
}

// remove deletes an object and waits until it is gone.
func (c *cluster) remove(o client.Object) {
	c.T.Helper()
	c.must(c.Client().Delete(c.Ctx, o))
	c.gone(o)
}

func (c *cluster) gone(o client.Object) {
	c.T.Helper()
	c.Eventually(fmt.Sprintf("%T %s is gone", o, o.GetName()), func() error {
		err := c.Client().Get(c.Ctx, client.ObjectKeyFromObject(o), o)
		if err == nil {
			return fmt.Errorf("it is still there, with the finalizers %v", o.GetFinalizers())
		}
		return client.IgnoreNotFound(err)
	})
}

// kubectl runs kubectl as the administrator, and returns what it prints.
func (c *cluster) kubectl(args ...string) string {
	c.T.Helper()
	out, err := c.Sim.Kubectl(c.Ctx, args...)
	c.must(err)
	return out
}
