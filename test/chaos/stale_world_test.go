package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// staleSpec has pools on what is there and from disks, and lets nodes leave with their data.
const staleSpec = `
  version: "%s"
  nodes: {nodeSelector: {example.com/storage: "true"}, removalPolicy: Evacuate}
  storagePools:
  - name: ssd
    lvmThin: {volumeGroup: vg_ssd0, thinPool: thin}
  - name: fast
    lvmThin: {volumeGroup: vg_new, thinPool: thin}
    devices: {match: [{serial: "S4EV*"}]}
`

// staleWorld is a cluster whose operator is told late what happens.
type staleWorld struct {
	*harness.Env
	judge *judge
	views *views
	lists *lists
	// top is the world of the test that runs the operator.
	top *staleWorld
	// rest is what the world is like when nothing is left to do.
	rest []string
}

// staleNodes have one more disk each. Of those of n2 and n3 udev has no record, and n2's has data on it.
func staleNodes() []simcluster.NodeSpec {
	out := harness.Nodes(4)
	for i := range out {
		d := sim.Disk{Name: "sdd", SizeBytes: 1 << 40, Model: "UD", Serial: fmt.Sprintf("UD%d", i+1),
			WWN: fmt.Sprintf("0x9000%d", i+1), Unseen: i == 1 || i == 2}
		if i == 1 {
			d.Signature = "xfs"
		}
		out[i].Machine.Disks = append(out[i].Machine.Disks, d)
	}
	return out
}

// startStale brings up a cluster that is Ready and at rest.
func startStale(t *testing.T, version string, tune ...func(*cluster.Timing)) *staleWorld {
	t.Helper()
	e := harness.Start(t, staleNodes())
	e.Lease = time.Minute                          // it is released at the end, and no leader is lost on a busy machine
	e.Timing.Leave = machine.Slow(2 * time.Second) // time for the test to change its mind
	e.Timing.LinkSettled = linkSettled
	for _, f := range tune {
		f(&e.Timing)
	}
	w := &staleWorld{Env: e, judge: newJudge(e), views: newViews(), lists: newLists()}
	w.top = w
	w.views.install(e)
	w.judge.install(w.lists)
	e.Run()
	w.install(version)
	w.Eventually("the cluster is at rest", w.ready)
	w.rest = worldState(e)
	return w
}

func (w *staleWorld) install(version string) {
	w.Apply(harness.Manifest(fmt.Sprintf(staleSpec, version)))
}

// ready is nil once the present spec is carried out and nothing is left to do.
func (w *staleWorld) ready() error {
	c := w.Get()
	s := &c.Status
	if s.Phase != v1alpha1.PhaseReady || s.AcceptedGeneration != c.Generation || s.ObservedGeneration != c.Generation ||
		s.Upgrade != nil ||
		s.Nodes.Summary != "4/4" || s.Pools.Summary != "8/8" || len(s.NodeHolds) > 0 || s.Nodes.LeavingCount > 0 ||
		len(s.Nodes.Problems) > 0 {
		return fmt.Errorf("%s, generation %d of %d, nodes %s, pools %s, holds %+v, leaving %+v, problems %+v: %s", s.Phase,
			s.AcceptedGeneration, c.Generation,
			s.Nodes.Summary, s.Pools.Summary, s.NodeHolds, s.Nodes.Leaving, s.Nodes.Problems, s.Message)
	}
	// Guards are made once a cluster is Ready.
	if got := harness.Condition(c, conditions.DrainGuardReady); got != "True/"+conditions.ReasonAsExpected {
		return fmt.Errorf("DrainGuardReady is %s", got)
	}
	return nil
}

// atRest waits until the world is as it was at first. Ready does not say that every satellite is connected: one that
// was replaced a moment ago counts as online, and takes no volume yet.
func (w *staleWorld) atRest() {
	w.T.Helper()
	w.EventuallyEvery(lookEvery, "the world is as before", func() error {
		if err := w.ready(); err != nil {
			return err
		}
		for name, n := range w.View().Nodes {
			if !n.Online() {
				return fmt.Errorf("node %s is not ONLINE in LINSTOR", name)
			}
		}
		if diff := cmp.Diff(w.rest, worldState(w.Env)); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// version is the resourceVersion of now.
func (w *staleWorld) version() string {
	w.T.Helper()
	return listedAt(w.Env)
}

// Update changes the spec, which what the operator has just decided on may cross.
func (w *staleWorld) Update(f func(*v1alpha1.StorageCluster)) {
	w.T.Helper()
	w.judge.change(func() { w.Env.Update(f) })
}

// pick reports whether the spec selects a node.
func (w *staleWorld) pick(name string, picked bool) {
	w.T.Helper()
	before := w.Node(name)
	after := before.DeepCopy()
	after.Labels["example.com/storage"] = fmt.Sprint(picked)
	w.judge.change(func() {
		if err := w.Client().Patch(w.Ctx, after, client.MergeFrom(before)); err != nil {
			w.T.Fatal(err)
		}
	})
}

// leaving waits until the operator has noted that a node leaves. A node without data is gone soon after that. That it
// is gone counts too, because the wait may see nothing of the time between.
func (w *staleWorld) leaving(name string) {
	w.T.Helper()
	w.Eventually(name+" is noted as leaving", func() error {
		if n := w.View().Node(name); n != nil && n.Properties[linstor.AuxPrefix+"leaving"] == "" {
			return errors.New("it is not")
		}
		return nil
	})
}

// leavesInUse has a node leave that cannot be gone before notInUse: a pod uses a copy of the volume on it. The other
// copy is on n1.
func (w *staleWorld) leavesInUse(node, volume string) {
	w.T.Helper()
	w.volume(volume, "ssd", "n1", node)
	w.Sim.World().Volumes().SetInUse(volume, node, true)
	w.pick(node, false)
	w.leaving(node)
}

func (w *staleWorld) notInUse(node, volume string) {
	w.Sim.World().Volumes().SetInUse(volume, node, false)
}

func (w *staleWorld) volume(name, pool string, on ...string) {
	w.T.Helper()
	if err := w.Sim.World().Volumes().Create(name, 1<<20, pool, on...); err != nil {
		w.T.Fatal(err)
	}
	w.judge.setVolumes(func(vs []string) []string { return append(vs, name) })
}

// dropVolume checks that a volume has its data, and deletes it.
func (w *staleWorld) dropVolume(name string) {
	w.T.Helper()
	if len(w.Sim.World().Volumes().Data(name)) == 0 {
		w.T.Errorf("the data of %s is lost", name)
	}
	if err := w.Sim.World().Volumes().Delete(name); err != nil {
		w.T.Fatal(err)
	}
	w.judge.setVolumes(func(vs []string) []string {
		return slices.DeleteFunc(vs,
			func(v string) bool { return v == name })
	})
}

// pools changes the list of pools.
func (w *staleWorld) pools(f func([]v1alpha1.StoragePoolSpec) []v1alpha1.StoragePoolSpec) {
	w.T.Helper()
	w.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools = f(c.Spec.StoragePools) })
}

// replicateOver gives nodes the interface storage, and reports whether DRBD prefers it.
func (w *staleWorld) replicateOver(preferred bool) {
	w.T.Helper()
	w.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.Interfaces = []nodespec.InterfaceSpec{
			{Name: "storage", AddressFrom: nodespec.AddressSource{NodeAnnotation: "example.com/storage-ip"},
				Preferred: preferred},
		}
	})
}

// controllerCPU changes what LINSTOR's controller requests.
func (w *staleWorld) controllerCPU(cpu string) {
	w.T.Helper()
	w.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Controller.Resources.Requests = map[corev1.ResourceName]resource.Quantity{
			corev1.ResourceCPU: resource.MustParse(cpu)}
	})
}

func withoutFast(ps []v1alpha1.StoragePoolSpec) []v1alpha1.StoragePoolSpec { return ps[:1] }

func withFast(ps []v1alpha1.StoragePoolSpec) []v1alpha1.StoragePoolSpec {
	return append(ps, v1alpha1.StoragePoolSpec{
		Name: "fast", LVMThin: &v1alpha1.LVMThinPool{VolumeGroup: "vg_new", ThinPool: "thin"},
		Devices: &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: "S4EV*"}}},
	})
}

// settled waits until a generation of the spec was taken up, or patience ends: an operator that is told late may not.
func (w *staleWorld) settled(patience time.Duration) {
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for c := w.Get(); c.Status.AcceptedGeneration != c.Generation; c = w.Get() {
		select {
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}

// remade deletes the operator's objects and makes them anew, each with another UID. What they own stays.
func (w *staleWorld) remade() {
	w.T.Helper()
	for _, list := range []client.ObjectList{
		&appsv1.DaemonSetList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{},
		&corev1.SecretList{}, &appsv1.ControllerRevisionList{},
	} {
		for _, m := range w.Objects(list) {
			w.remake(list, m.Name)
		}
	}
}

func (w *staleWorld) remake(list client.ObjectList, name string) {
	w.T.Helper()
	o := map[string]client.Object{
		"*v1.DaemonSetList": &appsv1.DaemonSet{}, "*v1.DeploymentList": &appsv1.Deployment{},
		"*v1.ServiceList":   &corev1.Service{},
		"*v1.ConfigMapList": &corev1.ConfigMap{}, "*v1.SecretList": &corev1.Secret{},
		"*v1.ControllerRevisionList": &appsv1.ControllerRevision{},
	}[fmt.Sprintf("%T", list)]
	err := w.Client().Get(w.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: name}, o)
	if err == nil && metav1.GetControllerOf(o) != nil {
		return // a DaemonSet's own revision
	}
	if err == nil {
		err = w.Client().Delete(w.Ctx, o, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	}
	if err != nil && !apierrors.IsNotFound(err) {
		w.T.Fatal(err)
	}
	o.SetUID("")
	o.SetResourceVersion("")
	o.SetManagedFields(nil)
	if s, ok := o.(*corev1.Service); ok {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
	}
	w.Eventually("make "+name+" anew", func() error {
		c, _ := o.DeepCopyObject().(client.Object)
		if err := w.Client().Create(w.Ctx, c); !apierrors.IsAlreadyExists(err) {
			return err
		}
		now, _ := o.DeepCopyObject().(client.Object)
		if err := w.Client().Get(w.Ctx, client.ObjectKeyFromObject(o), now); err != nil ||
			now.GetDeletionTimestamp() != nil {
			return fmt.Errorf("the earlier %s is going: %w", name, err)
		}
		return nil // the operator was faster
	})
}

// force takes the StorageCluster away without the operator, and makes it anew.
func (w *staleWorld) force() {
	w.T.Helper()
	c := w.Get()
	w.Eventually("the StorageCluster is taken away", func() error {
		w.judge.noteChange()
		if err := w.Client().Delete(w.Ctx, c); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		defer w.judge.noteChange()
		return client.IgnoreNotFound(w.Client().Patch(w.Ctx, c,
			client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	})
	w.WaitGone()
	w.install(c.Spec.Version)
}

// gone waits until the operator has let the StorageCluster go, and checks that it left nothing behind.
func (w *staleWorld) gone() {
	w.T.Helper()
	w.WaitGone()
	w.judge.setAway(true)
	for _, o := range w.Owned() {
		if o != "ConfigMap/"+resources.ClaimName && o != "ControllerRevision/accepted" {
			w.T.Errorf("%s is left behind", o)
		}
	}
	if left := w.MemberLabels(); len(left) > 0 {
		w.T.Errorf("labels are left behind: %v", left)
	}
	w.During(2*time.Second, "after the deletion", w.judge.err)
	w.judge.setAway(false)
}

func (j *judge) setVolumes(f func([]string) []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.volumes = f(j.volumes)
}

func (w *staleWorld) deletePod(node string) {
	w.T.Helper()
	var pods corev1.PodList
	err := w.Client().List(context.Background(), &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite})
	for i := range pods.Items {
		if err == nil && pods.Items[i].Spec.NodeName == node {
			err = client.IgnoreNotFound(w.Client().Delete(w.Ctx, &pods.Items[i]))
		}
	}
	if err != nil {
		w.T.Fatal(err)
	}
}

// with is the world for a test within the test.
func (w *staleWorld) with(t *testing.T) *staleWorld {
	inner := *w
	inner.Env = w.For(t)
	return &inner
}

// linstorForget takes properties off a LINSTOR node, as an administrator does.
func (w *staleWorld) linstorForget(node string, keys ...string) {
	w.T.Helper()
	if err := w.Linstor().SetNodeProperties(w.Ctx, node, nil, keys); err != nil {
		w.T.Fatal(err)
	}
}
