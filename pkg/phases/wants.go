package phases

import (
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// WantsResources is whether the copies of all volumes matter now, judged by Kubernetes' objects, the status and the last
// view of LINSTOR, which may be nil. A cluster at rest need not list them: the list grows with the volumes.
func (s *Snapshot) WantsResources(last *linstor.View) bool {
	if s.Cluster.Status.Upgrade != nil || s.Cluster.Status.Nodes.LeavingCount > 0 {
		return true
	}
	spec := s.nodesSpec()
	known := map[string]bool{}
	for _, n := range s.Kube.Nodes {
		known[strings.ToLower(n.Name)] = true
		if n.Labels[v1alpha1.LabelMember] == s.Cluster.Name && !Selects(spec, n) {
			return true
		}
	}
	if last == nil {
		return false
	}
	for key, n := range last.Nodes {
		ours := n.Properties[auxUID] != ""
		if ours && !known[key] || n.HasFlag(linstor.FlagEvacuate) || n.HasFlag(linstor.FlagDelete) {
			return true
		}
	}
	return false
}
