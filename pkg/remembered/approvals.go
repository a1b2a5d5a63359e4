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
		theUpgrade = "the upgrade from one version to the other, with the backup that was taken before it"
		theEtcd    = "the member on the node that you name"
		theCluster = "the recorded etcd cluster, and the clusters whose members respond at that time"
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
		a(v1alpha1.HoldDeviceMissing, v1alpha1.OptionSkip, "the current entry, and the disks that match it", PoolSkip, ""),
		a(v1alpha1.HoldCanaryFailed, v1alpha1.OptionSkip, "the tested volume in its current form", "canary",
			"when LINSTOR, its CSI driver or the StorageClass changes"),
		a(v1alpha1.HoldMassFailure, v1alpha1.OptionContinue, "", "conditions",
			"when enough nodes have recovered to end the mass failure"),
		a(v1alpha1.HoldTooManyNodesLeaving, v1alpha1.OptionContinue, "", LeavingAdmitted, ""),
		a(v1alpha1.HoldUpgradeBlocked, v1alpha1.OptionSkipChecks,
			"the nodes, replicas or backup in `status.hold.identities`, for this step", "skippedChecks", ""),
		a(v1alpha1.HoldUpgradeStuck, v1alpha1.OptionSkipChecks,
			"the nodes or backup in `status.hold.identities`, for this step", "skippedChecks", ""),
		a(v1alpha1.HoldUpgradeStuck, v1alpha1.OptionRollBack, theUpgrade, rolledBack, ""),
		a(v1alpha1.HoldBackupTooOld, v1alpha1.OptionBackupConfirmed, "the upgrade from one version to the other",
			"backupConfirmed", ""),
		a(v1alpha1.HoldRestoreRequested, v1alpha1.OptionAbandon, "the requested backup", "restored", ""),
		a(v1alpha1.HoldRestoreRequested, v1alpha1.OptionRestore, "the backup, if it does not differ from the nodes",
			"restoreConfirmed", "when the differences between the backup and the nodes change"),
		a(v1alpha1.HoldRestoreRequested, v1alpha1.OptionRestoreAnyway, "the backup, with the reported differences",
			"restoreConfirmed", "when the differences between the backup and the nodes change"),
		a(v1alpha1.HoldRestoreFailed, v1alpha1.OptionAbandon, "the requested backup", "restored", ""),
		a(v1alpha1.HoldMigrationFailed, v1alpha1.OptionAbandon, "the move to that database", "moveTo", ""),
		a(v1alpha1.HoldForeignLinstorFound, v1alpha1.OptionAdopt,
			"the database that the hold identifies by LINSTOR's `Cluster/LocalID` or by a digest of its nodes", "adopted",
			"when yet another database is found, which opens a new hold"),
		a(v1alpha1.HoldKubernetesRestored, v1alpha1.OptionContinue, "the number in LINSTOR that the hold names", "epoch",
			"when LINSTOR has a higher number again, which opens a new hold"),
		a(v1alpha1.HoldDeviceNotEmpty, v1alpha1.OptionSkip, "the current entry, and the disks that match it", PoolSkip, ""),
		a(v1alpha1.HoldDeviceNotEmpty, v1alpha1.OptionUseExisting, "the current entry, and the disks that match it",
			PoolUseExisting, ""),
		a(v1alpha1.HoldDeviceApproval, v1alpha1.OptionApprove, "", PoolApprove, ""),
		a(v1alpha1.HoldDeviceApproval, v1alpha1.OptionSkip, "the current entry, and the disks that match it", PoolSkip, ""),
		a(v1alpha1.HoldPoolBackendLost, v1alpha1.OptionRecreate, "", PoolRecreate, ""),
		a(v1alpha1.HoldVolumesUnknown, v1alpha1.OptionContinue, "this deletion, while LINSTOR does not respond",
			"removeUnverified", ""),
		a(v1alpha1.HoldMachineReplaced, v1alpha1.OptionAdopt, "", SystemUUID,
			"when the machine is replaced again, which opens a new hold"),
		a(v1alpha1.HoldMachineReplaced, v1alpha1.OptionReplace, "", MachineReplaced,
			"when the machine is replaced again, which opens a new hold"),
		a(v1alpha1.HoldNodeGone, v1alpha1.OptionDeclareLost, "", DeclareLost, ""),
		a(v1alpha1.HoldEtcdStuck, v1alpha1.OptionForsake, theEtcd, answers, "when the member is healthy again"),
		a(v1alpha1.HoldEtcdMemberDown, v1alpha1.OptionForsake, theEtcd, answers, "when the member is healthy again"),
		a(v1alpha1.HoldEtcdQuorumLost, v1alpha1.OptionAdopt, theCluster, answers, "once it has been carried out"),
		a(v1alpha1.HoldEtcdQuorumLost, v1alpha1.OptionForce, theEtcd, answers,
			"once it has been carried out, or when a quorum exists again"),
		a(v1alpha1.HoldEtcdMembersChanged, v1alpha1.OptionAdopt, theCluster, answers, "once it has been carried out"),
		a(v1alpha1.HoldEtcdMembersChanged, v1alpha1.OptionForsake, theEtcd, answers, "when the member is healthy again"),
		a(v1alpha1.HoldEtcdCorruptAlarm, v1alpha1.OptionForsake, theEtcd, answers, "when the member is healthy again"),
		a(v1alpha1.HoldEtcdOtherCluster, v1alpha1.OptionAdopt, theCluster, answers, "once it has been carried out"),
		a(v1alpha1.HoldEtcdNotesLost, v1alpha1.OptionAdopt, theCluster, answers, "once it has been carried out"),
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
		out = append(out, "the disks that the hold lists")
	}
	if k.ListsMachines {
		out = append(out, "the machines that these nodes run on at that time")
	}
	switch {
	case k.Scope == holdkind.ScopeCluster:
	case k.Growth == holdkind.GrowsAnew:
		out = append(out, "if another node is affected, a new hold with a new id replaces the hold")
	case k.Growth == holdkind.GrowsNever:
		out = append(out, "further nodes get their own hold")
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
	b.WriteString("# What each approval covers\n\n" +
		"This page is generated from the tables of holds (pkg/apis/storage/v1alpha1/holdkind) and of stored state\n" +
		"(pkg/remembered). An approval covers what its hold listed when you approved it, and nothing that is added\n" +
		"later. Each entry shows when the approval ends. The `retry` option is not listed, because it is not stored;\n" +
		"the runbooks describe its effect.\n")
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
		entry := fmt.Sprintf("- **`%s`** %s. Covers: %s. Stored as `%s`. Ends: %s.", a.Option, does, covers,
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
