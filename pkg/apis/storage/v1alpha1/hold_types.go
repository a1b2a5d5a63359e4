package v1alpha1

import "encoding/json"

// HoldReason says why a hold began.
type HoldReason string

// Reasons of holds. Each has a page in docs/runbooks.
const (
	// Clearing reasons end by themselves when the evidence comes back.

	// HoldKernelModuleFailed: DRBD cannot be loaded.
	HoldKernelModuleFailed HoldReason = "KernelModuleFailed"
	// HoldSigningKeyUnusable: the Secret with the key that signs the kernel module is missing or lacks a key.
	HoldSigningKeyUnusable HoldReason = "SigningKeyUnusable"
	// HoldDatabaseUnreachable: LINSTOR's database does not answer.
	HoldDatabaseUnreachable HoldReason = "DatabaseUnreachable"
	// HoldPassphraseUnusable: the master passphrase is missing, or is another one.
	HoldPassphraseUnusable HoldReason = "PassphraseUnusable"
	// HoldControllerFailed: the LINSTOR controller does not run.
	HoldControllerFailed HoldReason = "ControllerFailed"
	// HoldSatellitesFailed: satellites do not start.
	HoldSatellitesFailed HoldReason = "SatellitesFailed"
	// HoldNodeRegistrationFailed: LINSTOR does not take nodes.
	HoldNodeRegistrationFailed HoldReason = "NodeRegistrationFailed"
	// HoldSatelliteVersionMismatch: satellites have another version than the controller.
	HoldSatelliteVersionMismatch HoldReason = "SatelliteVersionMismatch"
	// HoldPoolBackendMissing: a volume group, thin pool, zpool or directory cannot be used.
	HoldPoolBackendMissing HoldReason = "PoolBackendMissing"
	// HoldDeviceMissing: no disk matches.
	HoldDeviceMissing HoldReason = "DeviceMissing"
	// HoldStoragePoolsFailed: pools cannot be made.
	HoldStoragePoolsFailed HoldReason = "StoragePoolsFailed"
	// HoldVolumeDriverFailed: the CSI driver does not start, or nodes do not take it.
	HoldVolumeDriverFailed HoldReason = "VolumeDriverFailed"
	// HoldForeignDriverFound: somebody else runs LINSTOR's CSI driver.
	HoldForeignDriverFound HoldReason = "ForeignDriverFound"
	// HoldCanaryFailed: a volume cannot be made, attached, mounted, used or removed.
	HoldCanaryFailed HoldReason = "CanaryFailed"
	// HoldNoMatchingNodes: spec.nodes selects no node.
	HoldNoMatchingNodes HoldReason = "NoMatchingNodes"
	// HoldMassFailure: many nodes failed at once, and whatever destroys something waits for a human to look.
	HoldMassFailure HoldReason = "MassFailure"
	// HoldTooManyNodesLeaving: many nodes leave at once.
	HoldTooManyNodesLeaving HoldReason = "TooManyNodesLeaving"
	// HoldEvacuationStuck: a leaving node's data does not move.
	HoldEvacuationStuck HoldReason = "EvacuationStuck"
	// HoldEtcdStuck: a step for etcd has no effect, or its version or number of members cannot be had.
	HoldEtcdStuck HoldReason = "EtcdStuck"
	// HoldEtcdMemberDown: a member of etcd is away for long.
	HoldEtcdMemberDown HoldReason = "EtcdMemberDown"
	// HoldEtcdUnreachable: the operator does not reach etcd, whose members are ready.
	HoldEtcdUnreachable HoldReason = "EtcdUnreachable"
	// HoldEtcdNoSpace: etcd's database is full.
	HoldEtcdNoSpace HoldReason = "EtcdNoSpace"
	// HoldUpgradeBlocked: the cluster is not fit for an upgrade.
	HoldUpgradeBlocked HoldReason = "UpgradeBlocked"
	// HoldUpgradeStuck: an upgrade makes no progress.
	HoldUpgradeStuck HoldReason = "UpgradeStuck"

	// Answer reasons end only with the token: a change of the spec is never consent to touch data.

	// HoldSecureBootKeyMissing: Secure Boot refuses the kernel module.
	HoldSecureBootKeyMissing HoldReason = "SecureBootKeyMissing"
	// HoldForeignLinstorFound: the database belongs to another LINSTOR.
	HoldForeignLinstorFound HoldReason = "ForeignLinstorFound"
	// HoldKubernetesRestored: LINSTOR is of a later time than Kubernetes, whose etcd was restored from a backup.
	HoldKubernetesRestored HoldReason = "KubernetesRestored"
	// HoldDeviceNotEmpty: a disk that matches carries data.
	HoldDeviceNotEmpty HoldReason = "DeviceNotEmpty"
	// HoldVolumesUnknown: a deletion does not know whether volumes exist.
	HoldVolumesUnknown HoldReason = "VolumesUnknown"
	// HoldLastReplicaAtRisk: a leaving node holds the last good copy of a volume.
	HoldLastReplicaAtRisk HoldReason = "LastReplicaAtRisk"
	// HoldDeviceApproval: empty disks wait for approval.
	HoldDeviceApproval HoldReason = "DeviceApproval"
	// HoldPoolBackendLost: what a pool is made of was there and is gone.
	HoldPoolBackendLost HoldReason = "PoolBackendLost"
	// HoldMachineReplaced: another machine has the name of a registered node.
	HoldMachineReplaced HoldReason = "MachineReplaced"
	// HoldBackupTooOld: the database needs a backup before an upgrade.
	HoldBackupTooOld HoldReason = "BackupTooOld"
	// HoldRestoreRequested: a backup was compared with the nodes, and waits for consent to replace LINSTOR's database.
	HoldRestoreRequested HoldReason = "RestoreRequested"
	// HoldRestoreFailed: a backup cannot be compared or imported, and LINSTOR is stopped.
	HoldRestoreFailed HoldReason = "RestoreFailed"
	// HoldMigrationFailed: LINSTOR's data cannot be moved into another database.
	HoldMigrationFailed HoldReason = "MigrationFailed"
	// HoldNodeGone: a deleted node that holds copies does not come back.
	HoldNodeGone HoldReason = "NodeGone"
	// HoldEtcdQuorumLost: most members of etcd are away.
	HoldEtcdQuorumLost HoldReason = "EtcdQuorumLost"
	// HoldEtcdMembersChanged: somebody else has added or removed members of etcd.
	HoldEtcdMembersChanged HoldReason = "EtcdMembersChanged"
	// HoldEtcdCorruptAlarm: the contents of etcd's members differ.
	HoldEtcdCorruptAlarm HoldReason = "EtcdCorruptAlarm"
	// HoldEtcdOtherCluster: members are of another etcd than is noted.
	HoldEtcdOtherCluster HoldReason = "EtcdOtherCluster"
	// HoldEtcdNotesLost: nodes have something of members of etcd, and no member is noted.
	HoldEtcdNotesLost HoldReason = "EtcdNotesLost"

	// Revert reasons end when the change is taken back or corrected.

	// HoldUnsupportedChange: the spec asks for a change that cannot be done.
	HoldUnsupportedChange HoldReason = "UnsupportedChange"
	// HoldPoolConflict: two entries claim one pool, one disk or one backing.
	HoldPoolConflict HoldReason = "PoolConflict"
	// HoldOperationFailed: a phase makes no progress because of errors.
	HoldOperationFailed HoldReason = "OperationFailed"
)

// Options of holds. What each of them does is said with the reason, in package holdkind.
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

// UnmarshalJSON also reads an option that is nothing but its word, as operators wrote it before options said what they do.
// A status that cannot be read would stop the operator from seeing the object at all.
func (o *HoldOption) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &o.Answer)
	}
	type plain HoldOption
	return json.Unmarshal(data, (*plain)(o))
}
