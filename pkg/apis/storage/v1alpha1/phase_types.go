package v1alpha1

// Phase is what the operator is doing with the cluster.
type Phase string

// Phases, in the order in which a new cluster goes through them.
const (
	// PhasePending: the spec is not accepted yet.
	PhasePending Phase = "Pending"
	// PhaseAssessing: looks for the first link of the chain that is not satisfied.
	PhaseAssessing Phase = "Assessing"
	// PhaseKernelModule: loads DRBD on the nodes.
	PhaseKernelModule Phase = "KernelModule"
	// PhaseDatabase: makes sure that LINSTOR's database can be reached and is ours.
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
	// PhaseCanary: tries a volume of the StorageClasses, before the cluster is Ready for the first time.
	PhaseCanary Phase = "Canary"
	// PhaseUpgrading: moves the cluster to another LINSTOR version; status.upgrade says how far it is.
	PhaseUpgrading Phase = "Upgrading"
	// PhaseMigrating: replaces LINSTOR's database by a backup, or moves it into another one; LINSTOR is stopped.
	PhaseMigrating Phase = "Migrating"
	// PhaseReady: all that the spec asks for is there.
	PhaseReady Phase = "Ready"
	// PhaseDegraded: usable, but nodes or pools are missing, or controller or database are away.
	PhaseDegraded Phase = "Degraded"
	// PhaseHumanIntervention: cannot go on safely; status.hold says why and how to resume.
	PhaseHumanIntervention Phase = "HumanIntervention"
	// PhaseDeleting: takes the cluster down as spec.deletionPolicy says.
	PhaseDeleting Phase = "Deleting"
)
