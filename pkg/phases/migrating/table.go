package migrating

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/restore"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// situation is what the phase Migrating decides on, and what it has decided.
type situation struct {
	in *step.Input
	s  *cluster.Snapshot
	// pod is the one that imports the backup, or moves the data; nil if there is none. It is found out once.
	pod func() *corev1.Pod

	event           fsm.Event
	hold            *cluster.HoldRequest
	reason, message string
	// next is what is to be done; it comes before the event.
	next func(ctx context.Context) error
}

func situationOf(in *step.Input) *situation {
	c := &situation{in: in, s: in.Snapshot}
	c.pod = sync.OnceValue(func() *corev1.Pod { return podOf(in.Snapshot) })
	return c
}

// comparison is the one that the restore rests on, if it has ended and counts; nil otherwise.
func (c *situation) comparison() *backupspec.Comparison {
	if cmp := databasebackup.ForRestore(c.s); cmp != nil && cmp.Ended != nil && !databasebackup.Outdated(c.s, cmp) {
		return cmp
	}
	return nil
}

func (c *situation) waits(reason, format string, args ...any) {
	c.reason, c.message = reason, fmt.Sprintf(format, args...)
}

func (c *situation) moves(e fsm.Event, reason, message string) {
	c.event, c.reason, c.message = e, reason, message
}

type row = decisiontable.Row[*situation]

var table = decisiontable.Table[*situation]{
	Title: "The phase Migrating",
	Intro: "The LINSTOR controller is not started in this phase or during a hold about the restore.",
	Rows: []row{
		{Name: "revision-missing", When: "the ControllerRevision with the accepted spec is missing",
			Then:  "event `SpecChanged`, to Assessing",
			Holds: func(c *situation) bool { return c.s.Target == nil },
			Decide: func(c *situation) {
				c.moves(fsm.SpecChanged, "RevisionMissing",
					"the ControllerRevision "+c.s.Cluster.Status.Target+" with the accepted spec is missing")
			}},
		{Name: "claim-missing", When: "the claim, which records whether a backup is being imported, is missing",
			Then:  "it waits",
			Holds: func(c *situation) bool { _, claimed := c.s.Claim(); return !claimed },
			Decide: func(c *situation) {
				c.waits("ClaimMissing", "the claim's ConfigMap, which records whether LINSTOR's database contains only part of "+
					"a backup, is missing: restore it from a backup of the Kubernetes objects, and empty its epoch key")
			}},
		{Name: "over", When: "no restore or move is requested or in progress", Then: "event `Advanced`, to Assessing",
			Holds: func(c *situation) bool { return c.s.Restore == nil }, Decide: leave},
		{Name: "spec-changed", When: "the spec has changed and can be accepted, and no pod is importing the backup",
			Then: "event `SpecChanged`, to Assessing",
			Holds: func(c *situation) bool {
				return specchange.Acceptable(c.s) && (c.pod() == nil || poddiagnosis.Ended(c.pod()))
			},
			Decide: func(c *situation) {
				c.moves(fsm.SpecChanged, "SpecChanged", fmt.Sprintf("the spec changed (generation %d)", c.s.Cluster.Generation))
			}},
		{Name: "runs", When: "the LINSTOR controller is running, or may be running",
			Then:  "its Deployment is deleted, and the operator waits for the pods to terminate",
			Holds: func(c *situation) bool { return !c.s.Restore.Stopped }, Decide: stop},
		{Name: "satellites",
			Then: "the node's labels are removed, and the operator waits for the satellite pod to terminate",
			When: "the restore has been approved, and a satellite is running on a node whose address belongs to another " +
				"node in the backup",
			Holds: func(c *situation) bool {
				found := impostorsOf(c.s)
				return len(found.labelled)+len(found.pods) > 0
			},
			Decide: stopImpostors},
		{Name: "imported", When: "the pod has imported the backup that the claim names, and verified it in the database",
			Then: "the claim records that no import is in progress",
			Holds: func(c *situation) bool {
				return c.s.Restore.UnderWay() && imported(c.s, c.pod()) != nil && rival(c.s, c.pod()) == nil
			},
			Decide: finish},
		{Name: "not-alone", Then: "it waits",
			When:  "the pod has imported the backup, but another pod that may write to the database has not finished",
			Holds: func(c *situation) bool { return c.s.Restore.UnderWay() && imported(c.s, c.pod()) != nil },
			Decide: func(c *situation) {
				c.waits("Importing", "%s", podWorks(&c.s.Facts, rival(c.s, c.pod()), "another pod is still running"))
			}},
		{Name: "import-failed", When: "the pod has failed", Then: "hold [RestoreFailed](../runbooks/RestoreFailed.md)",
			Holds:  func(c *situation) bool { return c.s.Restore.UnderWay() && podFailed(c.s, c.pod()) != "" },
			Decide: func(c *situation) { c.hold = failed(c.s, podFailed(c.s, c.pod())) }},
		{Name: "importing", When: "the pod is importing the backup", Then: "it waits",
			Holds: func(c *situation) bool { return c.s.Restore.UnderWay() && c.pod() != nil },
			Decide: func(c *situation) {
				c.waits("Importing", "%s", podWorks(&c.s.Facts, c.pod(), "the backup is being imported"))
			}},
		{Name: "no-store", Then: "it waits",
			When:   "`spec.backup` or an object that it names is missing, or the operator's own image is unknown",
			Holds:  func(c *situation) bool { return noStore(c.s) != "" },
			Decide: func(c *situation) { c.waits("NoStore", "%s", noStore(c.s)) }},
		{Name: "import", When: "the claim names the backup, but no pod for the import exists", Then: "the pod is created",
			Holds: func(c *situation) bool { return c.s.Restore.UnderWay() },
			Decide: func(c *situation) {
				c.waits("Importing", "the pod that imports the backup is being created")
				c.next = c.makeRestorer
			}},
		{Name: "comparing", Then: "it waits",
			When: "the backup has not been compared with the nodes since LINSTOR was stopped, or the comparison is more than " +
				"an hour old",
			Holds: func(c *situation) bool { return c.comparison() == nil }, Decide: comparing},
		{Name: "not-compared", When: "the backup could not be compared",
			Then:   "hold [RestoreFailed](../runbooks/RestoreFailed.md)",
			Holds:  func(c *situation) bool { return c.comparison().Taken == nil },
			Decide: func(c *situation) { c.hold = failed(c.s, c.comparison().Message) }},
		{Name: "another-version", When: "the backup and the database are from different LINSTOR versions",
			Then:   "hold [RestoreFailed](../runbooks/RestoreFailed.md)",
			Holds:  func(c *situation) bool { return anotherVersion(c) != "" },
			Decide: func(c *situation) { c.hold = failed(c.s, anotherVersion(c)) }},
		{Name: "asks", When: "the restore has not been approved with these differences",
			Then:   "hold [RestoreRequested](../runbooks/RestoreRequested.md)",
			Holds:  func(c *situation) bool { return c.s.Restore.Confirmed != consent(c.comparison()).String() },
			Decide: func(c *situation) { c.hold = ask(c.comparison(), c.s.Restore.BackTo) }},
		{Name: "confirmed", When: "the restore has been approved",
			Then:   "the claim records that the backup is being imported, which cannot be undone",
			Decide: mark},
	},
}

// leave ends the phase. The claim is written, on the version that was seen: a cache that lags behind may not show yet
// that a backup is being imported, and a controller would be started on half of it, or that the data is elsewhere.
func leave(c *situation) {
	claim, _ := c.s.Claim()
	message := "nothing to restore or move: starting LINSTOR against its database, " + claim.Backend
	if claim.Restored != "" && (claim.Restored == restore.Asked(c.s.Cluster) || claim.RolledBack != "") {
		message = "backup " + claim.Restored + " has been restored: starting LINSTOR with it"
	}
	c.moves(fsm.Advanced, "MigrationEnded", message)
	c.next = func(ctx context.Context) error {
		claim.RestoreConfirmed = ""
		forgetMove(c.s, &claim)
		return c.in.ApplyClaim(ctx, claim)
	}
}

func stop(c *situation) {
	c.reason = "StoppingController"
	c.next = func(ctx context.Context) (err error) {
		c.message, err = controller.Stop(ctx, c.in)
		return err
	}
}

func comparing(c *situation) {
	message := "the backup is being compared with the nodes"
	if cmp := databasebackup.ForRestore(c.s); cmp != nil && cmp.Ended == nil && cmp.Message != "" {
		message = "comparison with the nodes: " + cmp.Message
	}
	c.waits("Comparing", "%s", message)
}

// anotherVersion says that LINSTOR's program would read the backup, and the database then be another one than it has:
// the comparison afterwards would say nothing. "" if it is of the database's version.
func anotherVersion(c *situation) string {
	claim, _ := c.s.Claim()
	cmp := c.comparison()
	if export.SameVersion(cmp.Linstor, claim.Version) {
		return ""
	}
	return fmt.Sprintf("it is from LINSTOR %s, but the database is at LINSTOR %s: choose a backup from that version",
		cmp.Linstor, claim.Version)
}

// ask is the question whether LINSTOR's database shall be replaced. What differs is consented to in other words.
// to is the LINSTOR that a failed upgrade is taken back to; "" for none.
func ask(cmp *backupspec.Comparison, to string) *cluster.HoldRequest {
	h := cluster.Request(v1alpha1.HoldRestoreRequested, "LINSTOR is stopped, but volumes in use keep working. "+
		"Backup %s was taken at %s; %s", cmp.Backup, databasebackup.At(cmp.Taken.Time), cmp.Message)
	if len(cmp.Addresses) > 0 {
		h.Message += "; " + takenBy(cmp.Addresses) + ": LINSTOR would mistake one node for the other, so the " +
			"satellites there are stopped before the restore, and are started again once LINSTOR no longer has these " +
			"addresses for other nodes"
	}
	if to != "" {
		h.Message += fmt.Sprintf("; after the restore, LINSTOR %s is started against the restored database; if you resume "+
			"with %s instead, the newer version is started again and the upgrade continues", to, v1alpha1.OptionAbandon)
	}
	h.Identities = []string{consent(cmp).String()}
	h.Options = []string{v1alpha1.OptionAbandon, v1alpha1.OptionRestore}
	if len(cmp.Differences) > 0 {
		h.Options[1] = v1alpha1.OptionRestoreAnyway
	}
	return h
}
