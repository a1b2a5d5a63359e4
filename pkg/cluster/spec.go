package cluster

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

// WorkingSpec is the part of a spec that a ControllerRevision keeps: all but what holds at once. Version is filled in.
func WorkingSpec(c *v1alpha1.StorageCluster, version string) *v1alpha1.StorageClusterSpec {
	spec := c.Spec.DeepCopy()
	HoldAtOnce(spec, &v1alpha1.StorageClusterSpec{})
	spec.Version = version
	return spec
}

// SpecPending reports whether the spec differs from the accepted one in something that needs work.
func (f *Facts) SpecPending() bool {
	if f.Cluster.Generation == f.Cluster.Status.AcceptedGeneration {
		return false
	}
	return f.Target == nil || revision.Of(f.Cluster.Name, 0,
		WorkingSpec(f.Cluster, f.WantedVersion())).Name != f.Target.Name
}

// HoldAtOnce gives a spec the fields of class Immediate that another one has. A pool that it lacks gets the default.
func HoldAtOnce(to, from *v1alpha1.StorageClusterSpec) {
	to.Suspend, to.DeletionPolicy = from.Suspend, from.DeletionPolicy
	to.Monitoring, to.Backup, to.Volumes.DrainGuard = from.Monitoring, from.Backup, from.Volumes.DrainGuard
	to.Nodes.MinReady, to.Nodes.LostAfter = from.Nodes.MinReady, from.Nodes.LostAfter
	to.Nodes.RemovalPolicy = from.Nodes.RemovalPolicy
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

// PoolKnown reports whether the accepted spec has the entry, as far as it is known.
func (f *Facts) PoolKnown(entry string) bool {
	return entry == "" || f.Target == nil || PoolEntry(f.Target.Spec, entry) != nil
}
