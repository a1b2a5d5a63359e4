package cluster

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/tlsmode"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

// WorkingSpec is the part of the spec that a ControllerRevision keeps: all but what holds at once. Where it names no
// version and no mode of TLS, these are filled in.
func (f *Facts) WorkingSpec() *v1alpha1.StorageClusterSpec {
	spec := f.Cluster.Spec.DeepCopy()
	HoldAtOnce(spec, &v1alpha1.StorageClusterSpec{})
	spec.Version, spec.TLS.Mode = f.WantedVersion(), tlsmode.Of(f.Cluster, f.Spec().TLS.Mode, tlsmode.Remains{
		Claim: &f.Recorded, Revisions: f.Kube.Revisions, Controller: f.Kube.Deployments[resources.ControllerName]})
	return spec
}

// SpecPending reports whether the spec differs from the accepted one in something that needs work.
func (f *Facts) SpecPending() bool {
	return f.Cluster.Generation != f.Cluster.Status.AcceptedGeneration &&
		(f.Target == nil || revision.Of(f.Cluster.Name, 0, f.WorkingSpec()).Name != f.Target.Name)
}

// HoldAtOnce gives a spec the fields of class Immediate that another one has. A pool that it lacks gets the default.
func HoldAtOnce(to, from *v1alpha1.StorageClusterSpec) {
	to.Suspend, to.DeletionPolicy, to.Nodes.RemovalPolicy = from.Suspend, from.DeletionPolicy, from.Nodes.RemovalPolicy
	to.Monitoring, to.Backup, to.Volumes.DrainGuard = from.Monitoring, from.Backup, from.Volumes.DrainGuard
	to.Nodes.MinReady, to.Nodes.LostAfter = from.Nodes.MinReady, from.Nodes.LostAfter
	to.Nodes.MaxConcurrentEvacuations = from.Nodes.MaxConcurrentEvacuations
	for i := range to.StoragePools {
		p := &to.StoragePools[i]
		p.WarnUsedPercent = 0
		if o := PoolEntry(from, p.Name); o != nil {
			p.WarnUsedPercent = o.WarnUsedPercent
		}
	}
}

// PoolEntry is an entry of spec.storagePools; nil if there is none.
func PoolEntry(spec *v1alpha1.StorageClusterSpec, name string) *v1alpha1.StoragePoolSpec {
	for i := range spec.StoragePools {
		if spec.StoragePools[i].Name == name {
			return &spec.StoragePools[i]
		}
	}
	return nil
}
