// Package holdkind describes each reason for a hold: what ends the hold, what it stops, how it grows, and which
// options it has.
package holdkind

import (
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Class is what ends a hold.
type Class string

// Classes of holds.
const (
	// Clearing holds end when the problem is gone, with a change of the spec, or with the resume annotation.
	Clearing Class = "Clearing"
	// Answer holds end only with the resume annotation.
	Answer Class = "Answer"
	// Revert holds end with a change of the spec, or with the resume annotation if an option exists.
	Revert Class = "Revert"
)

// Scope is what a hold stops.
type Scope string

// Scopes of holds.
const (
	// ScopeCluster: the whole cluster.
	ScopeCluster Scope = ""
	// ScopePool: a pool on the nodes that the hold lists; also the cluster, if too few other nodes remain.
	ScopePool Scope = "Pool"
	// ScopeNodes: work on the nodes that the hold lists, never the cluster.
	ScopeNodes Scope = "Nodes"
)

// Growth is what happens to a hold of nodes when further nodes have the same problem.
type Growth string

// Ways in which holds of nodes grow. An approval applies to what the hold listed when the administrator read it. A
// hold with an option that affects data must therefore never add a node under the same id.
const (
	// GrowsNever: each node is decided separately. Further nodes get a separate hold, and the id of the first hold
	// remains valid for the nodes that it lists.
	GrowsNever Growth = ""
	// GrowsAnew: the decision is for all the nodes together. When a node is added, a new hold with a new id replaces the
	// hold.
	GrowsAnew Growth = "Anew"
	// GrowsOn: further nodes are added to the hold. None of its options affects data on a node.
	GrowsOn Growth = "On"
)

// Kind describes a reason for a hold.
type Kind struct {
	Reason v1alpha1.HoldReason
	Class  Class
	Scope  Scope
	Growth Growth
	// ListsDisks is true if the hold requires approval of the disks that it lists. A different list is a different hold.
	ListsDisks bool
	// ListsMachines is true if an approval applies only to the machines that the nodes of the hold are at that time.
	ListsMachines bool
	// Maintains is true if the operator continues to apply the accepted spec during a hold of the cluster: it recreates
	// removed objects and adds joining nodes. This is the case if the hold concerns something else: a rejected spec, a
	// pool, or the state of individual nodes. It is not the case while the owner of the database is unclear, while an
	// upgrade is stopped, or while the operator's own writes fail.
	Maintains bool
	// Options are the options that the resume annotation may contain, the safest first; for DeviceApproval, the requested
	// one first.
	Options []v1alpha1.HoldOption
	// Special are the options that only some holds of the reason have.
	Special []string
}

type options = []v1alpha1.HoldOption

// Options that have the same effect for several reasons.
var (
	retry   = option(v1alpha1.OptionRetry, "checks again; a new hold opens if the problem persists")
	abandon = option(v1alpha1.OptionAbandon, "starts LINSTOR against its current database; restores nothing")
	goBack  = option(v1alpha1.OptionRollBack,
		"stops LINSTOR and, after a second approval, restores the pre-upgrade backup and starts the previous LINSTOR "+
			"version")
	again   = option(v1alpha1.OptionRetry, "retries all etcd recovery steps")
	forsake = option(v1alpha1.OptionForsake,
		"removes the etcd member on the named node and adds a new one in its place; the old data remains on that node")
	adoptNotes = option(v1alpha1.OptionAdopt,
		"rebuilds the operator's etcd member records from the nodes and from etcd's own member list")
	skip = option(v1alpha1.OptionSkip,
		"continues without this pool on the listed nodes until the pool's spec entry changes or another disk matches")
)

func option(answer, does string) v1alpha1.HoldOption {
	return v1alpha1.HoldOption{Answer: answer, Does: does}
}

// kinds has one row for each reason.
var kinds = []Kind{
	{Reason: v1alpha1.HoldKernelModuleFailed, Class: Clearing, Maintains: true, Options: options{retry}},
	{Reason: v1alpha1.HoldSigningKeyUnusable, Class: Clearing, Maintains: true, Options: options{retry}},
	{Reason: v1alpha1.HoldDatabaseUnreachable, Class: Clearing, Options: options{retry, goBack},
		Special: []string{v1alpha1.OptionRollBack}},
	{Reason: v1alpha1.HoldPassphraseUnusable, Class: Clearing, Options: options{retry, goBack},
		Special: []string{v1alpha1.OptionRollBack}},
	{Reason: v1alpha1.HoldControllerFailed, Class: Clearing, Options: options{retry, goBack},
		Special: []string{v1alpha1.OptionRollBack}},
	{Reason: v1alpha1.HoldSatellitesFailed, Class: Clearing, Options: options{retry, goBack},
		Special: []string{v1alpha1.OptionRollBack}},
	{Reason: v1alpha1.HoldNodeRegistrationFailed, Class: Clearing, Maintains: true, Options: options{retry}},
	{Reason: v1alpha1.HoldSatelliteVersionMismatch, Class: Clearing, Maintains: true, Options: options{retry}},
	{Reason: v1alpha1.HoldPoolBackendMissing, Class: Clearing, Maintains: true, Options: options{retry}},
	{Reason: v1alpha1.HoldDeviceMissing, Class: Clearing, Maintains: true, Options: options{retry, skip}},
	{Reason: v1alpha1.HoldStoragePoolsFailed, Class: Clearing, Maintains: true, Options: options{retry}},
	{Reason: v1alpha1.HoldVolumeDriverFailed, Class: Clearing, Maintains: true, Options: options{retry}},
	{Reason: v1alpha1.HoldForeignDriverFound, Class: Clearing, Maintains: true, Options: options{retry}},
	{Reason: v1alpha1.HoldCanaryFailed, Class: Clearing, Maintains: true, Options: options{
		option(v1alpha1.OptionRetry, "deletes the test claim and pod, then tests again"),
		option(v1alpha1.OptionSkip, "skips this test until LINSTOR, the CSI driver or the StorageClass changes"),
	}},
	{Reason: v1alpha1.HoldNoMatchingNodes, Class: Clearing, Options: options{retry}},
	{Reason: v1alpha1.HoldMassFailure, Class: Clearing, Scope: ScopeNodes, Growth: GrowsAnew, Options: options{
		option(v1alpha1.OptionContinue, "resumes evacuation, removal and restarts even though these nodes are down"),
	}},
	{Reason: v1alpha1.HoldTooManyNodesLeaving, Class: Clearing, Scope: ScopeNodes, Growth: GrowsAnew, Options: options{
		retry,
		option(v1alpha1.OptionContinue, "applies spec.nodes.removalPolicy to the listed nodes only"),
	}},
	{Reason: v1alpha1.HoldEvacuationStuck, Class: Clearing, Scope: ScopeNodes, Growth: GrowsOn, Options: options{
		option(v1alpha1.OptionRetry, "restarts the evacuation of these nodes"),
	}},
	{Reason: v1alpha1.HoldUpgradeBlocked, Class: Clearing, Options: options{
		option(v1alpha1.OptionRetry, "checks again, and waits until nothing blocks the upgrade"),
		option(v1alpha1.OptionSkipChecks,
			"upgrades despite the problems listed under identities; any other problem still blocks the upgrade"),
	}},
	{Reason: v1alpha1.HoldUpgradeStuck, Class: Clearing, Options: options{
		option(v1alpha1.OptionRetry, "waits again for this step to complete"),
		option(v1alpha1.OptionSkipChecks,
			"continues with the next step without the nodes or the backup listed under identities"),
		goBack,
	}, Special: []string{v1alpha1.OptionRollBack}},
	{Reason: v1alpha1.HoldBackupTooOld, Class: Answer, Options: options{
		option(v1alpha1.OptionRetry, "checks again; a new hold opens if a backup is still missing"),
		option(v1alpha1.OptionBackupConfirmed,
			"confirms that you have backed up the database, and upgrades; valid for 24 hours"),
	}},
	{Reason: v1alpha1.HoldRestoreRequested, Class: Answer, Options: options{
		abandon,
		option(v1alpha1.OptionRestore,
			"overwrites LINSTOR's database with the backup; all changes made since are lost; cannot be undone"),
		option(v1alpha1.OptionRestoreAnyway,
			"restores despite the differences: LINSTOR recreates Absent volumes EMPTY and TRUNCATES Larger thin files"),
	}},
	{Reason: v1alpha1.HoldRestoreFailed, Class: Answer, Options: options{
		option(v1alpha1.OptionRetry, "continues from the failed step; an import starts over"),
		abandon,
	}},
	{Reason: v1alpha1.HoldMigrationFailed, Class: Answer, Options: options{
		option(v1alpha1.OptionRetry, "restarts the move from the beginning"),
		option(v1alpha1.OptionAbandon, "starts LINSTOR against its current database; moves nothing"),
	}},
	{Reason: v1alpha1.HoldSecureBootKeyMissing, Class: Answer, Maintains: true, Options: options{retry}},
	{Reason: v1alpha1.HoldForeignLinstorFound, Class: Answer, Options: options{
		retry,
		option(v1alpha1.OptionAdopt,
			"takes over the existing database; LINSTOR migrates its data, which cannot be undone"),
	}},
	{Reason: v1alpha1.HoldKubernetesRestored, Class: Answer, Options: options{
		option(v1alpha1.OptionRetry, "checks again, and starts LINSTOR if it was stopped"),
		option(v1alpha1.OptionContinue, "accepts the current state of Kubernetes and LINSTOR, and applies the spec to it"),
	}, Special: []string{v1alpha1.OptionContinue}},
	{Reason: v1alpha1.HoldDeviceNotEmpty, Class: Answer, Scope: ScopePool, Maintains: true, Options: options{
		option(v1alpha1.OptionRetry, "checks again and uses the disks that are now empty; a new hold opens for the others"),
		skip,
		option(v1alpha1.OptionUseExisting,
			"registers the existing volume group or zpool named in the spec; formats nothing"),
	}},
	{Reason: v1alpha1.HoldDeviceApproval, Class: Answer, Scope: ScopePool,
		ListsDisks: true, Maintains: true, Options: options{
			option(v1alpha1.OptionApprove, "creates the pool on the listed disks only and OVERWRITES them; cannot be undone"),
			skip,
		}},
	{Reason: v1alpha1.HoldPoolBackendLost, Class: Answer, Scope: ScopePool,
		ListsDisks: true, Maintains: true, Options: options{
			retry,
			option(v1alpha1.OptionRecreate,
				"recreates the pool EMPTY on the listed disks only and OVERWRITES them; cannot be undone"),
		}},
	{Reason: v1alpha1.HoldVolumesUnknown, Class: Answer, Options: options{
		retry,
		option(v1alpha1.OptionContinue,
			"deletes the workloads even though volumes may exist; their data remains on the disks, unmanaged"),
	}},
	{Reason: v1alpha1.HoldLastReplicaAtRisk, Class: Answer, Scope: ScopeNodes, Growth: GrowsOn, Options: options{
		option(v1alpha1.OptionRetry, "checks again, and evacuates the replicas if they fit on other nodes"),
	}},
	{Reason: v1alpha1.HoldMachineReplaced, Class: Answer, Scope: ScopeNodes, ListsMachines: true, Options: options{
		retry,
		option(v1alpha1.OptionAdopt, "registers the new machine; LINSTOR uses its pools and replicas as they are"),
		option(v1alpha1.OptionReplace,
			"removes the old machine, its replicas and the listed snapshots from LINSTOR, and registers the new machine; "+
				"cannot be undone"),
	}},
	{Reason: v1alpha1.HoldNodeGone, Class: Answer, Scope: ScopeNodes, Options: options{
		retry,
		option(v1alpha1.OptionDeclareLost,
			"removes the listed nodes, their replicas and the snapshots named in the message from LINSTOR; cannot be undone"),
	}},
	{Reason: v1alpha1.HoldEtcdStuck, Class: Clearing, Maintains: true, Options: options{again, forsake},
		Special: []string{v1alpha1.OptionForsake}},
	{Reason: v1alpha1.HoldEtcdMemberDown, Class: Clearing, Maintains: true, Options: options{again, forsake}},
	{Reason: v1alpha1.HoldEtcdUnreachable, Class: Clearing, Maintains: true, Options: options{again}},
	{Reason: v1alpha1.HoldEtcdNoSpace, Class: Clearing, Options: options{again}},
	{Reason: v1alpha1.HoldEtcdQuorumLost, Class: Answer, Options: options{again, adoptNotes,
		option(v1alpha1.OptionForce, "starts a new etcd cluster from the data of the member on the named node; writes "+
			"that are missing from this data are lost")}},
	{Reason: v1alpha1.HoldEtcdMembersChanged, Class: Answer, Options: options{again, adoptNotes, forsake}},
	{Reason: v1alpha1.HoldEtcdCorruptAlarm, Class: Answer, Options: options{again, forsake}},
	{Reason: v1alpha1.HoldEtcdOtherCluster, Class: Answer, Options: options{again, adoptNotes}},
	{Reason: v1alpha1.HoldEtcdNotesLost, Class: Answer, Options: options{again, adoptNotes}},
	{Reason: v1alpha1.HoldUnsupportedChange, Class: Revert, Maintains: true, Options: options{
		option(v1alpha1.OptionRetry, "checks the same spec again; a corrected spec needs no approval"),
		option(v1alpha1.OptionMigrate, "stops LINSTOR and moves its data to the database in the spec"),
	}, Special: []string{v1alpha1.OptionMigrate}},
	{Reason: v1alpha1.HoldPoolConflict, Class: Revert, Maintains: true, Options: options{retry}},
	{Reason: v1alpha1.HoldOperationFailed, Class: Revert, Options: options{retry, goBack},
		Special: []string{v1alpha1.OptionRollBack}},
}

// All returns the descriptions of all reasons.
func All() []Kind { return slices.Clone(kinds) }

// Of returns the description of a reason. A hold with an unknown reason ends only with the resume annotation.
func Of(r v1alpha1.HoldReason) Kind {
	if i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Reason == r }); i >= 0 {
		return kinds[i]
	}
	return Kind{Reason: r, Class: Answer, Options: options{retry}}
}

// Answers returns the names of options.
func Answers(options []v1alpha1.HoldOption) []string {
	out := make([]string, 0, len(options))
	for _, o := range options {
		out = append(out, o.Answer)
	}
	return out
}

// Follows reports whether nodes can be added to and removed from a hold of the cluster under the same id: its only
// option is to check again, which decides nothing about a node.
func Follows(r v1alpha1.HoldReason, answers []string) bool {
	return Of(r).Class == Clearing && slices.Equal(answers, []string{v1alpha1.OptionRetry})
}

// Resumed is how the operator reports, in the status and in Events, that an option has ended a hold. kubectl linstor
// resume recognizes its success by these words.
func Resumed(id, option string) string { return "hold " + id + " was resumed with " + option }
