package upgrade

import (
	"cmp"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/replica"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// blockers say why an upgrade must not begin now; none if it may. While there are any the cluster stays in Upgrading
// (row "blocked" of the gate), and goes to HumanIntervention when that state's deadline passes (Hold).
func blockers(s *cluster.Snapshot) []objection {
	var out []objection
	add := func(says string, about ...string) { out = append(out, objection{about: about, says: says}) }
	if e := s.Evidence[fsm.Controller]; e.State != cluster.Satisfied {
		add("the controller is not in the expected state: "+e.Message, noController)
		if !s.Linstor.Known() {
			return out // nothing else can be known
		}
	}
	if why := s.Target.Release.Withdrawal(); why != "" { // since this spec was accepted
		add(why+": set spec.version to another version", withdrawn)
	}
	offline := s.Where(func(m *cluster.Member) bool {
		return !m.Online && m.State != v1alpha1.NodeHeld && !m.Maintenance
	})
	if len(offline) > 0 {
		add(satellites.MemberNames(offline)+": not ONLINE in LINSTOR", nodes(offline)...)
	}
	if s.Frozen() {
		add("many nodes failed at once", massFailure)
	}
	if r := s.Roll; len(r.Outdated)+len(r.Restarting) > 0 {
		about := nodes(r.Restarting)
		if len(r.Outdated) > 0 {
			about = append(about, outdated)
		}
		add(satellites.Message(&r), about...)
	}
	return append(out, unsettled(s)...)
}

func unsettled(s *cluster.Snapshot) []objection {
	var out []objection
	v := s.Linstor.View
	for _, m := range s.Members {
		if n := m.Linstor; n != nil && (n.HasFlag(linstor.FlagEvacuate) || n.HasFlag(linstor.FlagDelete)) {
			out = append(out, objection{[]string{leavingNode + m.Name},
				fmt.Sprintf("node %s is being evacuated or removed", m.Name)})
		}
	}
	if !v.ResourcesKnown {
		return append(out, objection{[]string{copiesUnknown}, "it is not yet known which replicas are UpToDate"})
	}
	known := map[string]bool{} // volumes whose trouble is excused, or objected to already
	for i := range v.Resources {
		c := &v.Resources[i]
		if m := s.MemberByName(c.Node); m != nil && (m.Maintenance || m.State == v1alpha1.NodeHeld) {
			known[c.Name] = true
			continue
		}
		if c.Diskful && !settled(c) {
			known[c.Name] = true
			out = append(out, objection{[]string{copiesNotWell},
				fmt.Sprintf("the replica of volume %s on node %s is %s", c.Name, c.Node, condition(c))})
		}
	}
	return append(out, troubled(v, known)...)
}

// troubled are the objections about volumes whose replicas all call themselves UpToDate while DRBD does not replicate
// between them, or blocks I/O.
func troubled(v *linstor.View, known map[string]bool) []objection {
	var out []objection
	for _, volume := range copies.Volumes(v.Resources, func(node string) bool { return replica.Online(v, node) }) {
		if why := volume.Trouble(); why != "" && !known[volume.Name] {
			out = append(out, objection{[]string{copiesNotWell}, fmt.Sprintf("volume %s: %s", volume.Name, why)})
		}
	}
	return out
}

// settled reports whether a replica is not being changed. LINSTOR reports no state for one without DRBD.
func settled(c *linstor.Resource) bool {
	return (c.Local || len(c.States) == 0 || c.UpToDate()) && !c.HasFlag(linstor.FlagDelete) &&
		!c.HasFlag(linstor.FlagEvacuate)
}

// condition describes a replica that is not settled, for a message.
func condition(c *linstor.Resource) string {
	if c.HasFlag(linstor.FlagDelete) || c.HasFlag(linstor.FlagEvacuate) {
		return "being removed"
	}
	states := make([]string, len(c.States)) // of each of its volumes
	for i, state := range c.States {
		states[i] = cmp.Or(state, "in an unknown state: LINSTOR does not report one")
	}
	return text.QuoteList(states)
}

// WantsBackup reports whether an upgrade waits for the operator's own backup of the database, and for nothing else.
func WantsBackup(s *cluster.Snapshot) bool {
	h := s.Cluster.Status.Hold
	held := s.Phase() == v1alpha1.PhaseHumanIntervention && h != nil && h.Reason == v1alpha1.HoldUpgradeBlocked
	return s.Upgrade != nil && s.Upgrade.Step == v1alpha1.UpgradePrechecks &&
		(held || s.Phase() == v1alpha1.PhaseUpgrading) && len(unwaived(s, blockers(s))) == 0 &&
		awaitedBackup(s) != ""
}

// NeedsNoBackup reports whether what a hold was about is gone: spec.backup asks for no backup any more, say.
func NeedsNoBackup(s *cluster.Snapshot, _ *v1alpha1.Hold) bool {
	return s.Upgrade == nil || backupNeeded(s) == nil
}

// backupNeeded is the hold for a database that LINSTOR's image does not back up, or that spec.backup asks to be backed
// up and the operator cannot; nil if the operator or the user has. Other prechecks wait until the phase's time is
// over; this one asks at once, as no backup comes while the operator waits.
func backupNeeded(s *cluster.Snapshot) *cluster.HoldRequest {
	u := s.Upgrade
	kind := connection.Kind(&s.Target.Spec.Database)
	taken, _ := databasebackup.ForUpgrade(s)
	switch {
	case confirmed(s) || taken:
		return nil
	case kind == v1alpha1.DatabaseKubernetes && databasebackup.Unable(s):
		return cluster.Request(v1alpha1.HoldBackupTooOld, "spec.backup requires a backup before LINSTOR %s migrates the "+
			"database (%s), which cannot be undone, but the operator cannot take one: %s. Back up the database now and "+
			"resume with backup-confirmed, or set spec.version back to %s", u.To, kind, databasebackup.TooOld(u.From),
			u.From)
	case kind == v1alpha1.DatabaseKubernetes:
		return nil
	}
	return cluster.Request(v1alpha1.HoldBackupTooOld, "LINSTOR %s migrates the database (%s) without a backup, which "+
		"cannot be undone. Back up the database now and resume with backup-confirmed, or set spec.version back to %s",
		u.To, kind, u.From)
}
