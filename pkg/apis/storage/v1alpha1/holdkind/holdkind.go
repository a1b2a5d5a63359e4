// Package holdkind is all that is known beforehand of each reason of a hold: what ends it, what it stops, how it
// grows, and the answers that it takes.
package holdkind

import (
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Class says what ends a hold.
type Class string

// Classes of holds.
const (
	// Clearing ends when the evidence comes back, with a change of the spec, or with the token.
	Clearing Class = "Clearing"
	// Answer ends only with the token.
	Answer Class = "Answer"
	// Revert ends with a change of the spec, or with the token where an option exists.
	Revert Class = "Revert"
)

// Scope says what a hold stops.
type Scope string

// Scopes of holds.
const (
	// ScopeCluster: the whole cluster, and nothing less.
	ScopeCluster Scope = ""
	// ScopePool: a pool on the nodes that the hold lists; the cluster as well, when too few other nodes are left.
	ScopePool Scope = "Pool"
	// ScopeNodes: something about the nodes that the hold lists, never the cluster.
	ScopeNodes Scope = "Nodes"
)

// Growth says what becomes of a hold of nodes when further nodes get into the same trouble.
type Growth string

// Ways in which holds of nodes grow. An answer counts for what the hold listed when it was read, so that a hold of
// which an answer decides about data must not take in a node under the id that somebody is typing.
const (
	// GrowsNever: each node is a question of its own. Further nodes get a hold of their own, and the id of the first
	// stays good for the nodes that it lists.
	GrowsNever Growth = ""
	// GrowsAnew: the question is about all the nodes together. With one more it is another question, with another id.
	GrowsAnew Growth = "Anew"
	// GrowsOn: the hold takes in further nodes. Its answers decide about no data on a node.
	GrowsOn Growth = "On"
)

// Kind is what is known of a reason.
type Kind struct {
	Reason v1alpha1.HoldReason
	Class  Class
	Scope  Scope
	Growth Growth
	// ListsDisks reports whether the hold asks about the disks that it lists. Another list is another hold.
	ListsDisks bool
	// ListsMachines reports whether an answer is for the machines that the nodes of the hold are then.
	ListsMachines bool
	// Maintains reports whether the accepted spec is kept true during a hold of the cluster: what somebody removed is put
	// back, and nodes that join are taken in. It is, where the question is about something else: a spec that was
	// refused, a pool, or how single nodes fare. It is not while it is in doubt whose the database is, where an
	// upgrade has stopped, or where the operator's own writes are what fails.
	Maintains bool
	// Options are the answers that the resume annotation may give, the safest first; of DeviceApproval, the one that
	// is asked for.
	Options []v1alpha1.HoldOption
	// Special are those of them that a hold has only if it is said to: not every hold of the reason has that way out.
	Special []string
}

type options = []v1alpha1.HoldOption

// Options that do the same for several reasons.
var (
	retry   = option(v1alpha1.OptionRetry, "looks again; a new hold begins if the cause is still there")
	abandon = option(v1alpha1.OptionAbandon, "starts LINSTOR on its database as it is, and restores nothing")
	goBack  = option(v1alpha1.OptionRollBack,
		"stops LINSTOR, asks once more, then restores the backup from before the upgrade and starts the older LINSTOR on it")
	again   = option(v1alpha1.OptionRetry, "tries all again that was tried for etcd")
	forsake = option(v1alpha1.OptionForsake,
		"gives up the member on the named node; another one comes in its place, and the data stays there")
	adoptNotes = option(v1alpha1.OptionAdopt,
		"makes the notes about members anew, of what nodes and etcd itself have")
	skip = option(v1alpha1.OptionSkip,
		"goes on without this pool on the listed nodes, for this entry and the disks that match it now")
)

func option(answer, does string) v1alpha1.HoldOption {
	return v1alpha1.HoldOption{Answer: answer, Does: does}
}

// kinds has one row for each reason: all that is known of it beforehand.
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
		option(v1alpha1.OptionRetry, "deletes the claim and the pod of the try, and tries again"),
		option(v1alpha1.OptionSkip, "goes on without it until LINSTOR, its driver or the StorageClass changes"),
	}},
	{Reason: v1alpha1.HoldNoMatchingNodes, Class: Clearing, Options: options{retry}},
	{Reason: v1alpha1.HoldMassFailure, Class: Clearing, Scope: ScopeNodes, Growth: GrowsAnew, Options: options{
		option(v1alpha1.OptionContinue, "goes on as the spec says although these nodes are down"),
	}},
	{Reason: v1alpha1.HoldTooManyNodesLeaving, Class: Clearing, Scope: ScopeNodes, Growth: GrowsAnew, Options: options{
		retry,
		option(v1alpha1.OptionContinue, "lets the listed nodes leave, and no others"),
	}},
	{Reason: v1alpha1.HoldEvacuationStuck, Class: Clearing, Scope: ScopeNodes, Growth: GrowsOn, Options: options{
		option(v1alpha1.OptionRetry, "lets LINSTOR evacuate the nodes anew"),
	}},
	{Reason: v1alpha1.HoldUpgradeBlocked, Class: Clearing, Options: options{
		option(v1alpha1.OptionRetry, "waits once more for the cluster to become fit"),
		option(v1alpha1.OptionSkipChecks, "upgrades in spite of what the hold lists (identities), and of nothing else"),
	}},
	{Reason: v1alpha1.HoldUpgradeStuck, Class: Clearing, Options: options{
		option(v1alpha1.OptionRetry, "waits once more for the step to go on"),
		option(v1alpha1.OptionSkipChecks,
			"goes on with the next step without what the hold lists (identities): a readable backup, or nodes"),
		goBack,
	}, Special: []string{v1alpha1.OptionRollBack}},
	{Reason: v1alpha1.HoldBackupTooOld, Class: Answer, Options: options{
		option(v1alpha1.OptionRetry, "asks again"),
		option(v1alpha1.OptionBackupConfirmed, "upgrades: you have made a backup of the database; counts for a day"),
	}},
	{Reason: v1alpha1.HoldRestoreRequested, Class: Answer, Options: options{
		abandon,
		option(v1alpha1.OptionRestore, "replaces LINSTOR's database by the backup; what was done since is lost to LINSTOR"),
		option(v1alpha1.OptionRestoreAnyway,
			"does the same although the nodes differ: LINSTOR makes anew, empty, what is Absent, and cuts what is Larger"),
	}},
	{Reason: v1alpha1.HoldRestoreFailed, Class: Answer, Options: options{
		option(v1alpha1.OptionRetry, "tries again from the step that failed; an import begins anew"),
		abandon,
	}},
	{Reason: v1alpha1.HoldMigrationFailed, Class: Answer, Options: options{
		option(v1alpha1.OptionRetry, "tries again, from the start"),
		option(v1alpha1.OptionAbandon, "starts LINSTOR on the database that it has, and moves nothing"),
	}},
	{Reason: v1alpha1.HoldSecureBootKeyMissing, Class: Answer, Maintains: true, Options: options{retry}},
	{Reason: v1alpha1.HoldForeignLinstorFound, Class: Answer, Options: options{
		retry,
		option(v1alpha1.OptionAdopt,
			"takes over the data that is in the database; LINSTOR migrates it, which cannot be undone"),
	}},
	{Reason: v1alpha1.HoldKubernetesRestored, Class: Answer, Options: options{
		option(v1alpha1.OptionRetry, "looks again, and starts a LINSTOR that is stopped"),
		option(v1alpha1.OptionContinue, "goes on with Kubernetes and LINSTOR as they are now: the spec is carried out"),
	}, Special: []string{v1alpha1.OptionContinue}},
	{Reason: v1alpha1.HoldDeviceNotEmpty, Class: Answer, Scope: ScopePool, Maintains: true, Options: options{
		option(v1alpha1.OptionRetry, "looks again and uses disks that are empty now; a new hold begins for the others"),
		skip,
		option(v1alpha1.OptionUseExisting,
			"registers the volume group or zpool of the spec as it is on the disks; formats nothing"),
	}},
	{Reason: v1alpha1.HoldDeviceApproval, Class: Answer, Scope: ScopePool,
		ListsDisks: true, Maintains: true, Options: options{
			option(v1alpha1.OptionApprove, "makes the pool from the listed disks and no others, which overwrites them"),
			skip,
		}},
	{Reason: v1alpha1.HoldPoolBackendLost, Class: Answer, Scope: ScopePool,
		ListsDisks: true, Maintains: true, Options: options{
			retry,
			option(v1alpha1.OptionRecreate,
				"makes the pool anew, empty, from the listed disks and no others, which overwrites them"),
		}},
	{Reason: v1alpha1.HoldVolumesUnknown, Class: Answer, Options: options{
		retry,
		option(v1alpha1.OptionContinue,
			"removes the workloads although volumes may exist; their data stays on the disks, unmanaged"),
	}},
	{Reason: v1alpha1.HoldLastReplicaAtRisk, Class: Answer, Scope: ScopeNodes, Growth: GrowsOn, Options: options{
		option(v1alpha1.OptionRetry, "looks again, and moves the copies if there is a place for them"),
	}},
	{Reason: v1alpha1.HoldMachineReplaced, Class: Answer, Scope: ScopeNodes, ListsMachines: true, Options: options{
		retry,
		option(v1alpha1.OptionAdopt, "makes the new machine the registered one; its pools and copies are used as they are"),
		option(v1alpha1.OptionReplace,
			"forgets the first machine in LINSTOR with all its copies and the snapshots that the message names, and registers "+
				"the node anew"),
	}},
	{Reason: v1alpha1.HoldNodeGone, Class: Answer, Scope: ScopeNodes, Options: options{
		retry,
		option(v1alpha1.OptionDeclareLost,
			"forgets the listed nodes in LINSTOR with all their copies and the snapshots that the message names"),
	}},
	{Reason: v1alpha1.HoldEtcdStuck, Class: Clearing, Maintains: true, Options: options{again, forsake},
		Special: []string{v1alpha1.OptionForsake}},
	{Reason: v1alpha1.HoldEtcdMemberDown, Class: Clearing, Maintains: true, Options: options{again, forsake}},
	{Reason: v1alpha1.HoldEtcdUnreachable, Class: Clearing, Maintains: true, Options: options{again}},
	{Reason: v1alpha1.HoldEtcdNoSpace, Class: Clearing, Options: options{again}},
	{Reason: v1alpha1.HoldEtcdQuorumLost, Class: Answer, Options: options{again, adoptNotes,
		option(v1alpha1.OptionForce, "makes a new cluster of the data of the member on the one node that is named, and "+
			"drops what is not there")}},
	{Reason: v1alpha1.HoldEtcdMembersChanged, Class: Answer, Options: options{again, adoptNotes, forsake}},
	{Reason: v1alpha1.HoldEtcdCorruptAlarm, Class: Answer, Options: options{again, forsake}},
	{Reason: v1alpha1.HoldEtcdOtherCluster, Class: Answer, Options: options{again, adoptNotes}},
	{Reason: v1alpha1.HoldEtcdNotesLost, Class: Answer, Options: options{again, adoptNotes}},
	{Reason: v1alpha1.HoldUnsupportedChange, Class: Revert, Maintains: true, Options: options{
		option(v1alpha1.OptionRetry, "judges the same spec again; a corrected one needs no answer"),
		option(v1alpha1.OptionMigrate, "moves LINSTOR's data into the database of the spec; LINSTOR is stopped meanwhile"),
	}, Special: []string{v1alpha1.OptionMigrate}},
	{Reason: v1alpha1.HoldPoolConflict, Class: Revert, Maintains: true, Options: options{retry}},
	{Reason: v1alpha1.HoldOperationFailed, Class: Revert, Options: options{retry, goBack},
		Special: []string{v1alpha1.OptionRollBack}},
}

// All lists what is known of every reason.
func All() []Kind { return slices.Clone(kinds) }

// Of is what is known of a reason; of an unknown one, that only the token ends it.
func Of(r v1alpha1.HoldReason) Kind {
	if i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Reason == r }); i >= 0 {
		return kinds[i]
	}
	return Kind{Reason: r, Class: Answer, Options: options{retry}}
}

// Answers are options by their words.
func Answers(options []v1alpha1.HoldOption) []string {
	out := make([]string, 0, len(options))
	for _, o := range options {
		out = append(out, o.Answer)
	}
	return out
}

// Follows reports whether a hold of the cluster takes in further nodes under its id, and lets go of those that got out
// of the trouble: its only answer is to look again, which decides about no node.
func Follows(r v1alpha1.HoldReason, answers []string) bool {
	return Of(r).Class == Clearing && slices.Equal(answers, []string{v1alpha1.OptionRetry})
}
