// Package conditions defines the condition types of a StorageCluster and their reasons. Programs should read
// conditions, not the phase.
package conditions

// Condition types.
const (
	// Ready is True in any phase while at least minReady nodes serve the accepted spec, once it has been installed.
	Ready = "Ready"
	// Reconciling is True while the operator works toward the spec (kstatus).
	Reconciling = "Reconciling"
	// Stalled is True if the operator cannot continue on its own (kstatus).
	Stalled = "Stalled"
	// Available is True while LINSTOR's API responds.
	Available = "Available"
	// Degraded is True while nodes, pools, the controller or the database that existed before are missing.
	Degraded = "Degraded"
	// HumanInterventionRequired is True while any hold requires an administrator.
	HumanInterventionRequired = "HumanInterventionRequired"
	// Suspended is True while spec.suspend is set.
	Suspended = "Suspended"

	// MassFailure is True while the operator takes no destructive steps because many nodes have failed at once.
	MassFailure = "MassFailure"
	// PoolsNearlyFull is True while the usage of a pool on any node exceeds its warnUsedPercent.
	PoolsNearlyFull = "PoolsNearlyFull"

	// VolumesHealthy is True while every volume has all its replicas and all of them are up to date.
	VolumesHealthy = "VolumesHealthy"

	// StorageClassesReady is True while the StorageClasses in the spec exist and LINSTOR could place volumes for each.
	StorageClassesReady = "StorageClassesReady"
	// SnapshotsReady is True while snapshots of volumes can be taken, or are not requested.
	SnapshotsReady = "SnapshotsReady"

	// MonitoringReady is True while the objects that spec.monitoring requests exist, or if none are requested. Nothing
	// else depends on it.
	MonitoringReady = "MonitoringReady"
	// HighAvailabilityReady is True while the high-availability controller is running on all members, or is not needed.
	// Nothing else depends on it.
	HighAvailabilityReady = "HighAvailabilityReady"

	// AffinityReady is True while the affinity controller is running, or is not needed. Nothing else depends on it.
	AffinityReady = "AffinityReady"

	// DrainGuardReady is True while each node that requires a drain guard has one, or if none is requested. Nothing else
	// depends on it.
	DrainGuardReady = "DrainGuardReady"

	// BackupReady is True while the last scheduled backup of LINSTOR's database is in the store. Nothing else depends on
	// it.
	BackupReady = "BackupReady"

	// CertificatesValid is True while all certificates that secure LINSTOR's connections are valid, or if TLS is
	// disabled.
	CertificatesValid = "CertificatesValid"

	// There is one condition for each link of the chain.

	KernelModuleLoaded = "KernelModuleLoaded"
	DatabaseReady      = "DatabaseReady"
	ControllerReady    = "ControllerReady"
	SatellitesReady    = "SatellitesReady"
	NodesRegistered    = "NodesRegistered"
	StoragePoolsReady  = "StoragePoolsReady"
	VolumeDriverReady  = "VolumeDriverReady"
	CanaryPassed       = "CanaryPassed"
)

// Types lists all condition types, in display order.
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

// Reasons of conditions, other than the names of phases and holds and the reasons that links define.
const (
	ReasonNoMatchingNodes = "NoMatchingNodes"
	ReasonAsExpected      = "AsExpected"
	ReasonNotChecked      = "NotChecked"
	// ReasonRefused: Kubernetes rejects what the operator writes.
	ReasonRefused = "Refused"
	// ReasonObservationFailed: the operator cannot observe the cluster, and changes nothing. It is also used as an Event
	// reason.
	ReasonObservationFailed = "ObservationFailed"
	ReasonUnknown           = "Unknown"
	ReasonSuspended         = "Suspended"
	ReasonNotSuspended      = "NotSuspended"
	ReasonNoHold            = "NoHold"
	ReasonVolumesExist      = "VolumesExist"
	ReasonNodesFailed       = "NodesFailed"
	ReasonNodesMissing      = "NodesMissing"
	// ReasonControllerUnreachable: LINSTOR's API does not respond; for Ready and Degraded, for longer than a node may be
	// unreachable.
	ReasonControllerUnreachable = "ControllerUnreachable"
	// ReasonRetrying: there is no hold, but the last step failed and is being retried.
	ReasonRetrying     = "Retrying"
	ReasonAcknowledged = "Acknowledged"
	// ReasonRollingSatellites: satellites are being restarted, a few at a time, because their pod template changed.
	ReasonRollingSatellites = "RollingSatellites"
	// ReasonRollingLoaders: the module loader pods are being replaced.
	ReasonRollingLoaders = "RollingLoaders"
	// ReasonChangingInterface: the interface that DRBD replicates over is being changed, node by node.
	ReasonChangingInterface = "ChangingInterface"
)
