package migrating

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
)

// moveTable decides about a move of LINSTOR's data into another database. The first row that holds decides.
var moveTable = decisiontable.Table[*situation]{
	Title: "A move into another database",
	Intro: "A move starts when the claim records that the move to the database in the spec has been approved. Until " +
		"the last step, LINSTOR's data stays unchanged in the old database, and you can cancel the move at any time by " +
		"changing the spec.",
	Rows: []row{
		{Name: "ran", When: "the LINSTOR controller is running, or may be running, although the claim records that the " +
			"data is being moved",
			Then:  "the claim records that this move is no longer valid, because changes that LINSTOR makes now would be lost",
			Holds: func(c *situation) bool { return ranBeside(c.s) },
			Decide: func(c *situation) {
				c.waits("StoppingController", "LINSTOR was started in the meantime: the move starts over")
				c.next = func(ctx context.Context) error { return spoil(ctx, c.in) }
			}},
		{Name: "not-looked", When: "no pod for the move exists, and the new database has not been checked yet",
			Then:  "it waits",
			Holds: func(c *situation) bool { return c.pod() == nil && !c.s.Database.Checked },
			Decide: func(c *situation) {
				c.waits("CheckingDatabase", "the new database is being checked")
				if p := rival(c.s, &corev1.Pod{}); p != nil {
					c.message = podWorks(&c.s.Facts, p, "another pod is still running")
				}
			}},
		{Name: "unreachable", When: "the new database cannot be checked",
			Then:   "it waits; after the deadline, hold [MigrationFailed](../runbooks/MigrationFailed.md)",
			Holds:  func(c *situation) bool { return c.pod() == nil && c.s.Database.Err != nil },
			Decide: unreachable},
		{Name: "used", When: "the new database contains data of another LINSTOR cluster, according to its identity or " +
			"its nodes; or it is on a different kind of server and already contained this cluster's data before the first " +
			"attempt, or contains newer data of this cluster than the claim records",
			Then:   "hold [MigrationFailed](../runbooks/MigrationFailed.md)",
			Holds:  func(c *situation) bool { return c.pod() == nil && judge(c.s).refused != "" },
			Decide: refuse},
		{Name: "no-image", Then: "it waits",
			When:   "the operator's own image, which is used to compare the two databases, is unknown",
			Holds:  func(c *situation) bool { return c.s.OperatorImage == "" },
			Decide: func(c *situation) { c.waits("NoImage", noImage) }},
		{Name: "runs", When: "the LINSTOR controller is running, or may be running",
			Then:  "its Deployment is deleted, and the operator waits for the pods to terminate",
			Holds: func(c *situation) bool { return !c.s.Move.Stopped }, Decide: stop},
		{Name: "begin", When: "the claim does not record a move; or no pod exists yet, and the recorded kind of move " +
			"(import or comparison) does not match the contents of the new database",
			Then: "the claim records the move; if the new database is on a server of the same kind and already contains " +
				"LINSTOR's data, the claim records that the data is only compared, not imported",
			Holds: func(c *situation) bool {
				return markOf(c.s) == "" || c.pod() == nil && c.s.Move.Same != judge(c.s).compares
			}, Decide: begin},
		{Name: "too-old", When: "the pod moved the data more than ten minutes ago",
			Then: "the claim records that the move is no longer valid, because LINSTOR may have run while the operator was " +
				"down",
			Holds: tooOld,
			Decide: func(c *situation) {
				c.waits("Moving", "the data was moved too long ago: the move starts over")
				c.next = func(ctx context.Context) error { return spoil(ctx, c.in) }
			}},
		{Name: "moved", When: "the pod has moved the data and verified that all of it is in the new database",
			Then:  "the claim records that the data is in the new database and that no move is in progress",
			Holds: func(c *situation) bool { return hasMoved(c) && rival(c.s, c.pod()) == nil }, Decide: toTarget},
		{Name: "not-alone", Then: "it waits",
			When:  "the pod has moved the data, but another pod that may write to the new database has not finished",
			Holds: hasMoved,
			Decide: func(c *situation) {
				c.waits("Moving", "%s", podWorks(&c.s.Facts, rival(c.s, c.pod()), "another pod is still running"))
			}},
		{Name: "move-failed", When: "the pod has failed", Then: "hold [MigrationFailed](../runbooks/MigrationFailed.md)",
			Holds:  func(c *situation) bool { return podFailed(c.s, c.pod()) != "" },
			Decide: moveFailed},
		{Name: "moving", When: "the pod is moving the data", Then: "it waits",
			Holds:  func(c *situation) bool { return c.pod() != nil },
			Decide: func(c *situation) { c.waits("Moving", "%s", podWorks(&c.s.Facts, c.pod(), "the data is being moved")) }},
		{Name: "make", When: "no pod for the move exists", Then: "the pod is created",
			Decide: func(c *situation) {
				c.waits("Moving", "the pod that moves the data is being created")
				c.next = c.makeMover
			}},
	},
}
