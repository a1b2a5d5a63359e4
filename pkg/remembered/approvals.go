package remembered

import (
	"fmt"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Approval is an answer to a hold that allows what the operator would not do by itself, or waives it. Answers that
// only have it look or try again are none.
type Approval struct {
	Reason v1alpha1.HoldReason
	Option string
	// Covers says what the answer counts for, beside what every hold of the reason counts for. Kept is the key of what is
	// remembered of it; Ends, if that does not say all, what ends it besides.
	Covers, Kept, Ends string
}

// Approvals are all of them, in the order of the holds.
func Approvals() []Approval {
	const (
		rolledBack = "rolledBack"
		theUpgrade = "the upgrade from one version to the other, with the backup that was taken first"
		theEtcd    = "the member on the node that the answer names"
		theCluster = "the cluster of etcd that is noted, and those whose members answer then"
		answers    = etcdmember.Notes + " " + etcdmember.KeyAnswers
	)
	a := func(reason v1alpha1.HoldReason, option, covers, kept, ends string) Approval {
		return Approval{reason, option, covers, kept, ends}
	}
	return []Approval{
		a(v1alpha1.HoldDatabaseUnreachable, v1alpha1.OptionRollBack, theUpgrade, rolledBack, ""),
		a(v1alpha1.HoldPassphraseUnusable, v1alpha1.OptionRollBack, theUpgrade, rolledBack, ""),
		a(v1alpha1.HoldControllerFailed, v1alpha1.OptionRollBack, theUpgrade, rolledBack, ""),
		a(v1alpha1.HoldSatellitesFailed, v1alpha1.OptionRollBack, theUpgrade, rolledBack, ""),
		a(v1alpha1.HoldDeviceMissing, v1alpha1.OptionSkip, "the entry as it is, and the disks that match it", PoolSkip, ""),
		a(v1alpha1.HoldCanaryFailed, v1alpha1.OptionSkip, "the volume as it was tried", "canary",
			"when LINSTOR, its driver or the StorageClass changes"),
		a(v1alpha1.HoldMassFailure, v1alpha1.OptionContinue, "", "conditions",
			"when so many nodes are back that it is no mass failure any more"),
		a(v1alpha1.HoldTooManyNodesLeaving, v1alpha1.OptionContinue, "", LeavingAdmitted, ""),
		a(v1alpha1.HoldUpgradeBlocked, v1alpha1.OptionSkipChecks,
			"the nodes, copies or backup in `status.hold.identities`, in this step", "skippedChecks", ""),
		a(v1alpha1.HoldUpgradeStuck, v1alpha1.OptionSkipChecks,
			"the nodes or backup in `status.hold.identities`, in this step", "skippedChecks", ""),
		a(v1alpha1.HoldUpgradeStuck, v1alpha1.OptionRollBack, theUpgrade, rolledBack, ""),
		a(v1alpha1.HoldBackupTooOld, v1alpha1.OptionBackupConfirmed, "the upgrade from one version to the other",
			"backupConfirmed", ""),
		a(v1alpha1.HoldRestoreRequested, v1alpha1.OptionAbandon, "the requested backup", "restored", ""),
		a(v1alpha1.HoldRestoreRequested, v1alpha1.OptionRestore, "the backup, if it does not differ from the nodes",
			"restoreConfirmed", "when the nodes differ from the backup in another way"),
		a(v1alpha1.HoldRestoreRequested, v1alpha1.OptionRestoreAnyway, "the backup, with the differences that were shown",
			"restoreConfirmed", "when the nodes differ from the backup in another way"),
		a(v1alpha1.HoldRestoreFailed, v1alpha1.OptionAbandon, "the requested backup", "restored", ""),
		a(v1alpha1.HoldMigrationFailed, v1alpha1.OptionAbandon, "the move to that database", "moveTo", ""),
		a(v1alpha1.HoldForeignLinstorFound, v1alpha1.OptionAdopt,
			"the database that the hold names by LINSTOR's `Cluster/LocalID`, or by a digest of its nodes", "adopted",
			"when the database is another one again: that is a new hold"),
		a(v1alpha1.HoldKubernetesRestored, v1alpha1.OptionContinue, "the number of LINSTOR's that the hold names", "epoch",
			"when LINSTOR has a higher number again: that is a new hold"),
		a(v1alpha1.HoldDeviceNotEmpty, v1alpha1.OptionSkip, "the entry as it is, and the disks that match it", PoolSkip, ""),
		a(v1alpha1.HoldDeviceNotEmpty, v1alpha1.OptionUseExisting, "the entry as it is, and the disks that match it",
			PoolUseExisting, ""),
		a(v1alpha1.HoldDeviceApproval, v1alpha1.OptionApprove, "", PoolApprove, ""),
		a(v1alpha1.HoldDeviceApproval, v1alpha1.OptionSkip, "the entry as it is, and the disks that match it", PoolSkip, ""),
		a(v1alpha1.HoldPoolBackendLost, v1alpha1.OptionRecreate, "", PoolRecreate, ""),
		a(v1alpha1.HoldVolumesUnknown, v1alpha1.OptionContinue, "this deletion, while LINSTOR is silent",
			"removeUnverified", ""),
		a(v1alpha1.HoldMachineReplaced, v1alpha1.OptionAdopt, "", SystemUUID,
			"when the node is another machine once more: that is a new hold"),
		a(v1alpha1.HoldMachineReplaced, v1alpha1.OptionReplace, "", MachineReplaced,
			"when the node is another machine once more: that is a new hold"),
		a(v1alpha1.HoldNodeGone, v1alpha1.OptionDeclareLost, "", DeclareLost, ""),
		a(v1alpha1.HoldEtcdStuck, v1alpha1.OptionForsake, theEtcd, answers, "when the member takes part again"),
		a(v1alpha1.HoldEtcdMemberDown, v1alpha1.OptionForsake, theEtcd, answers, "when the member takes part again"),
		a(v1alpha1.HoldEtcdQuorumLost, v1alpha1.OptionAdopt, theCluster, answers, "once it is carried out"),
		a(v1alpha1.HoldEtcdQuorumLost, v1alpha1.OptionForce, theEtcd, answers,
			"once it is carried out, or a quorum is back"),
		a(v1alpha1.HoldEtcdMembersChanged, v1alpha1.OptionAdopt, theCluster, answers, "once it is carried out"),
		a(v1alpha1.HoldEtcdMembersChanged, v1alpha1.OptionForsake, theEtcd, answers, "when the member takes part again"),
		a(v1alpha1.HoldEtcdCorruptAlarm, v1alpha1.OptionForsake, theEtcd, answers, "when the member takes part again"),
		a(v1alpha1.HoldEtcdOtherCluster, v1alpha1.OptionAdopt, theCluster, answers, "once it is carried out"),
		a(v1alpha1.HoldEtcdNotesLost, v1alpha1.OptionAdopt, theCluster, answers, "once it is carried out"),
		a(v1alpha1.HoldUnsupportedChange, v1alpha1.OptionMigrate, "the database that the hold names", "moveTo", ""),
		a(v1alpha1.HoldOperationFailed, v1alpha1.OptionRollBack, theUpgrade, rolledBack, ""),
	}
}

// countsFor says what an answer to any hold of the kind counts for.
func countsFor(k holdkind.Kind) string {
	var out []string
	if k.Scope != holdkind.ScopeCluster {
		out = append(out, "the nodes that the hold lists")
	}
	if k.ListsDisks {
		out = append(out, "the disks that it lists")
	}
	if k.ListsMachines {
		out = append(out, "the machines that these nodes are then")
	}
	switch {
	case k.Scope == holdkind.ScopeCluster:
	case k.Growth == holdkind.GrowsAnew:
		out = append(out, "with one more node it is another hold, with another id")
	case k.Growth == holdkind.GrowsNever:
		out = append(out, "further nodes get a hold of their own")
	}
	return strings.Join(out, "; ")
}

// endOf says when what is kept under a key goes.
func endOf(key string) string {
	for _, p := range Places() {
		for _, i := range p.Items {
			if i.Key == key {
				return i.Ends
			}
		}
	}
	return ""
}

// ApprovalsMarkdown is the page about what answers count for, and what ends them.
func ApprovalsMarkdown() string {
	var b strings.Builder
	b.WriteString("# What an answer counts for, and what ends it\n\n" +
		"This page is made from the tables of holds (pkg/apis/storage/v1alpha1/holdkind) and of what is remembered\n" +
		"(pkg/remembered). An answer is consent to what its hold said when it was read, and not to what comes later.\n" +
		"Each entry says what ends it. The answer `retry` is left out: nothing is kept of it, and the runbooks say what\n" +
		"it leads to.\n")
	var reason v1alpha1.HoldReason
	for _, a := range Approvals() {
		kind := holdkind.Of(a.Reason)
		if a.Reason != reason {
			reason = a.Reason
			fmt.Fprintf(&b, "\n## %s\n\nSee [the runbook](runbooks/%s.md).\n", reason, reason)
		}
		does := ""
		for _, o := range kind.Options {
			if o.Answer == a.Option {
				does = o.Does
			}
		}
		covers := strings.Join(nonEmpty(countsFor(kind), a.Covers), "; ")
		ends := strings.Join(nonEmpty(a.Ends, endOf(a.Kept)), "; or ")
		entry := fmt.Sprintf("- **`%s`** %s. Counts for: %s. Kept as `%s`. Ends: %s.", a.Option, does, covers,
			strings.TrimSuffix(strings.TrimPrefix(a.Kept, linstor.AuxPrefix), "."), ends)
		b.WriteString("\n" + strings.Join(text.Fill(entry, 118, 116), "\n  ") + "\n")
	}
	return b.String()
}

func nonEmpty(texts ...string) []string {
	var out []string
	for _, t := range texts {
		if t != "" && t != "never" {
			out = append(out, t)
		}
	}
	return out
}
