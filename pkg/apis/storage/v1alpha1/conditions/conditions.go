// Package conditions names the conditions of a StorageCluster, which are the contract for programs, and their reasons.
package conditions

// Types of conditions.
const (
	// Ready is True while the accepted spec is served by minReady nodes, in whatever phase, once it was installed.
	Ready = "Ready"
	// Reconciling is True while the operator works towards the spec (kstatus).
	Reconciling = "Reconciling"
	// Stalled is True when it cannot go on by itself (kstatus).
	Stalled = "Stalled"
	// Available is True while LINSTOR's API answers.
	Available = "Available"
	// Degraded is True while nodes, pools, controller or database are missing that were there.
	Degraded = "Degraded"
	// HumanInterventionRequired is True while any hold waits for a human.
	HumanInterventionRequired = "HumanInterventionRequired"
	// Suspended is True while spec.suspend is set.
	Suspended = "Suspended"

	// MassFailure is True while so many nodes failed at once that no destructive step is taken.
	MassFailure = "MassFailure"
	// PoolsNearlyFull is True while a pool on a node is fuller than its warnUsedPercent.
	PoolsNearlyFull = "PoolsNearlyFull"

	// VolumesHealthy is True while every volume has all its copies, up to date.
	VolumesHealthy = "VolumesHealthy"

	// StorageClassesReady is True while the StorageClasses of the spec are there and LINSTOR could place volumes of each.
	StorageClassesReady = "StorageClassesReady"
	// SnapshotsReady is True while volumes can be snapshotted, or nobody wants that.
	SnapshotsReady = "SnapshotsReady"

	// MonitoringReady is True while Prometheus Operator has what spec.monitoring asks for, or nothing is to be made for
	// it. Nothing else depends on it.
	MonitoringReady = "MonitoringReady"
	// HighAvailabilityReady is True while the high-availability controller runs on all members, or has nothing to do.
	// Nothing else depends on it.
	HighAvailabilityReady = "HighAvailabilityReady"

	// AffinityReady is True while the affinity controller runs, or has nothing to do. Nothing else depends on it.
	AffinityReady = "AffinityReady"

	// DrainGuardReady is True while each node that is to be guarded has its drain guard, or none is wanted. Nothing else
	// depends on it.
	DrainGuardReady = "DrainGuardReady"

	// BackupReady is True while the backup of LINSTOR's database that was due last is in the store. Nothing else depends
	// on it.
	BackupReady = "BackupReady"

	// CertificatesValid is True while all certificates that lock LINSTOR's connections are there and valid, or none is
	// wanted.
	CertificatesValid = "CertificatesValid"

	// One condition for each link of the chain.

	KernelModuleLoaded = "KernelModuleLoaded"
	DatabaseReady      = "DatabaseReady"
	ControllerReady    = "ControllerReady"
	SatellitesReady    = "SatellitesReady"
	NodesRegistered    = "NodesRegistered"
	StoragePoolsReady  = "StoragePoolsReady"
	VolumeDriverReady  = "VolumeDriverReady"
	CanaryPassed       = "CanaryPassed"
)

// Types lists all types of conditions, in the order in which they are shown.
func Types() []string {
	return []string{
		Ready, Reconciling, Stalled, Available, Degraded,
		HumanInterventionRequired, Suspended, MassFailure, PoolsNearlyFull, VolumesHealthy,
		StorageClassesReady, SnapshotsReady, MonitoringReady, HighAvailabilityReady, DrainGuardReady, AffinityReady,
		BackupReady, CertificatesValid,
		KernelModuleLoaded, DatabaseReady, ControllerReady, SatellitesReady,
		NodesRegistered, StoragePoolsReady, VolumeDriverReady, CanaryPassed,
	}
}

// Reasons of conditions that are not the name of a phase, a hold or a link's own.
const (
	ReasonNoMatchingNodes = "NoMatchingNodes"
	ReasonAsExpected      = "AsExpected"
	ReasonNotChecked      = "NotChecked"
	// ReasonRefused: Kubernetes refuses what the operator writes.
	ReasonRefused = "Refused"
	// ReasonObservationFailed: the operator cannot look at the cluster, and changes nothing. It is an Event's reason as
	// well.
	ReasonObservationFailed = "ObservationFailed"
	ReasonUnknown           = "Unknown"
	ReasonSuspended         = "Suspended"
	ReasonNotSuspended      = "NotSuspended"
	ReasonNoHold            = "NoHold"
	ReasonVolumesExist      = "VolumesExist"
	ReasonNodesFailed       = "NodesFailed"
	ReasonNodesMissing      = "NodesMissing"
	// ReasonControllerUnreachable: LINSTOR's API does not answer; of Ready and Degraded, for longer than a node may be
	// away.
	ReasonControllerUnreachable = "ControllerUnreachable"
	// ReasonRetrying: no hold, but the last step failed and is repeated.
	ReasonRetrying     = "Retrying"
	ReasonAcknowledged = "Acknowledged"
	// ReasonRollingSatellites: satellites are restarted, a few at a time, because what their pods are made from changed.
	ReasonRollingSatellites = "RollingSatellites"
	// ReasonRollingLoaders: the module loaders' pods are being exchanged.
	ReasonRollingLoaders = "RollingLoaders"
	// ReasonChangingInterface: the interface that DRBD replicates over is being changed, node by node.
	ReasonChangingInterface = "ChangingInterface"
)
