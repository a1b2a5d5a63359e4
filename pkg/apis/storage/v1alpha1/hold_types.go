package v1alpha1

import "encoding/json"

// HoldReason is the reason for a hold.
type HoldReason string

// Reasons for holds. Each has a page in docs/runbooks.
const (
	// Clearing reasons: the hold is resolved automatically once the problem is gone.

	// HoldKernelModuleFailed: DRBD cannot be loaded.
	HoldKernelModuleFailed HoldReason = "KernelModuleFailed"
	// HoldSigningKeyUnusable: the Secret with the key that signs the kernel module is missing or incomplete.
	HoldSigningKeyUnusable HoldReason = "SigningKeyUnusable"
	// HoldDatabaseUnreachable: LINSTOR's database does not respond.
	HoldDatabaseUnreachable HoldReason = "DatabaseUnreachable"
	// HoldPassphraseUnusable: the master passphrase is missing or wrong.
	HoldPassphraseUnusable HoldReason = "PassphraseUnusable"
	// HoldControllerFailed: the LINSTOR controller is not running.
	HoldControllerFailed HoldReason = "ControllerFailed"
	// HoldSatellitesFailed: satellites do not start.
	HoldSatellitesFailed HoldReason = "SatellitesFailed"
	// HoldNodeRegistrationFailed: LINSTOR rejects nodes.
	HoldNodeRegistrationFailed HoldReason = "NodeRegistrationFailed"
	// HoldSatelliteVersionMismatch: satellites and the controller run different versions.
	HoldSatelliteVersionMismatch HoldReason = "SatelliteVersionMismatch"
	// HoldPoolBackendMissing: a volume group, thin pool, zpool or directory cannot be used.
	HoldPoolBackendMissing HoldReason = "PoolBackendMissing"
	// HoldDeviceMissing: no disk matches the spec.
	HoldDeviceMissing HoldReason = "DeviceMissing"
	// HoldStoragePoolsFailed: pools cannot be created.
	HoldStoragePoolsFailed HoldReason = "StoragePoolsFailed"
	// HoldVolumeDriverFailed: the CSI driver does not start, or is not registered on nodes.
	HoldVolumeDriverFailed HoldReason = "VolumeDriverFailed"
	// HoldForeignDriverFound: another installation is already running the LINSTOR CSI driver.
	HoldForeignDriverFound HoldReason = "ForeignDriverFound"
	// HoldCanaryFailed: a test volume cannot be provisioned, attached, mounted, used or deleted.
	HoldCanaryFailed HoldReason = "CanaryFailed"
	// HoldNoMatchingNodes: spec.nodes selects no nodes.
	HoldNoMatchingNodes HoldReason = "NoMatchingNodes"
	// HoldMassFailure: many nodes failed at once; destructive steps require approval.
	HoldMassFailure HoldReason = "MassFailure"
	// HoldTooManyNodesLeaving: many nodes are leaving at once.
	HoldTooManyNodesLeaving HoldReason = "TooManyNodesLeaving"
	// HoldEvacuationStuck: the evacuation of a leaving node makes no progress.
	HoldEvacuationStuck HoldReason = "EvacuationStuck"
	// HoldEtcdStuck: a step for etcd has no effect, or the requested version or number of members is not possible.
	HoldEtcdStuck HoldReason = "EtcdStuck"
	// HoldEtcdMemberDown: an etcd member has been unreachable for a long time.
	HoldEtcdMemberDown HoldReason = "EtcdMemberDown"
	// HoldEtcdUnreachable: the operator cannot reach etcd, although its members are ready.
	HoldEtcdUnreachable HoldReason = "EtcdUnreachable"
	// HoldEtcdNoSpace: etcd's database is full.
	HoldEtcdNoSpace HoldReason = "EtcdNoSpace"
	// HoldUpgradeBlocked: the state of the cluster does not allow an upgrade.
	HoldUpgradeBlocked HoldReason = "UpgradeBlocked"
	// HoldUpgradeStuck: an upgrade makes no progress.
	HoldUpgradeStuck HoldReason = "UpgradeStuck"

	// Answer reasons: the hold can only be resumed by annotation. A change of the spec never approves access to data.

	// HoldSecureBootKeyMissing: Secure Boot rejects the kernel module.
	HoldSecureBootKeyMissing HoldReason = "SecureBootKeyMissing"
	// HoldForeignLinstorFound: the database belongs to a different LINSTOR cluster.
	HoldForeignLinstorFound HoldReason = "ForeignLinstorFound"
	// HoldKubernetesRestored: the Kubernetes state is older than LINSTOR's, because the Kubernetes etcd was restored from
	// a backup.
	HoldKubernetesRestored HoldReason = "KubernetesRestored"
	// HoldDeviceNotEmpty: a matching disk contains data.
	HoldDeviceNotEmpty HoldReason = "DeviceNotEmpty"
	// HoldVolumesUnknown: a deletion is waiting, because it is unknown whether volumes exist.
	HoldVolumesUnknown HoldReason = "VolumesUnknown"
	// HoldLastReplicaAtRisk: a leaving node has the last up-to-date replica of a volume.
	HoldLastReplicaAtRisk HoldReason = "LastReplicaAtRisk"
	// HoldDeviceApproval: empty disks require approval before they are used.
	HoldDeviceApproval HoldReason = "DeviceApproval"
	// HoldPoolBackendLost: the volume group, zpool or disks of an existing pool are missing.
	HoldPoolBackendLost HoldReason = "PoolBackendLost"
	// HoldMachineReplaced: a different machine uses the name of a registered node.
	HoldMachineReplaced HoldReason = "MachineReplaced"
	// HoldBackupTooOld: the database must be backed up before an upgrade.
	HoldBackupTooOld HoldReason = "BackupTooOld"
	// HoldRestoreRequested: a backup has been compared with the nodes; overwriting LINSTOR's database with it requires
	// approval.
	HoldRestoreRequested HoldReason = "RestoreRequested"
	// HoldRestoreFailed: a backup cannot be compared or imported, and LINSTOR is stopped.
	HoldRestoreFailed HoldReason = "RestoreFailed"
	// HoldMigrationFailed: LINSTOR's data cannot be moved to another database.
	HoldMigrationFailed HoldReason = "MigrationFailed"
	// HoldNodeGone: a deleted node with replicas has not returned.
	HoldNodeGone HoldReason = "NodeGone"
	// HoldEtcdQuorumLost: most etcd members are unreachable.
	HoldEtcdQuorumLost HoldReason = "EtcdQuorumLost"
	// HoldEtcdMembersChanged: etcd members were added or removed, but not by the operator.
	HoldEtcdMembersChanged HoldReason = "EtcdMembersChanged"
	// HoldEtcdCorruptAlarm: the contents of etcd members differ.
	HoldEtcdCorruptAlarm HoldReason = "EtcdCorruptAlarm"
	// HoldEtcdOtherCluster: members belong to an etcd cluster other than the recorded one.
	HoldEtcdOtherCluster HoldReason = "EtcdOtherCluster"
	// HoldEtcdNotesLost: nodes have traces of etcd members, but the operator has no record of any member.
	HoldEtcdNotesLost HoldReason = "EtcdNotesLost"

	// Revert reasons: the hold is resolved once the change is reverted or corrected.

	// HoldUnsupportedChange: the spec requests a change that is not possible.
	HoldUnsupportedChange HoldReason = "UnsupportedChange"
	// HoldPoolConflict: two entries claim the same pool, disk or backing storage.
	HoldPoolConflict HoldReason = "PoolConflict"
	// HoldOperationFailed: a phase makes no progress because of errors.
	HoldOperationFailed HoldReason = "OperationFailed"
)

// Options of holds. Package holdkind describes the effect of each option for each reason.
const (
	OptionRetry           = "retry"
	OptionSkip            = "skip"
	OptionAdopt           = "adopt"
	OptionReplace         = "replace"
	OptionDeclareLost     = "declare-lost"
	OptionUseExisting     = "use-existing"
	OptionApprove         = "approve"
	OptionRecreate        = "recreate"
	OptionSkipChecks      = "skip-checks"
	OptionBackupConfirmed = "backup-confirmed"
	OptionContinue        = "continue"
	OptionAbandon         = "abandon"
	OptionRestore         = "restore"
	OptionRestoreAnyway   = "restore-with-differences"
	OptionMigrate         = "migrate"
	OptionRollBack        = "roll-back"
	OptionForsake         = "forsake"
	OptionForce           = "force"
)

// UnmarshalJSON also accepts an option in the form of a string, as earlier versions of the operator stored it. If the
// status could not be parsed, the operator could not read the object at all.
func (o *HoldOption) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &o.Answer)
	}
	type plain HoldOption
	return json.Unmarshal(data, (*plain)(o))
}
