package model

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// kubelets are those of all nodes.
type kubelets struct {
	*site
	runs  map[types.UID]*pod
	lease lease
	ips   int
	// broken are the containers that fail, as "name/node".
	broken map[string]bool
}

// pod is a kubelet's memory of a pod.
type pod struct {
	node       *node
	ip         string
	stage      int // how many init containers have ended
	containers map[string]*container
}

// container is what became of one container so far.
type container struct {
	process  *sim.Process // nil unless it runs and something in the world stands for it
	running  bool
	since    time.Time
	restarts int32
	message  string // of an init container that ended well
	failure  *corev1.ContainerStateTerminated
}

// leaseTime is how long a controller's Lease outlives a machine that was switched off.
const leaseTime = 15 * time.Second

// lease is what every container holds that opens LINSTOR's database.
type lease struct {
	holder *container
	until  time.Time // when the holder died without a goodbye
}

// run brings the pods of one node on, each by one container at most, and writes their status.
func (k *kubelets) run(n *node) {
	if !n.on {
		return
	}
	pods := k.pods(func(p *corev1.Pod) bool { return p.Spec.NodeName == n.name })
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil {
			k.endPod(p)
			continue
		}
		run := k.runs[p.UID]
		if run == nil {
			run = &pod{node: n, containers: map[string]*container{}}
			k.runs[p.UID] = run
		}
		if run.ip == "" {
			run.ip = k.podIP(n, p)
		}
		k.advance(run, p)
		status := run.status(p)
		if !equality.Semantic.DeepEqual(*status, p.Status) {
			p.Status = *status
			k.must(k.api.Status().Update(k.ctx, p))
		}
	}
}

func (k *kubelets) podIP(n *node, p *corev1.Pod) string {
	if p.Spec.HostNetwork {
		return n.address()
	}
	k.ips++
	return fmt.Sprintf("10.128.%d.%d", k.ips/250, k.ips%250+1)
}

// endPod ends a pod's programs and lets its object go.
func (k *kubelets) endPod(p *corev1.Pod) {
	if run := k.runs[p.UID]; run != nil {
		for _, c := range run.containers {
			k.stop(c, true)
		}
		delete(k.runs, p.UID)
	}
	if slices.Contains(p.Finalizers, runningFinalizer) {
		p.Finalizers = nil
		k.must(client.IgnoreNotFound(k.api.Update(k.ctx, p)))
	}
}

func (k *kubelets) stop(c *container, graceful bool) {
	if c.process != nil {
		c.process.Stop()
	}
	if k.lease.holder == c {
		if graceful {
			k.lease = lease{}
		} else {
			k.lease.until = time.Now().Add(leaseTime)
		}
	}
	c.process, c.running = nil, false
}

// advance starts the next container that can be started.
func (k *kubelets) advance(run *pod, p *corev1.Pod) {
	for _, c := range run.containers {
		if c.running && c.process != nil && ended(c.process) {
			k.stop(c, true)
			c.fail("ended")
		}
	}
	if run.stage < len(p.Spec.InitContainers) {
		c := run.container(&p.Spec.InitContainers[run.stage])
		if done, message := k.begin(run, p, &p.Spec.InitContainers[run.stage], c); done {
			c.running, c.message = false, message
			run.stage++
		}
		return
	}
	for i := range p.Spec.Containers {
		if c := run.container(&p.Spec.Containers[i]); !c.running {
			k.begin(run, p, &p.Spec.Containers[i], c)
			return
		}
	}
}

func ended(p *sim.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

func (p *pod) container(spec *corev1.Container) *container {
	if p.containers[spec.Name] == nil {
		p.containers[spec.Name] = &container{}
	}
	return p.containers[spec.Name]
}

// begin runs a container's program. done is for those that end well at once.
func (k *kubelets) begin(run *pod, p *corev1.Pod, spec *corev1.Container, c *container) (done bool, message string) {
	if k.broken[spec.Name+"/"+run.node.name] {
		c.fail("broken on " + run.node.name)
		return false, ""
	}
	machine := k.world.Machine(run.node.machine)
	version := kubelet.ImageVersion(spec.Image)
	if !c.running {
		c.running, c.since = true, time.Now().Truncate(time.Second)
	}
	switch spec.Name {
	case kubelet.ModuleLoader:
		if machine.ModuleVersion() == "" {
			machine.LoadModule(kubelet.LoadedVersion(version))
		}
		return true, ""
	case kubelet.WaitForModule:
		return kubelet.WaitEnds(spec, machine.ModuleVersion()), machine.ModuleVersion()
	case kubelet.Inventory:
		return true, machine.Inventory()
	case kubelet.ShutdownGuard:
		return true, ""
	case kubelet.Satellite:
		config := kubelet.Files{Objects: referred{k.api}}.SatelliteConfig(k.ctx, p, spec, run.node.name, run.ip)
		process, err := k.world.StartSatellite(run.node.machine, sim.SatelliteConfig(config))
		c.started(process, err)
	case kubelet.RunMigration, kubelet.Controller:
		return k.beginController(p, spec, c, version), ""
	}
	return false, ""
}

func (c *container) started(p *sim.Process, err error) {
	if err != nil {
		c.fail(err.Error())
		return
	}
	c.process = p
}

func (c *container) fail(message string) {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	c.running = false
	c.restarts++
	c.failure = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: message, FinishedAt: now}
}

// beginController runs what opens the database, once it holds the Lease.
func (k *kubelets) beginController(p *corev1.Pod, spec *corev1.Container, c *container, version string) (done bool) {
	if k.lease.holder != nil && k.lease.holder != c && (k.lease.until.IsZero() || time.Now().Before(k.lease.until)) {
		return false // waits in the election
	}
	if c.process != nil {
		return false
	}
	files, err := kubelet.Files{Objects: referred{k.api}}.ControllerConfig(k.ctx, p, spec)
	if err != nil {
		c.running = false
		return false
	}
	config := sim.ControllerConfig(files)
	k.lease = lease{holder: c}
	if spec.Name == kubelet.Controller {
		process, err := k.world.StartController(config)
		c.started(process, err)
		if err != nil {
			k.lease = lease{}
		}
		return false
	}
	if k.database().NeedsMigration(version) {
		secrets, err := kubelet.BackupSecrets(p.Namespace, p.Name, version, kubelet.BackupWhole)
		k.must(err)
		for _, secret := range secrets {
			if err := k.api.Create(k.ctx, secret); !apierrors.IsAlreadyExists(err) {
				k.must(err)
			}
		}
	}
	err = k.world.RunMigration(config)
	k.lease = lease{}
	if err != nil {
		c.fail(err.Error())
		return false
	}
	return true
}

// referred reads what pods refer to.
type referred struct{ api client.Reader }

// ConfigMap implements kubelet.Objects.
func (r referred) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	o := &corev1.ConfigMap{}
	return o, r.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
}

// Secret implements kubelet.Objects.
func (r referred) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	o := &corev1.Secret{}
	return o, r.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
}

// status is what a kubelet reports.
func (p *pod) status(o *corev1.Pod) *corev1.PodStatus {
	st := &corev1.PodStatus{Phase: corev1.PodPending, PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}},
		HostIP: p.node.address()}
	for i := range o.Spec.InitContainers {
		st.InitContainerStatuses = append(st.InitContainerStatuses,
			p.containerStatus(&o.Spec.InitContainers[i], i < p.stage))
	}
	ready := p.stage == len(o.Spec.InitContainers)
	for i := range o.Spec.Containers {
		c := p.containerStatus(&o.Spec.Containers[i], false)
		ready = ready && c.Ready
		st.ContainerStatuses = append(st.ContainerStatuses, c)
	}
	value := corev1.ConditionFalse
	if ready {
		st.Phase, value = corev1.PodRunning, corev1.ConditionTrue
	}
	since := metav1.NewTime(time.Now().Truncate(time.Second))
	for _, old := range o.Status.Conditions {
		if old.Type == corev1.PodReady && old.Status == value {
			since = old.LastTransitionTime
		}
	}
	st.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: value, LastTransitionTime: since}}
	return st
}

func (p *pod) containerStatus(spec *corev1.Container, finished bool) corev1.ContainerStatus {
	c := p.container(spec)
	out := corev1.ContainerStatus{Name: spec.Name, Image: spec.Image, RestartCount: c.restarts}
	if c.failure != nil {
		out.LastTerminationState.Terminated = c.failure.DeepCopy()
	}
	switch {
	case finished:
		out.Ready = true
		out.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", Message: c.message,
			StartedAt: metav1.NewTime(c.since)}
	case c.running:
		needsProcess := spec.Name == kubelet.Satellite || spec.Name == kubelet.Controller
		out.Ready = !needsProcess || c.process != nil
		out.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.since)}
	case c.failure != nil:
		out.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}
	default:
		out.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	}
	return out
}

// powerOff ends everything on a node without a goodbye.
func (k *kubelets) powerOff(n *node) {
	if !n.on { // its machine may run under another name by now
		return
	}
	n.on = false
	for _, uid := range k.runUIDs() {
		if run := k.runs[uid]; run.node == n {
			for _, c := range run.containers {
				k.stop(c, false)
			}
		}
	}
	if m := k.world.Machine(n.machine); m != nil {
		m.PowerOff()
	}
}

// boot lets the pods of a node begin anew.
func (k *kubelets) boot(n *node) {
	n.on = true
	n.boots++
	for _, run := range k.runs {
		if run.node == n {
			run.stage, run.ip = 0, ""
			for _, c := range run.containers {
				c.restarts++
			}
		}
	}
}

func (k *kubelets) runUIDs() []types.UID {
	var out []types.UID
	for uid := range k.runs {
		out = append(out, uid)
	}
	slices.Sort(out)
	return out
}

// pods lists the pods that match, in the order of their names.
func (s *site) pods(match func(*corev1.Pod) bool) []corev1.Pod {
	var out []corev1.Pod
	for _, o := range s.now.sorted(reflect.TypeFor[corev1.Pod]()) {
		if p, ok := o.(*corev1.Pod); ok && match(p) {
			out = append(out, *p.DeepCopy())
		}
	}
	return out
}
