package model

import (
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

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/sim"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

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

// kubelet brings the pods of one node on, each by one container at most, and writes their status.
func (s *site) kubelet(n *node) {
	if !n.on {
		return
	}
	pods := s.pods(func(p *corev1.Pod) bool { return p.Spec.NodeName == n.name })
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil {
			s.endPod(p)
			continue
		}
		run := s.runs[p.UID]
		if run == nil {
			run = &pod{node: n, containers: map[string]*container{}}
			s.runs[p.UID] = run
		}
		if run.ip == "" {
			run.ip = s.podIP(n, p)
		}
		s.advance(run, p)
		status := run.status(p)
		if !equality.Semantic.DeepEqual(*status, p.Status) {
			p.Status = *status
			s.must(s.api.Status().Update(s.ctx, p))
		}
	}
}

func (s *site) podIP(n *node, p *corev1.Pod) string {
	if p.Spec.HostNetwork {
		return n.address()
	}
	s.ips++
	return fmt.Sprintf("10.128.%d.%d", s.ips/250, s.ips%250+1)
}

// endPod ends a pod's programs and lets its object go.
func (s *site) endPod(p *corev1.Pod) {
	if run := s.runs[p.UID]; run != nil {
		for _, c := range run.containers {
			s.stop(c, true)
		}
		delete(s.runs, p.UID)
	}
	if slices.Contains(p.Finalizers, runningFinalizer) {
		p.Finalizers = nil
		s.must(client.IgnoreNotFound(s.api.Update(s.ctx, p)))
	}
}

func (s *site) stop(c *container, graceful bool) {
	if c.process != nil {
		c.process.Stop()
	}
	if s.lease.holder == c {
		if graceful {
			s.lease = lease{}
		} else {
			s.lease.until = time.Now().Add(leaseTime)
		}
	}
	c.process, c.running = nil, false
}

// advance starts the next container that can be started.
func (s *site) advance(run *pod, p *corev1.Pod) {
	for _, c := range run.containers {
		if c.running && c.process != nil && ended(c.process) {
			s.stop(c, true)
			c.fail("ended")
		}
	}
	if run.stage < len(p.Spec.InitContainers) {
		c := run.container(&p.Spec.InitContainers[run.stage])
		if done, message := s.begin(run, p, &p.Spec.InitContainers[run.stage], c); done {
			c.running, c.message = false, message
			run.stage++
		}
		return
	}
	for i := range p.Spec.Containers {
		if c := run.container(&p.Spec.Containers[i]); !c.running {
			s.begin(run, p, &p.Spec.Containers[i], c)
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
func (s *site) begin(run *pod, p *corev1.Pod, spec *corev1.Container, c *container) (done bool, message string) {
	if s.broken[spec.Name+"/"+run.node.name] {
		c.fail("broken on " + run.node.name)
		return false, ""
	}
	machine := s.world.Machine(run.node.name)
	version := kubelet.ImageVersion(spec.Image)
	if !c.running {
		c.running, c.since = true, time.Now().Truncate(time.Second)
	}
	switch spec.Name {
	case kubelet.ModuleLoader:
		if machine.ModuleVersion() == "" {
			machine.LoadModule(version)
		}
		return true, ""
	case kubelet.WaitForModule:
		return machine.ModuleVersion() != "", machine.ModuleVersion()
	case kubelet.Inventory:
		return true, machine.Inventory()
	case kubelet.Satellite:
		process, err := s.world.StartSatellite(run.node.name, sim.SatelliteConfig{Version: version, Address: run.ip})
		c.started(process, err)
	case kubelet.RunMigration, kubelet.Controller:
		return s.beginController(p, spec, c, version), ""
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
func (s *site) beginController(p *corev1.Pod, spec *corev1.Container, c *container, version string) (done bool) {
	if s.lease.holder != nil && s.lease.holder != c && (s.lease.until.IsZero() || time.Now().Before(s.lease.until)) {
		return false // waits in the election
	}
	if c.process != nil {
		return false
	}
	config := sim.ControllerConfig{Version: version, Identity: p.Name}
	var err error
	if config.TOML, config.MasterPassphrase, err = s.controllerFiles(spec); err != nil {
		c.running = false
		return false
	}
	s.lease = lease{holder: c}
	if spec.Name == kubelet.Controller {
		process, err := s.world.StartController(config)
		c.started(process, err)
		if err != nil {
			s.lease = lease{}
		}
		return false
	}
	if s.world.Database("k8s").NeedsMigration(version) {
		secrets, err := kubelet.BackupSecrets(p.Namespace, p.Name, version, kubelet.BackupWhole)
		s.must(err)
		for _, secret := range secrets {
			if err := s.api.Create(s.ctx, secret); !apierrors.IsAlreadyExists(err) {
				s.must(err)
			}
		}
	}
	err = s.world.RunMigration(config)
	s.lease = lease{}
	if err != nil {
		c.fail(err.Error())
		return false
	}
	return true
}

// controllerFiles reads what the container mounts and its environment refers to.
func (s *site) controllerFiles(spec *corev1.Container) (toml, passphrase string, err error) {
	config := &corev1.ConfigMap{}
	if err := s.api.Get(s.ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ControllerConfigName}, config); err != nil {
		return "", "", err
	}
	for _, e := range spec.Env {
		if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
			continue
		}
		secret := &corev1.Secret{}
		if err := s.api.Get(s.ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: e.ValueFrom.SecretKeyRef.Name}, secret); err != nil {
			return "", "", err
		}
		passphrase = string(secret.Data[e.ValueFrom.SecretKeyRef.Key])
	}
	return config.Data["linstor.toml"], passphrase, nil
}

// status is what a kubelet reports.
func (p *pod) status(o *corev1.Pod) *corev1.PodStatus {
	st := &corev1.PodStatus{Phase: corev1.PodPending, PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}}, HostIP: p.node.address()}
	for i := range o.Spec.InitContainers {
		st.InitContainerStatuses = append(st.InitContainerStatuses, p.containerStatus(&o.Spec.InitContainers[i], i < p.stage))
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
		out.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", Message: c.message, StartedAt: metav1.NewTime(c.since)}
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
func (s *site) powerOff(n *node) {
	n.on = false
	for _, uid := range s.runUIDs() {
		if run := s.runs[uid]; run.node == n {
			for _, c := range run.containers {
				s.stop(c, false)
			}
		}
	}
	if m := s.world.Machine(n.name); m != nil {
		m.PowerOff()
	}
}

// boot lets the pods of a node begin anew.
func (s *site) boot(n *node) {
	n.on = true
	n.boots++
	for _, run := range s.runs {
		if run.node == n {
			run.stage, run.ip = 0, ""
			for _, c := range run.containers {
				c.restarts++
			}
		}
	}
}

func (s *site) runUIDs() []types.UID {
	var out []types.UID
	for uid := range s.runs {
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
