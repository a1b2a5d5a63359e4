package phases

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// WantsResources is whether the copies of all volumes matter now, judged by Kubernetes' objects, the status and the last
// view of LINSTOR, which may be nil. A cluster at rest need not list them: the list grows with the volumes.
func (s *Snapshot) WantsResources(last *linstor.View) bool {
	// Under the policy Retain nothing is done about nodes that leave, for as long as they do.
	leaving := s.removalPolicy() != v1alpha1.NodesRetain
	if s.Cluster.Status.Upgrade != nil || leaving && s.Cluster.Status.Nodes.LeavingCount > 0 || s.outdatedPods(func(p *corev1.Pod) bool { return !p.Spec.HostNetwork }) {
		return true
	}
	spec := s.nodesSpec()
	known := map[string]bool{}
	for _, n := range s.Kube.Nodes {
		known[strings.ToLower(n.Name)] = true
		if leaving && n.Labels[v1alpha1.LabelMember] == s.Cluster.Name && !Selects(spec, n) {
			return true
		}
	}
	if last == nil {
		return false
	}
	for key, n := range last.Nodes {
		ours := n.Properties[auxUID] != ""
		if leaving && ours && !known[key] || n.HasFlag(linstor.FlagEvacuate) || n.HasFlag(linstor.FlagDelete) {
			return true
		}
	}
	return false
}

// Rolling is whether satellites are to be restarted, or one is just stopping: LINSTOR is looked at more often then.
func (s *Snapshot) Rolling() bool {
	return s.outdatedPods(func(*corev1.Pod) bool { return true })
}

// outdatedPods is whether some satellite's pod that matters is going, or not as its DaemonSet makes them now.
func (s *Snapshot) outdatedPods(matters func(*corev1.Pod) bool) bool {
	for _, p := range s.Kube.Pods[v1alpha1.ComponentSatellite] {
		ds := s.Kube.satelliteSet(p)
		if ds != nil && matters(p) && (p.DeletionTimestamp != nil || p.Annotations[resources.AnnotationTemplateHash] != resources.SatelliteHash(ds)) {
			return true
		}
	}
	return false
}

// HasOptionalPools is whether LINSTOR has all pools that nodes may be without. While it does not, a disk that is attached
// matters.
func (s *Snapshot) HasOptionalPools() bool {
	return s.Linstor.Known() && s.count(func(m *Member) bool {
		return slices.ContainsFunc(m.Pools, func(p *MemberPool) bool { return p.Have == nil && p.Entry.Devices != nil && p.Entry.Devices.Optional })
	}) == 0
}
