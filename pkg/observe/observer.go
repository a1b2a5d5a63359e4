// Package observe takes the snapshot that a reconcile decides on. It only reads. A source that fails is recorded as failed;
// nothing is concluded from it here.
package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Prober looks into a database before LINSTOR was started on it.
type Prober interface {
	// Nodes returns the names of the LINSTOR nodes that the database holds, ten at most.
	Nodes(ctx context.Context, spec *v1alpha1.DatabaseSpec, access resources.Database) ([]string, error)
}

// TaskStates tells about background writes.
type TaskStates interface {
	Errors() map[string]error
	State(key string) work.State
}

// Observer takes snapshots. It keeps LINSTOR's last view for a short while, so that a burst of Kubernetes events does not
// become a burst of requests to LINSTOR.
type Observer struct {
	// Reader reads from the cache.
	Reader    client.Reader
	Linstor   linstor.Reader
	Prober    Prober
	Tasks     TaskStates
	Catalogue *catalogue.Catalogue
	Timing    phases.Timing
	Clock     clock.PassiveClock

	mu      sync.Mutex
	last    phases.Linstor
	lastAt  time.Time
	took    time.Duration // for the last view
	down    map[string]phases.Down
	dirty   bool
	devices bool
	disks   diskMemory
	probe   phases.Database
	probeAt time.Time
	probed  string
}

// Invalidate makes the next snapshot look at LINSTOR anew, because a write to it has ended.
func (o *Observer) Invalidate() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dirty = true
}

// Refresh makes the next snapshot look at LINSTOR anew, however young the last view is: a human has just said that
// something changed.
func (o *Observer) Refresh() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lastAt, o.probeAt = time.Time{}, time.Time{}
}

// Observe takes a snapshot for the object as it was read.
func (o *Observer) Observe(ctx context.Context, c *v1alpha1.StorageCluster) (*phases.Snapshot, error) {
	s := &phases.Snapshot{Now: o.Clock.Now(), Timing: o.Timing, Catalogue: o.Catalogue, Cluster: c, TaskStates: map[string]work.State{}}
	if err := o.kubernetes(ctx, s); err != nil {
		return nil, err
	}
	if err := o.target(s); err != nil {
		return nil, err
	}
	specs := []*v1alpha1.StorageClusterSpec{&c.Spec}
	if s.Target != nil {
		specs = append(specs, s.Target.Spec) // what runs may still have the Secrets of before
	}
	s.Kube.HideSecrets(specs...)
	if err := o.localVolumes(ctx, s); err != nil {
		return nil, err
	}
	s.Linstor = o.linstor(ctx, s)
	s.Database = o.database(ctx, s)
	for key := range o.Tasks.Errors() {
		s.TaskStates[key] = o.Tasks.State(key)
	}
	s.Derive()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.disks.complete = s.HasOptionalPools()
	return s, nil
}

// kubernetes reads the cached objects. The cache answers from memory, so an error here is a fault, not an outage. Nobody
// changes what a snapshot holds, so that the objects themselves are taken, not copies of them.
func (o *Observer) kubernetes(ctx context.Context, s *phases.Snapshot) error {
	k := &s.Kube
	in := client.InNamespace(v1alpha1.WorkloadNamespace)
	var nodes corev1.NodeList
	var pods corev1.PodList
	var daemonSets appsv1.DaemonSetList
	var deployments appsv1.DeploymentList
	var services corev1.ServiceList
	var configMaps corev1.ConfigMapList
	var secrets corev1.SecretList
	var revisions appsv1.ControllerRevisionList
	for _, l := range []struct {
		list client.ObjectList
		opts []client.ListOption
	}{
		{&nodes, nil}, {&pods, []client.ListOption{in}}, {&daemonSets, []client.ListOption{in}}, {&deployments, []client.ListOption{in}},
		{&services, []client.ListOption{in}}, {&configMaps, []client.ListOption{in}}, {&secrets, []client.ListOption{in}},
		{&revisions, []client.ListOption{in, client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentRevision}}},
	} {
		if err := o.Reader.List(ctx, l.list, append(l.opts, client.UnsafeDisableDeepCopy)...); err != nil {
			return fmt.Errorf("list %T: %w", l.list, err)
		}
	}
	for i := range nodes.Items {
		k.Nodes = append(k.Nodes, &nodes.Items[i])
	}
	k.DaemonSets = byName(daemonSets.Items, func(o *appsv1.DaemonSet) string { return o.Name })
	k.Deployments = byName(deployments.Items, func(o *appsv1.Deployment) string { return o.Name })
	k.Services = byName(services.Items, func(o *corev1.Service) string { return o.Name })
	k.ConfigMaps = byName(configMaps.Items, func(o *corev1.ConfigMap) string { return o.Name })
	k.Secrets = byName(secrets.Items, func(o *corev1.Secret) string { return o.Name })
	k.Revisions = byName(revisions.Items, func(o *appsv1.ControllerRevision) string { return o.Name })
	sortPods(k, pods.Items, s.Cluster.Name)
	return nil
}

func byName[T any](items []T, name func(*T) string) map[string]*T {
	out := make(map[string]*T, len(items))
	for i := range items {
		out[name(&items[i])] = &items[i]
	}
	return out
}

// sortPods keeps one pod for each component and node. While a pod is being replaced there are two; the one that stays counts.
func sortPods(k *phases.Kube, pods []corev1.Pod, cluster string) {
	k.Pods = map[string]map[string]*corev1.Pod{}
	for i := range pods {
		p := &pods[i]
		component := p.Labels[v1alpha1.LabelComponent]
		switch {
		case p.Labels[v1alpha1.LabelCluster] != cluster:
		case component == v1alpha1.ComponentController:
			k.ControllerPods = append(k.ControllerPods, p)
		case p.Spec.NodeName != "":
			if k.Pods[component] == nil {
				k.Pods[component] = map[string]*corev1.Pod{}
			}
			if old := k.Pods[component][p.Spec.NodeName]; old == nil || old.DeletionTimestamp != nil || p.DeletionTimestamp == nil && p.CreationTimestamp.After(old.CreationTimestamp.Time) {
				k.Pods[component][p.Spec.NodeName] = p
			}
		}
	}
}

// localVolumes reads which devices local PersistentVolumes name, if any pool is to be made from devices.
func (o *Observer) localVolumes(ctx context.Context, s *phases.Snapshot) error {
	if !s.Cluster.Spec.WantsDevices() && (s.Target == nil || !s.Target.Spec.WantsDevices()) {
		return nil
	}
	var list corev1.PersistentVolumeList
	if err := o.Reader.List(ctx, &list); err != nil {
		return fmt.Errorf("list PersistentVolumes: %w", err)
	}
	s.Kube.LocalVolumePaths = map[string][]string{}
	for i := range list.Items {
		pv := &list.Items[i]
		if pv.Spec.Local == nil || !strings.HasPrefix(pv.Spec.Local.Path, "/dev/") {
			continue
		}
		for _, node := range volumeNodes(pv, s.Kube.Nodes) {
			s.Kube.LocalVolumePaths[node] = append(s.Kube.LocalVolumePaths[node], pv.Spec.Local.Path)
		}
	}
	return nil
}

// volumeNodes are the nodes that a local volume is on; all of them if its affinity does not say so by host name.
func volumeNodes(pv *corev1.PersistentVolume, nodes []*corev1.Node) []string {
	var hosts []string
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		for _, term := range a.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				if e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn {
					hosts = append(hosts, e.Values...)
				}
			}
		}
	}
	var out []string
	for _, n := range nodes {
		if len(hosts) == 0 || slices.Contains(hosts, n.Labels[corev1.LabelHostname]) || slices.Contains(hosts, n.Name) {
			out = append(out, n.Name)
		}
	}
	return out
}

// target reads the accepted spec. A revision that cannot be read is an error: working on another spec than the accepted one
// could touch what the user did not ask for.
func (o *Observer) target(s *phases.Snapshot) error {
	name := s.Cluster.Status.Target
	rev := s.Kube.Revisions[name]
	if rev == nil {
		return nil
	}
	spec, err := resources.SpecFromRevision(rev)
	if err != nil {
		return fmt.Errorf("accepted spec: %w", err)
	}
	release, ok := o.Catalogue.Release(spec.Version)
	if !ok {
		return fmt.Errorf("accepted spec %s: this operator does not know LINSTOR %s", name, spec.Version)
	}
	if claim, claimed, _ := s.Claim(); claimed && claim.Version != "" {
		if _, ok := o.Catalogue.Release(claim.Version); !ok {
			return fmt.Errorf("ConfigMap %s: this operator does not know LINSTOR %s, which the database is of", resources.ClaimName, claim.Version)
		}
	}
	s.Target = phases.NewTarget(name, spec, release, s.Cluster)
	return nil
}
