package v1alpha1

// Phase is what the operator is doing with the cluster.
type Phase string

// Phases, in the order in which a new cluster goes through them.
const (
	// PhasePending: the spec has not been accepted yet.
	PhasePending Phase = "Pending"
	// PhaseAssessing: determines the first incomplete step.
	PhaseAssessing Phase = "Assessing"
	// PhaseKernelModule: loads DRBD on the nodes.
	PhaseKernelModule Phase = "KernelModule"
	// PhaseDatabase: checks that LINSTOR's database is reachable and belongs to this cluster.
	PhaseDatabase Phase = "Database"
	// PhaseController: starts and configures the LINSTOR controller.
	PhaseController Phase = "Controller"
	// PhaseSatellites: starts a satellite on each node.
	PhaseSatellites Phase = "Satellites"
	// PhaseNodeRegistration: registers the nodes in LINSTOR.
	PhaseNodeRegistration Phase = "NodeRegistration"
	// PhaseStoragePools: creates the storage pools.
	PhaseStoragePools Phase = "StoragePools"
	// PhaseVolumeDriver: starts the CSI driver, if spec.volumes.driver.mode is Managed.
	PhaseVolumeDriver Phase = "VolumeDriver"
	// PhaseCanary: tests volumes of the StorageClasses before the cluster is Ready for the first time.
	PhaseCanary Phase = "Canary"
	// PhaseUpgrading: changes the LINSTOR version; status.upgrade shows the progress.
	PhaseUpgrading Phase = "Upgrading"
	// PhaseMigrating: replaces LINSTOR's database with a backup, or moves the data to another database; LINSTOR is
	// stopped.
	PhaseMigrating Phase = "Migrating"
	// PhaseReady: everything that the spec requires is in place.
	PhaseReady Phase = "Ready"
	// PhaseDegraded: usable, but nodes or pools are missing, or the controller or the database is unavailable.
	PhaseDegraded Phase = "Degraded"
	// PhaseHumanIntervention: cannot continue safely; status.hold explains why and how to resume.
	PhaseHumanIntervention Phase = "HumanIntervention"
	// PhaseDeleting: removes the cluster according to spec.deletionPolicy.
	PhaseDeleting Phase = "Deleting"
)
