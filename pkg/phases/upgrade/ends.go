package upgrade

import (
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

var ends = decisiontable.Table[*situation]{
	Title: "What ends the phase Upgrading",
	Intro: "These checks come first in the Upgrading phase.",
	Rows: []row{
		ending("revision-missing", "the ControllerRevision with the accepted spec is missing",
			fsm.SpecChanged, "RevisionMissing",
			func(c *situation) bool { return c.s.Target == nil },
			func(c *situation) string {
				return "the ControllerRevision " + c.s.Cluster.Status.Target + " with the accepted spec is missing"
			}),
		ending("upgraded", "no upgrade is pending", fsm.Advanced, "Upgraded", func(c *situation) bool { return c.u == nil },
			func(c *situation) string { return "LINSTOR " + c.s.Target.Release.Version + " is running on all nodes" }),
		ending("taken-back", "spec.version is the old version again, and nothing has been changed",
			fsm.Retreated, "Retreated",
			func(c *situation) bool { return c.s.SpecPending() && TakesUpgradeBack(c.s) },
			func(c *situation) string {
				return fmt.Sprintf("spec.version is %s again, and nothing has been changed", c.u.From)
			}),
		ending("spec-changed", "the spec has changed, and nothing is in progress that the change would disturb",
			fsm.SpecChanged, "SpecChanged",
			func(c *situation) bool { return c.s.SpecPending() && betweenBatches(c.s) },
			func(c *situation) string {
				return fmt.Sprintf("the spec changed (generation %d)", c.s.Cluster.Generation)
			}),
		stopping("database-failed", "the database does not belong to this cluster, or cannot be used",
			"the hold of the database check", failed(fsm.Database)),
	},
}

// trouble is what does not pass by waiting.
var trouble = decisiontable.Table[*situation]{
	Title: "What stops an upgrade",
	Intro: "These checks follow the work of the current step.",
	Rows: []row{
		stopping("controller-failed", "the controller cannot start", "the hold of the controller check",
			failed(fsm.Controller)),
		stopping("roll-stuck", "satellites do not become ready after their restart",
			"hold [SatellitesFailed](../runbooks/SatellitesFailed.md)", func(c *situation) *cluster.HoldRequest {
				if !c.at(v1alpha1.UpgradeSatellites) {
					return nil
				}
				return c.stuck()
			}),
	},
}

func ending(name, when string, event fsm.Event, reason string, holds func(*situation) bool,
	message func(*situation) string) row {
	return row{Name: name, When: when, Then: "event `" + string(event) + "`, to Assessing", Holds: holds,
		Decide: func(c *situation) { c.outcome = step.Move(event, reason, message(c)) }}
}

func stopping(name, when, then string, hold func(*situation) *cluster.HoldRequest) row {
	return row{Name: name, When: when, Then: then, Holds: func(c *situation) bool { return hold(c) != nil },
		Decide: func(c *situation) { c.outcome = step.NeedsHuman(*hold(c)) }}
}

func failed(link fsm.State) func(*situation) *cluster.HoldRequest {
	return func(c *situation) *cluster.HoldRequest {
		if e := c.s.Evidence[link]; e.State == cluster.Failed {
			return e.Hold
		}
		return nil
	}
}
