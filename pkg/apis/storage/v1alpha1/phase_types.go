package v1alpha1

// Phase is what the operator is doing with the cluster.
type Phase string

// Phases, in the order in which a new cluster goes through them.
const (
	// PhasePending: the spec is not accepted yet.
	PhasePending Phase = "Pending"
	// PhaseAssessing: looks for the first link of the chain that is not satisfied.
	PhaseAssessing Phase = "Assessing"
	// PhaseKernelModule: brings DRBD onto the nodes.
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
	// PhaseUpgrading: moves the cluster to another LINSTOR version; status.upgrade says how far it is.
	PhaseUpgrading Phase = "Upgrading"
	// PhaseReady: all that the spec asks for is there.
	PhaseReady Phase = "Ready"
	// PhaseDegraded: usable, but nodes or pools are missing, or controller or database are away.
	PhaseDegraded Phase = "Degraded"
	// PhaseHumanIntervention: cannot go on safely; status.hold says why and how to resume.
	PhaseHumanIntervention Phase = "HumanIntervention"
	// PhaseDeleting: takes the cluster down as spec.deletionPolicy says.
	PhaseDeleting Phase = "Deleting"
)

// HoldReason says why a hold began.
type HoldReason string

// Reasons of holds. Each has a page in docs/runbooks.
const (
	// Clearing reasons end by themselves when the evidence comes back.

	HoldKernelModuleFailed       HoldReason = "KernelModuleFailed"
	HoldSigningKeyUnusable       HoldReason = "SigningKeyUnusable"
	HoldDatabaseUnreachable      HoldReason = "DatabaseUnreachable"
	HoldPassphraseUnusable       HoldReason = "PassphraseUnusable"
	HoldControllerFailed         HoldReason = "ControllerFailed"
	HoldSatellitesFailed         HoldReason = "SatellitesFailed"
	HoldNodeRegistrationFailed   HoldReason = "NodeRegistrationFailed"
	HoldSatelliteVersionMismatch HoldReason = "SatelliteVersionMismatch"
	HoldPoolBackendMissing       HoldReason = "PoolBackendMissing"
	HoldDeviceMissing            HoldReason = "DeviceMissing"
	HoldStoragePoolsFailed       HoldReason = "StoragePoolsFailed"
	HoldNoMatchingNodes          HoldReason = "NoMatchingNodes"
	HoldMassFailure              HoldReason = "MassFailure"
	HoldTooManyNodesLeaving      HoldReason = "TooManyNodesLeaving"
	HoldEvacuationStuck          HoldReason = "EvacuationStuck"

	HoldUpgradeBlocked HoldReason = "UpgradeBlocked"
	HoldUpgradeStuck   HoldReason = "UpgradeStuck"

	// Answer reasons end only with the token: a change of the spec is never consent to touch data.

	HoldSecureBootKeyMissing HoldReason = "SecureBootKeyMissing"
	HoldForeignLinstorFound  HoldReason = "ForeignLinstorFound"
	HoldDeviceNotEmpty       HoldReason = "DeviceNotEmpty"
	HoldVolumesUnknown       HoldReason = "VolumesUnknown"
	HoldLastReplicaAtRisk    HoldReason = "LastReplicaAtRisk"
	HoldDeviceApproval       HoldReason = "DeviceApproval"
	HoldPoolBackendLost      HoldReason = "PoolBackendLost"
	HoldMachineReplaced      HoldReason = "MachineReplaced"
	HoldBackupTooOld         HoldReason = "BackupTooOld"
	HoldNodeGone             HoldReason = "NodeGone"

	// Revert reasons end when the change is taken back or corrected.

	HoldUnsupportedChange HoldReason = "UnsupportedChange"
	HoldPoolConflict      HoldReason = "PoolConflict"
	HoldOperationFailed   HoldReason = "OperationFailed"
)

// HoldClass says what ends a hold.
type HoldClass string

// Classes of holds.
const (
	// HoldClearing ends when the evidence comes back, with a change of the spec, or with the token.
	HoldClearing HoldClass = "Clearing"
	// HoldAnswer ends only with the token.
	HoldAnswer HoldClass = "Answer"
	// HoldRevert ends with a change of the spec, or with the token where an option exists.
	HoldRevert HoldClass = "Revert"
)

// HoldKind is what is known of a reason.
type HoldKind struct {
	Reason HoldReason
	Class  HoldClass
	// Options are the answers that the resume annotation may give, the safest first; of DeviceApproval, the one that was asked for.
	Options []string
}

// Options of holds.
const (
	// OptionRetry looks again.
	OptionRetry = "retry"
	// OptionSkip goes on without what is held.
	OptionSkip = "skip"
	// OptionAdopt takes over the data that was found.
	OptionAdopt = "adopt"
	// OptionReplace forgets the earlier machine of a node with all that was on it.
	OptionReplace = "replace"
	// OptionDeclareLost forgets a node in LINSTOR with all its copies.
	OptionDeclareLost = "declare-lost"
	// OptionUseExisting registers the volume group or zpool that is on the disks already; nothing is formatted.
	OptionUseExisting = "use-existing"
	// OptionApprove lets a pool be made from the empty disks that the hold lists, and from no others.
	OptionApprove = "approve"
	// OptionRecreate makes a lost pool anew, empty, from the empty disks that the hold lists.
	OptionRecreate = "recreate"
	// OptionSkipChecks goes on with an upgrade although a check of its step fails.
	OptionSkipChecks = "skip-checks"
	// OptionBackupConfirmed says that there is a backup of the database that was made by other means.
	OptionBackupConfirmed = "backup-confirmed"
	// OptionContinue goes on although it is not known whether volumes exist, or although many nodes are down.
	OptionContinue = "continue"
)

var holdKinds = []HoldKind{
	{HoldKernelModuleFailed, HoldClearing, []string{OptionRetry}},
	{HoldSigningKeyUnusable, HoldClearing, []string{OptionRetry}},
	{HoldDatabaseUnreachable, HoldClearing, []string{OptionRetry}},
	{HoldPassphraseUnusable, HoldClearing, []string{OptionRetry}},
	{HoldControllerFailed, HoldClearing, []string{OptionRetry}},
	{HoldSatellitesFailed, HoldClearing, []string{OptionRetry}},
	{HoldNodeRegistrationFailed, HoldClearing, []string{OptionRetry}},
	{HoldSatelliteVersionMismatch, HoldClearing, []string{OptionRetry}},
	{HoldPoolBackendMissing, HoldClearing, []string{OptionRetry}},
	{HoldDeviceMissing, HoldClearing, []string{OptionRetry, OptionSkip}},
	{HoldStoragePoolsFailed, HoldClearing, []string{OptionRetry}},
	{HoldNoMatchingNodes, HoldClearing, []string{OptionRetry}},
	{HoldMassFailure, HoldClearing, []string{OptionContinue}},
	{HoldTooManyNodesLeaving, HoldClearing, []string{OptionRetry, OptionContinue}},
	{HoldEvacuationStuck, HoldClearing, []string{OptionRetry}},
	{HoldUpgradeBlocked, HoldClearing, []string{OptionRetry, OptionSkipChecks}},
	{HoldUpgradeStuck, HoldClearing, []string{OptionRetry, OptionSkipChecks}},
	{HoldBackupTooOld, HoldAnswer, []string{OptionRetry, OptionBackupConfirmed}},
	{HoldSecureBootKeyMissing, HoldAnswer, []string{OptionRetry}},
	{HoldForeignLinstorFound, HoldAnswer, []string{OptionRetry, OptionAdopt}},
	{HoldDeviceNotEmpty, HoldAnswer, []string{OptionRetry, OptionSkip, OptionUseExisting}},
	{HoldDeviceApproval, HoldAnswer, []string{OptionApprove, OptionSkip}},
	{HoldPoolBackendLost, HoldAnswer, []string{OptionRetry, OptionRecreate}},
	{HoldVolumesUnknown, HoldAnswer, []string{OptionRetry, OptionContinue}},
	{HoldLastReplicaAtRisk, HoldAnswer, []string{OptionRetry}},
	{HoldMachineReplaced, HoldAnswer, []string{OptionRetry, OptionAdopt, OptionReplace}},
	{HoldNodeGone, HoldAnswer, []string{OptionRetry, OptionDeclareLost}},
	{HoldUnsupportedChange, HoldRevert, []string{OptionRetry}},
	{HoldPoolConflict, HoldRevert, []string{OptionRetry}},
	{HoldOperationFailed, HoldRevert, []string{OptionRetry}},
}

// HoldKinds lists what is known of every reason.
func HoldKinds() []HoldKind { return append([]HoldKind(nil), holdKinds...) }

// Kind is what is known of the reason; of an unknown one, that only the token ends it.
func (r HoldReason) Kind() HoldKind {
	for _, k := range holdKinds {
		if k.Reason == r {
			return k
		}
	}
	return HoldKind{Reason: r, Class: HoldAnswer, Options: []string{OptionRetry}}
}
