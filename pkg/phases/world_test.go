package phases

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// begin is when the tests' world stands still. It has no fraction of a second, as times in a status have none.
var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world builds snapshots. A new world is a cluster at rest: everything that its spec asks for is there. Tests break it.
type world struct {
	t        testing.TB
	now      time.Time
	cluster  *v1alpha1.StorageCluster
	kube     Kube
	linstor  Linstor
	database Database
	tasks    map[string]work.State
	// bare leaves out the accepted spec, as before the first acceptance.
	bare bool
	// secrets counts the Secrets that were written, for their resource versions.
	secrets int
}

// newWorld is a cluster of n nodes, n01 and so on, with one LVM thin pool named ssd on each.
func newWorld(t testing.TB, n int) *world {
	t.Helper()
	w := &world{
		t: t, now: begin, tasks: map[string]work.State{},
		cluster: &v1alpha1.StorageCluster{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterName, UID: "cluster-uid", Generation: 1},
			Spec:       v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{ssd()}},
			Status:     v1alpha1.StorageClusterStatus{Phase: v1alpha1.PhaseReady, PhaseSince: at(begin.Add(-time.Hour)), Database: v1alpha1.DatabaseKubernetes},
		},
		linstor: Linstor{Asked: true, View: &linstor.View{
			TakenAt: begin, Version: catalogue.Embedded().Newest(), LocalID: "local-id", Nodes: map[string]*linstor.Node{},
			Properties: linstor.Diff(nil, defaultProperties()).Set,
		}},
	}
	for i := 1; i <= n; i++ {
		w.kube.Nodes = append(w.kube.Nodes, newNode(fmt.Sprintf("n%02d", i)))
	}
	w.settle()
	return w
}

func ssd() v1alpha1.StoragePoolSpec {
	return v1alpha1.StoragePoolSpec{Name: "ssd", LVMThin: &v1alpha1.LVMThinPool{VolumeGroup: "vg", ThinPool: "thin"}}
}

// onDevices is a pool that is made from the disks whose serial number matches.
func onDevices(name, serial string) v1alpha1.StoragePoolSpec {
	return v1alpha1.StoragePoolSpec{Name: name, LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_" + name},
		Devices: &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: serial}}}}
}

func at(t time.Time) *metav1.Time { return ptr.To(metav1.NewTime(t)) }

func newNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(begin.Add(-24 * time.Hour)),
			Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{OperatingSystem: "linux", OSImage: "Ubuntu 24.04.1 LTS", SystemUUID: "system-" + name},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0." + name[1:]}},
		},
	}
}

// settle makes everything as the spec asks for it, as if the chain had just been gone through.
func (w *world) settle() {
	w.kube.DaemonSets, w.kube.Deployments = map[string]*appsv1.DaemonSet{}, map[string]*appsv1.Deployment{}
	w.kube.Services, w.kube.ConfigMaps = map[string]*corev1.Service{}, map[string]*corev1.ConfigMap{}
	if w.kube.Secrets == nil {
		w.kube.Secrets = map[string]*corev1.Secret{}
	}
	w.accept()
	for _, n := range w.kube.Nodes {
		q := resources.ProfileOf(resources.PlatformOf(w.cluster.Spec.Platform, n))
		n.Labels[v1alpha1.LabelMember], n.Labels[v1alpha1.LabelPlatform] = w.cluster.Name, q.Key()
		n.Labels[v1alpha1.LabelOS] = q.OSKey(w.cluster.Spec.KernelModule.Mode, catalogue.Embedded().LoaderFor(n.Status.NodeInfo.OSImage))
	}
	w.deploy()
	for _, n := range w.kube.Nodes {
		for _, c := range []string{v1alpha1.ComponentModuleLoader, v1alpha1.ComponentSatellite} {
			w.putPod(c, n.Name, w.readyPod(c, n.Name))
		}
	}
	w.kube.ControllerPods = []*corev1.Pod{w.readyPod(v1alpha1.ComponentController, "n01")}
	w.register()
}

// accept makes the spec the accepted one.
func (w *world) accept() {
	s := w.raw()
	version := s.WantedVersion()
	rev := resources.Revision(w.cluster.Name, 1, WorkingSpec(w.cluster, version))
	w.kube.Revisions = map[string]*appsv1.ControllerRevision{rev.Name: rev}
	st := &w.cluster.Status
	st.Target, st.AcceptedGeneration, st.ObservedGeneration, st.Version = rev.Name, w.cluster.Generation, w.cluster.Generation, version
}

// deploy makes the objects that the accepted spec asks for.
func (w *world) deploy() {
	s := w.snapshot()
	for _, ds := range append(s.loaders(), s.satellites()...) {
		w.kube.DaemonSets[ds.Name] = ds
	}
	config := resources.SatelliteConfig(s.Params())
	w.kube.ConfigMaps[config.Name] = config
	w.claim(func(c *resources.ClaimData) {
		*c = resources.ClaimData{Backend: resources.DatabaseURL(&s.Target.Spec.Database), LocalID: "local-id", Version: s.Target.Release.Version}
	})
	objects, err := s.controllerObjects()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range objects {
		switch o := o.want.(type) {
		case *corev1.ConfigMap:
			w.kube.ConfigMaps[o.Name] = o
		case *corev1.Secret:
			w.kube.Secrets[o.Name] = o
		case *corev1.Service:
			w.kube.Services[o.Name] = o
		case *appsv1.Deployment:
			w.kube.Deployments[o.Name] = o
		}
	}
}

// register makes LINSTOR's nodes and pools as the accepted spec asks for them.
func (w *world) register() {
	s := w.snapshot()
	for _, m := range s.Members {
		n := &linstor.Node{Name: m.Name, Type: linstor.TypeSatellite, Status: linstor.StatusOnline, Layers: []string{"DRBD", "STORAGE"},
			Interfaces: m.wantedInterfaces(), Pools: map[string]*linstor.Pool{}, DevicesKnown: true}
		n.Properties = linstor.Diff(nil, s.nodeProperties(m, n.Interfaces)).Set
		n.Properties[propUname] = m.Name
		for i := range s.Target.Spec.StoragePools {
			e := &s.Target.Spec.StoragePools[i]
			kind, backing := e.Backing()
			n.Pools[strings.ToLower(e.LinstorName())] = &linstor.Pool{Name: e.LinstorName(), Node: m.Name, Provider: kind, Backing: backing,
				Properties: linstor.Diff(nil, map[string]string{auxEntry: e.Name, auxWorked: "true"}).Set, TotalKiB: ptr.To[int64](100 << 20), FreeKiB: ptr.To[int64](60 << 20)}
		}
		w.linstor.View.Nodes[strings.ToLower(m.Name)] = n
	}
}

// claim changes the claim; the first call makes it.
func (w *world) claim(f func(*resources.ClaimData)) {
	var data resources.ClaimData
	if live := w.kube.ConfigMaps[resources.ClaimName]; live != nil {
		var err error
		if data, err = resources.ClaimFrom(live); err != nil {
			w.t.Fatal(err)
		}
	}
	f(&data)
	w.kube.ConfigMaps[resources.ClaimName] = resources.Claim(w.cluster.Name, data)
}

func (w *world) readyPod(component, node string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: component + "-" + node, Namespace: v1alpha1.WorkloadNamespace, CreationTimestamp: metav1.NewTime(begin.Add(-time.Hour)),
			Labels: map[string]string{v1alpha1.LabelCluster: w.cluster.Name, v1alpha1.LabelComponent: component}},
		Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{PodIP: "10.0.0." + node[1:], Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if component == v1alpha1.ComponentSatellite {
		label := w.kubeNode(node).Labels[v1alpha1.LabelPlatform]
		profiles := resources.Profiles()
		q := profiles[max(0, slices.IndexFunc(profiles, func(q resources.Profile) bool { return q.Key() == label }))]
		template := resources.Satellite(w.snapshot().satelliteParams(), q).Spec.Template
		p.Labels, p.Annotations, p.Spec = template.Labels, template.Annotations, template.Spec
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: resources.WaitForModuleContainer, Ready: true,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "9.3.3\n"}}}}
		p.Spec.NodeName = node
	}
	return p
}

func (w *world) putPod(component, node string, p *corev1.Pod) {
	if w.kube.Pods == nil {
		w.kube.Pods = map[string]map[string]*corev1.Pod{}
	}
	if w.kube.Pods[component] == nil {
		w.kube.Pods[component] = map[string]*corev1.Pod{}
	}
	w.kube.Pods[component][node] = p
}

// failPod makes the init container of a pod fail for good.
func (w *world) failPod(component, node, message string) {
	p := w.kube.Pods[component][node]
	p.Status.Conditions = nil
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{crashing("init", 5, message)}
}

// unreadyPod makes a pod one that is starting.
func (w *world) unreadyPod(component string, nodes ...string) {
	for _, n := range nodes {
		w.kube.Pods[component][n].Status.Conditions = nil
	}
}

func crashing(name string, restarts int32, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, RestartCount: restarts,
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message}}}
}

// node is LINSTOR's node; node names are those of newWorld.
func (w *world) node(name string) *linstor.Node {
	n := w.linstor.View.Nodes[name]
	if n == nil {
		w.t.Fatalf("LINSTOR has no node %s", name)
	}
	return n
}

// kubeNode is Kubernetes' node.
func (w *world) kubeNode(name string) *corev1.Node {
	i := slices.IndexFunc(w.kube.Nodes, func(n *corev1.Node) bool { return n.Name == name })
	if i < 0 {
		w.t.Fatalf("no node %s", name)
	}
	return w.kube.Nodes[i]
}

// silent makes LINSTOR not answer.
func (w *world) silent(err error) {
	w.linstor = Linstor{Asked: true, Err: err}
}

// phase puts the cluster into a phase that began some time ago.
func (w *world) phase(p v1alpha1.Phase, age time.Duration) {
	w.cluster.Status.Phase, w.cluster.Status.PhaseSince, w.cluster.Status.ProgressSince = p, at(w.now.Add(-age)), nil
}

// condition records a condition that has had its status for some time.
func (w *world) condition(kind string, status metav1.ConditionStatus, age time.Duration) {
	st := &w.cluster.Status
	st.Conditions = slices.DeleteFunc(st.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	st.Conditions = append(st.Conditions, metav1.Condition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(w.now.Add(-age))})
}

// raw is the snapshot without target and members.
func (w *world) raw() *Snapshot {
	return &Snapshot{Now: w.now, Timing: DefaultTiming(), Catalogue: catalogue.Embedded(), Cluster: w.cluster, Kube: w.kube,
		Linstor: w.linstor, Database: w.database, TaskStates: w.tasks}
}

// snapshot is what a reconcile would see now.
func (w *world) snapshot() *Snapshot {
	w.t.Helper()
	s := w.raw()
	if rev := w.kube.Revisions[w.cluster.Status.Target]; rev != nil && !w.bare {
		spec, err := resources.SpecFromRevision(rev)
		if err != nil {
			w.t.Fatal(err)
		}
		release, ok := s.Catalogue.Release(spec.Version)
		if !ok {
			w.t.Fatalf("no release %s", spec.Version)
		}
		s.Target = NewTarget(rev.Name, spec, release, w.cluster)
	}
	s.Derive()
	return s
}

// input is what a handler would get now, with fakes that record what it does.
func (w *world) input() (*Input, *record) {
	w.t.Helper()
	r := &record{fail: map[string]error{}, states: w.tasks, pools: map[string]*linstor.Pool{}, devices: map[string][]linstor.Device{}}
	s := w.snapshot()
	r.live = fakeLive{cluster: s.Cluster, kube: &s.Kube}
	return &Input{Snapshot: s, Writer: r, API: fakeAPI{record: r}, Tasks: r, Live: &r.live}, r
}
