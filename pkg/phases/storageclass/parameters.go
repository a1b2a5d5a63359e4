package storageclass

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Parameters are those of the StorageClasses that volumes are, or will be, of, by name: the entries of the accepted
// spec, and what stays of others as long as there are volumes of it.
func Parameters(s *cluster.Snapshot) map[string]map[string]string {
	out := map[string]map[string]string{}
	for name, c := range s.Kube.Driver.Classes {
		if cluster.Ours(s.Cluster.Name, c) {
			out[name] = c.Parameters
		}
	}
	p := s.SatelliteParams()
	for i := range s.Target.Spec.Volumes.StorageClasses {
		e := &s.Target.Spec.Volumes.StorageClasses[i]
		out[e.Name] = resources.StorageClass(p, e, false).Parameters
	}
	return out
}
