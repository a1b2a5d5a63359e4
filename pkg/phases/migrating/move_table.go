package migrating

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
)

// moveTable decides about a move of LINSTOR's data into another database. The first row that holds decides.
var moveTable = decisiontable.Table[*situation]{
	Title: "A move into another database",
	Intro: "It is begun where the claim names the database of the spec as the one that somebody has consented to. " +
		"Until the last step LINSTOR's data is what it was, where it was: a change of the spec ends the move at any time.",
	Rows: []row{
		{Name: "ran", When: "LINSTOR's controller runs, or may, although the claim says that the data is being moved",
			Then:  "the claim says that nothing of that counts, since what LINSTOR does now would be lost",
			Holds: func(c *situation) bool { return ranBeside(c.s) },
			Decide: func(c *situation) {
				c.waits("StoppingController", "LINSTOR was started meanwhile, so that the move begins anew")
				c.next = func(ctx context.Context) error { return spoil(ctx, c.in) }
			}},
		{Name: "not-looked", When: "that database was not looked into since there is no pod that moves the data",
			Then:  "it waits",
			Holds: func(c *situation) bool { return c.pod() == nil && !c.s.Database.Checked },
			Decide: func(c *situation) {
				c.waits("CheckingDatabase", "it is being looked into")
				if p := rival(c.s, &corev1.Pod{}); p != nil {
					c.message = podWorks(p, "another pod works")
				}
			}},
		{Name: "unreachable", When: "it cannot be looked into",
			Then:   "it waits; after some time hold [MigrationFailed](../runbooks/MigrationFailed.md)",
			Holds:  func(c *situation) bool { return c.pod() == nil && c.s.Database.Err != nil },
			Decide: unreachable},
		{Name: "used", When: "it holds another LINSTOR's data, by its identity or by its nodes; or, on a server of " +
			"another kind, this one's before the first try, or newer data of it than Kubernetes knows of",
			Then:   "hold [MigrationFailed](../runbooks/MigrationFailed.md)",
			Holds:  func(c *situation) bool { return c.pod() == nil && judge(c.s).refused != "" },
			Decide: refuse},
		{Name: "no-image", When: "the operator does not know its own image, which compares both databases", Then: "it waits",
			Holds:  func(c *situation) bool { return c.s.OperatorImage == "" },
			Decide: func(c *situation) { c.waits("NoImage", noImage) }},
		{Name: "runs", When: "LINSTOR's controller runs, or may", Then: "its Deployment is removed; it waits for the pods",
			Holds: func(c *situation) bool { return !c.s.Move.Stopped }, Decide: stop},
		{Name: "begin", When: "the claim does not say that the data is being moved; or, before there is a pod, not in the " +
			"way that what is in the other database asks for",
			Then: "it says so from now on; where LINSTOR's data is there, on a server of the same kind, that it is compared",
			Holds: func(c *situation) bool {
				return markOf(c.s) == "" || c.pod() == nil && c.s.Move.Same != judge(c.s).compares
			}, Decide: begin},
		{Name: "too-old", When: "the pod has moved the data, more than ten minutes ago",
			Then:  "the claim says that it does not count: LINSTOR may have run since, while the operator did not",
			Holds: tooOld,
			Decide: func(c *situation) {
				c.waits("Moving", "the data was moved too long ago, and is moved anew")
				c.next = func(ctx context.Context) error { return spoil(ctx, c.in) }
			}},
		{Name: "moved", When: "the pod has moved the data, and found all of it in the other database",
			Then:  "the claim says that the data is there, and that nothing is being moved any more",
			Holds: func(c *situation) bool { return hasMoved(c) && rival(c.s, c.pod()) == nil }, Decide: toTarget},
		{Name: "not-alone", When: "it has, but another pod that may write there has not ended", Then: "it waits",
			Holds:  hasMoved,
			Decide: func(c *situation) { c.waits("Moving", "%s", podWorks(rival(c.s, c.pod()), "another pod works")) }},
		{Name: "move-failed", When: "the pod has failed", Then: "hold [MigrationFailed](../runbooks/MigrationFailed.md)",
			Holds:  func(c *situation) bool { return podFailed(c.s, c.pod()) != "" },
			Decide: moveFailed},
		{Name: "moving", When: "a pod moves the data", Then: "it waits",
			Holds:  func(c *situation) bool { return c.pod() != nil },
			Decide: func(c *situation) { c.waits("Moving", "%s", podWorks(c.pod(), "the data is being moved")) }},
		{Name: "make", When: "no pod does", Then: "it is made",
			Decide: func(c *situation) {
				c.waits("Moving", "the pod that moves the data is being made")
				c.next = c.makeMover
			}},
	},
}
