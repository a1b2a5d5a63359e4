// Package clustertest builds clusters for the tests of the rooms in pkg/phases, and records what they write.
//
// A World is a cluster that has settled; a test spoils a part of it and looks at what is judged or done. The builders
// of package resources make its objects, so that only golden files see a mistake in those.
package clustertest

import (
	"cmp"
	"fmt"
	"maps"
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
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Begin is the time of the tests' world. It has no fraction of a second, as times in a status have none.
var Begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// World builds snapshots. A new world is a cluster at rest: everything that its spec asks for is there. Tests break
// it.
type World struct {
	T        testing.TB
	Now      time.Time
	Cluster  *v1alpha1.StorageCluster
	Kube     cluster.Kube
	Linstor  cluster.Linstor
	Database cluster.Database
	Etcd     *etcd.Known
	Tasks    map[string]work.State
	Seen     apicerts.Seen
	APIClock *time.Time // nil: it shows what the operator's does
	// TaintedFor is how long taints have been there; they have lasted unless a test says otherwise.
	TaintedFor time.Duration
	// TaintedAtStart is true if they were there when the operator started.
	TaintedAtStart bool
	// passphrase is what the operator remembers of passphrases.
	passphrase controller.PassphraseMemory
	// TakenPods and States are what the operator remembers of pods' addresses and of members' states.
	TakenPods map[types.UID]string
	States    map[string]cluster.StateSince
	Bare      bool // it leaves out the accepted spec, as before the first acceptance
	// secrets counts the Secrets that were written, for their resource versions.
	secrets int
}

// NewWorld is a cluster of n nodes, n01 and so on, with one LVM thin pool named ssd on each.
func NewWorld(t testing.TB, n int) *World {
	t.Helper()
	w := &World{
		T: t, Now: Begin, TaintedFor: time.Hour, Tasks: map[string]work.State{},
		Cluster: &v1alpha1.StorageCluster{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterName, UID: "cluster-uid", Generation: 1},
			Spec: v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{Ssd()}, TLS: open,
				Volumes: volumespec.VolumesSpec{DrainGuard: volumespec.DrainGuardAuto}},
			Status: v1alpha1.StorageClusterStatus{Phase: v1alpha1.PhaseReady, PhaseSince: At(Begin.Add(-time.Hour)),
				Database: v1alpha1.DatabaseKubernetes},
		},
		Linstor: cluster.Linstor{Asked: true, View: &linstor.View{
			TakenAt: Begin, LocalID: "local-id", Nodes: map[string]*linstor.Node{},
		}},
	}
	Runs(w, catalogue.Embedded().Newest())
	w.Kube.Optional = optional.APIs{optional.Monitoring: nil}
	for i := 1; i <= n; i++ {
		w.Kube.Nodes = append(w.Kube.Nodes, NewNode(fmt.Sprintf("n%02d", i)))
	}
	w.Settle()
	return w
}

// Ssd is the pool that each node of a new world has.
func Ssd() v1alpha1.StoragePoolSpec {
	return v1alpha1.StoragePoolSpec{Name: "ssd", LVMThin: &v1alpha1.LVMThinPool{VolumeGroup: "vg", ThinPool: "thin"}}
}

// OnDevices is a pool that is made from the disks whose serial number matches.
func OnDevices(name, serial string) v1alpha1.StoragePoolSpec {
	return v1alpha1.StoragePoolSpec{Name: name, LVM: &v1alpha1.LVMPool{VolumeGroup: "vg_" + name},
		Devices: &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: serial}}}}
}

// At is a time of a status.
func At(t time.Time) *metav1.Time { return ptr.To(metav1.NewTime(t)) }

// NewNode is a Node that is Ready.
func NewNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name),
			CreationTimestamp: metav1.NewTime(Begin.Add(-24 * time.Hour)),
			Labels:            map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux", OSImage: "Ubuntu 24.04.1 LTS",
				SystemUUID: "system-" + name},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0." + name[1:]}},
		},
	}
}

// Settle makes everything as the spec asks for it, as if the chain had just been gone through.
func (w *World) Settle() {
	w.Kube.DaemonSets, w.Kube.Deployments = map[string]*appsv1.DaemonSet{}, map[string]*appsv1.Deployment{}
	w.Kube.Services, w.Kube.ConfigMaps = map[string]*corev1.Service{}, map[string]*corev1.ConfigMap{}
	if w.Kube.Secrets == nil {
		w.Kube.Secrets = map[string]*corev1.Secret{}
	}
	w.Accept()
	for _, n := range w.Kube.Nodes {
		q := platform.ProfileOf(platform.Of(w.Cluster.Spec.Platform, n))
		n.Labels[v1alpha1.LabelMember], n.Labels[v1alpha1.LabelPlatform] = w.Cluster.Name, q.Key()
		n.Labels[v1alpha1.LabelOS] = q.OSKey(w.Cluster.Spec.KernelModule.Mode,
			catalogue.Embedded().LoaderFor(n.Status.NodeInfo.OSImage))
	}
	w.Deploy()
	for _, n := range w.Kube.Nodes {
		for _, c := range []string{v1alpha1.ComponentModuleLoader, v1alpha1.ComponentSatellite} {
			w.PutPod(c, n.Name, w.ReadyPod(c, n.Name))
		}
	}
	w.Kube.ControllerPods = []*corev1.Pod{w.ReadyPod(v1alpha1.ComponentController, "n01")}
	w.Register()
	Guard(w)
}

// Accept makes the spec the accepted one.
func (w *World) Accept() {
	s := w.Raw()
	rev := revision.Of(w.Cluster.Name, 1, s.WorkingSpec())
	w.Kube.Revisions = map[string]*appsv1.ControllerRevision{rev.Name: rev}
	st := &w.Cluster.Status
	st.Target, st.Version = rev.Name, s.WantedVersion()
	st.AcceptedGeneration, st.ObservedGeneration = w.Cluster.Generation, w.Cluster.Generation
}

// Deploy makes the objects that the accepted spec asks for.
func (w *World) Deploy() {
	s := w.Snapshot()
	for _, ds := range append(module.Loaders(s), satellites.DaemonSets(s)...) {
		w.Kube.DaemonSets[ds.Name] = ds
	}
	config := resources.SatelliteConfig(s.Params())
	w.Kube.ConfigMaps[config.Name] = config
	w.Claim(func(c *resources.ClaimData) {
		*c = resources.ClaimData{Backend: connection.URL(&s.Target.Spec.Database), LocalID: "local-id",
			Version: s.Target.Release.Version, TLS: s.Target.Spec.TLS.Mode, Epoch: "1 " + Begin.Format(time.RFC3339) + " x"}
		if v := w.Linstor.View; v != nil {
			v.Properties[linstor.PropEpoch] = "1"
		}
	})
	pods := w.Kube.ControllerPods // they follow the template, as if it had always been there
	w.Kube.ControllerPods = nil
	objects, err := controller.Want(w.Snapshot())
	if err != nil {
		w.T.Fatal(err)
	}
	w.Kube.ControllerPods = pods
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			w.Kube.ConfigMaps[o.Name] = o
		case *corev1.Secret:
			w.Kube.Secrets[o.Name] = o
		case *corev1.Service:
			w.Kube.Services[o.Name] = o
		case *appsv1.Deployment:
			w.Kube.Deployments[o.Name] = o
			for _, p := range pods {
				ofTemplate(p, o)
			}
		}
	}
}

// Register makes LINSTOR's nodes and pools as the accepted spec asks for them.
func (w *World) Register() {
	s := w.Snapshot()
	for _, m := range s.Members {
		n := &linstor.Node{Name: m.Name, Type: linstor.TypeSatellite, Status: linstor.StatusOnline,
			Layers:     []string{"DRBD", "STORAGE"},
			Interfaces: registration.WantedInterfaces(m), Pools: map[string]*linstor.Pool{}, DevicesKnown: true}
		n.Properties = linstor.Initial(registration.NodeProperties(s, m, nil, n.Interfaces))
		n.Properties[linstor.PropUname] = m.Name
		for i := range s.Target.Spec.StoragePools {
			e := &s.Target.Spec.StoragePools[i]
			kind, backing := poolspec.Backing(e)
			marks := map[string]string{remembered.Entry: e.Name, remembered.Worked: "true"}
			n.Pools[strings.ToLower(poolspec.LinstorName(e))] = &linstor.Pool{
				Name: poolspec.LinstorName(e), Node: m.Name, Provider: kind, Backing: backing,
				Properties: linstor.Initial(marks),
				TotalKiB:   ptr.To[int64](100 << 20), FreeKiB: ptr.To[int64](60 << 20)}
		}
		w.Linstor.View.Nodes[strings.ToLower(m.Name)] = n
	}
}

// Claim changes the claim; the first call makes it.
func (w *World) Claim(f func(*resources.ClaimData)) {
	var data resources.ClaimData
	if live := w.Kube.ConfigMaps[resources.ClaimName]; live != nil {
		var err error
		if data, err = resources.ClaimFrom(live); err != nil {
			w.T.Fatal(err)
		}
	}
	f(&data)
	w.Kube.ConfigMaps[resources.ClaimName] = resources.Claim(w.Cluster.Name, data)
}

// ReadyPod is a pod of a component that is as its template asks and Ready.
func (w *World) ReadyPod(component, node string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: component + "-" + node, Namespace: v1alpha1.WorkloadNamespace,
			CreationTimestamp: metav1.NewTime(Begin.Add(-time.Hour)),
			Labels:            map[string]string{v1alpha1.LabelCluster: w.Cluster.Name, v1alpha1.LabelComponent: component}},
		Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{PodIP: "10.0.0." + node[1:], Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if component == v1alpha1.ComponentSatellite {
		label := w.KubeNode(node).Labels[v1alpha1.LabelPlatform]
		profiles := platform.Profiles()
		q := profiles[max(0, slices.IndexFunc(profiles, func(q platform.Profile) bool { return q.Key() == label }))]
		template := resources.Satellite(w.Snapshot().SatelliteParams(), q).Spec.Template
		p.Labels, p.Annotations, p.Spec = template.Labels, template.Annotations, template.Spec
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: resources.WaitForModuleContainer, Ready: true,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "9.3.3\n"}}},
			{Name: resources.DeviceInventoryContainer, Ready: true,
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "DISKS=\"0\" UDEV=\"1\"\n"}}}}
		p.Spec.NodeName = node
	}
	if component == v1alpha1.ComponentModuleLoader {
		for _, ds := range module.Loaders(w.Snapshot()) {
			if ds.Labels[v1alpha1.LabelOS] == w.KubeNode(node).Labels[v1alpha1.LabelOS] {
				p.Annotations = maps.Clone(ds.Spec.Template.Annotations)
			}
		}
	}
	if d := w.Kube.Deployments[resources.ControllerName]; d != nil && component == v1alpha1.ComponentController {
		ofTemplate(p, d)
	}
	return p
}

// ofTemplate makes a pod one of the Deployment's present template.
func ofTemplate(p *corev1.Pod, d *appsv1.Deployment) {
	node := p.Spec.NodeName
	p.Annotations, p.Spec = maps.Clone(d.Spec.Template.Annotations), *d.Spec.Template.Spec.DeepCopy()
	p.Spec.NodeName = node
}

// PutPod makes a pod the Node's.
func (w *World) PutPod(component, node string, p *corev1.Pod) {
	if w.Kube.Pods == nil {
		w.Kube.Pods = map[string]map[string]*corev1.Pod{}
	}
	if w.Kube.Pods[component] == nil {
		w.Kube.Pods[component] = map[string]*corev1.Pod{}
	}
	w.Kube.Pods[component][node] = p
}

// FailPod makes the init container of a pod fail for good.
func (w *World) FailPod(component, node, message string) {
	p := w.Kube.Pods[component][node]
	p.Status.Conditions = nil
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{Crashing("init", 5, message)}
}

// UnreadyPod makes a pod one that is starting.
func (w *World) UnreadyPod(component string, nodes ...string) {
	for _, n := range nodes {
		w.Kube.Pods[component][n].Status.Conditions = nil
	}
}

// Crashing is a container that fails again and again.
func Crashing(name string, restarts int32, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, RestartCount: restarts,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message}}}
}

// Node is LINSTOR's node; node names are those of NewWorld.
func (w *World) Node(name string) *linstor.Node {
	n := w.Linstor.View.Nodes[name]
	if n == nil {
		w.T.Fatalf("LINSTOR has no node %s", name)
	}
	return n
}

// KubeNode is Kubernetes' node.
func (w *World) KubeNode(name string) *corev1.Node {
	i := slices.IndexFunc(w.Kube.Nodes, func(n *corev1.Node) bool { return n.Name == name })
	if i < 0 {
		w.T.Fatalf("no node %s", name)
	}
	return w.Kube.Nodes[i]
}

// Silent makes LINSTOR not answer.
func (w *World) Silent(err error) {
	w.Linstor = cluster.Linstor{Asked: true, Err: err}
}

// Phase puts the cluster into a phase that began some time ago.
func (w *World) Phase(p v1alpha1.Phase, age time.Duration) {
	w.Cluster.Status.Phase, w.Cluster.Status.PhaseSince, w.Cluster.Status.ProgressSince = p, At(w.Now.Add(-age)), nil
}

// Condition records a condition that has had its status for some time.
func (w *World) Condition(kind string, status metav1.ConditionStatus, age time.Duration) {
	st := &w.Cluster.Status
	st.Conditions = slices.DeleteFunc(st.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	st.Conditions = append(st.Conditions,
		metav1.Condition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(w.Now.Add(-age))})
}

// Raw is what is observed, without the target.
func (w *World) Raw() *cluster.Facts {
	f := &cluster.Facts{Now: w.Now, Timing: cluster.DefaultTiming(), Catalogue: catalogue.Embedded(), Cluster: w.Cluster,
		Kube: w.Kube, OperatorImage: "example.com/operator:v1", Linstor: w.Linstor, Database: w.Database, Etcd: w.Etcd,
		TaskStates: w.Tasks}
	f.Timing.Epoch = 20 * 365 * 24 * time.Hour // no test changes LINSTOR for a number
	if cm := w.Kube.ConfigMaps[resources.ClaimName]; cm != nil {
		f.Recorded, f.ClaimErr = resources.ClaimFrom(cm)
	}
	f.Certificates = apicerts.Read(w.Kube.Secrets, &f.WorkingSpec().TLS, w.Now)
	f.Certificates.Seen, f.Certificates.APIClock = w.Seen, *cmp.Or(w.APIClock, &w.Now)
	f.Tainted, f.States, f.TakenPods = map[cluster.TaintedNode]cluster.TaintSince{}, w.States, w.TakenPods
	for _, n := range w.Kube.Nodes {
		for i := range n.Spec.Taints {
			since := cluster.TaintSince{Since: w.Now.Add(-w.TaintedFor), AtStart: w.TaintedAtStart}
			f.Tainted[cluster.TaintOf(n, &n.Spec.Taints[i])] = since
		}
	}
	return f
}

// Snapshot is what a reconcile would see now.
func (w *World) Snapshot() *cluster.Snapshot {
	w.T.Helper()
	s := w.Raw()
	if rev := w.Kube.Revisions[w.Cluster.Status.Target]; rev != nil && !w.Bare {
		spec, err := revision.Spec(rev)
		if err != nil {
			w.T.Fatal(err)
		}
		release, ok := s.Catalogue.Release(spec.Version)
		if !ok {
			w.T.Fatalf("no release %s", spec.Version)
		}
		s.Target = specchange.NewTarget(rev.Name, spec, release, w.Cluster)
	}
	s.PassphraseDiffers = w.passphrase.Differs(s)
	return phases.Judge(*s)
}

// Input is what a handler would get now, with fakes that record what it does.
func (w *World) Input() (*step.Input, *Record) {
	w.T.Helper()
	r := &Record{Fail: map[string]error{}, states: w.Tasks, Pools: map[string]*linstor.Pool{},
		DisksOf: map[string][]linstor.Device{}}
	s := w.Snapshot()
	r.Live = fakeLive{Object: s.Cluster, Kube: &s.Kube}
	return &step.Input{Snapshot: s, Writer: r, API: fakeAPI{nil, r}, Tasks: r, Live: &r.Live, Backups: r.Live}, r
}
