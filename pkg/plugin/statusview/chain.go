package statusview

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
)

// link is a step of the chain, and the condition that says how it is.
type link struct {
	phase     v1alpha1.Phase
	condition string
}

// links are the chain, in its order.
var links = []link{
	{v1alpha1.PhaseKernelModule, conditions.KernelModuleLoaded},
	{v1alpha1.PhaseDatabase, conditions.DatabaseReady},
	{v1alpha1.PhaseController, conditions.ControllerReady},
	{v1alpha1.PhaseSatellites, conditions.SatellitesReady},
	{v1alpha1.PhaseNodeRegistration, conditions.NodesRegistered},
	{v1alpha1.PhaseStoragePools, conditions.StoragePoolsReady},
	{v1alpha1.PhaseVolumeDriver, conditions.VolumeDriverReady},
	{v1alpha1.PhaseCanary, conditions.CanaryPassed},
}

// Reasons of conditions that are True, or Unknown, and are shown as something else than that. Package conditions names
// only those that several conditions have.
const (
	reasonNotWanted      = "NotWanted"
	reasonNoStorageClass = "NoStorageClass"
	reasonCanarySkipped  = "CanarySkipped"
	reasonNotConfigured  = "NotConfigured"
	reasonDrainRefused   = "DrainRefused"
)

// busyReasons are those of conditions that are True while something is being changed.
var busyReasons = []string{conditions.ReasonRollingSatellites, conditions.ReasonRollingLoaders,
	conditions.ReasonChangingInterface, "RebootPending", "Renewing", "SwitchingOn", "RemovingCertificates"}

// linkState is how a condition is that is True when all is well.
func linkState(c *metav1.Condition) tree.State {
	switch c.Reason {
	case reasonNotWanted, reasonNoStorageClass, reasonCanarySkipped, reasonNotConfigured, "NotServed", "NotNeeded",
		conditions.ReasonNotChecked:
		return tree.Note
	}
	switch {
	case c.Status == metav1.ConditionFalse && (strings.HasPrefix(c.Reason, "Making") ||
		strings.HasPrefix(c.Reason, "Starting") || strings.HasPrefix(c.Reason, "Removing")):
		return tree.Busy
	case c.Status == metav1.ConditionTrue && slices.Contains(busyReasons, c.Reason):
		return tree.Busy
	case c.Status == metav1.ConditionTrue:
		return tree.Well
	case c.Status == metav1.ConditionFalse:
		return tree.Bad
	default:
		return tree.Unknown
	}
}

// chain has a line for each link that is not well; those that are well share one. In an installation the first link
// that is not satisfied is what is being worked on, and the others wait for their turn: neither is trouble.
func (b *builder) chain() tree.Item {
	out := tree.Item{Name: "Chain"}
	var well []string
	var states []tree.State
	reached, wanted := true, 0
	for _, l := range links {
		c := b.condition(l.condition)
		if c.Reason == reasonNotWanted {
			continue // not every cluster has each link
		}
		wanted++
		state := linkState(&c)
		if b.installing() && state.WorseThan(tree.Note) && state != tree.Busy {
			state = tree.Note
			if reached && b.status.Hold == nil {
				state = tree.Busy
			} else if reached {
				state = tree.Bad
			}
			reached = false
		}
		if b.Cluster.DeletionTimestamp != nil && state == tree.Bad {
			state = tree.Busy // it is being taken down
		}
		states = append(states, state)
		if state == tree.Well {
			well = append(well, string(l.phase))
			continue
		}
		out.Items = append(out.Items, tree.Item{Name: string(l.phase), State: state, Text: told(&c)})
	}
	out.State = tree.Worst(slices.DeleteFunc(states, func(s tree.State) bool { return s == tree.Note })...)
	switch {
	case !out.State.WorseThan(tree.Well): // what is switched off is no news
		out.Text, out.Items = "all satisfied: "+strings.Join(well, ", "), nil
	case len(well) == 0:
		out.Text = "no links are satisfied yet"
	default:
		out.Text = fmt.Sprintf("%d of %d satisfied: %s", len(well), wanted, strings.Join(well, ", "))
	}
	return out
}

// installing reports whether the cluster was not ready yet.
func (b *builder) installing() bool {
	return b.status.FirstReady == nil && b.Cluster.DeletionTimestamp == nil
}

// unknown reports whether nobody knows what a condition says, and it is time to know it.
func (b *builder) unknown(c *metav1.Condition) bool {
	return c.Status == metav1.ConditionUnknown && linkState(c) == tree.Unknown && !b.installing()
}

// services are the conditions that are about neither link nor anything that has a section of its own: True when well.
var services = []string{conditions.Available, conditions.StorageClassesReady, conditions.SnapshotsReady,
	conditions.MonitoringReady, conditions.HighAvailabilityReady, conditions.DrainGuardReady, conditions.AffinityReady}

// services has a line for each service that is not well.
func (b *builder) services() tree.Item {
	out := tree.Item{Name: "Services"}
	var well []string
	states := []tree.State{}
	for _, kind := range services {
		c := b.condition(kind)
		state := linkState(&c)
		if c.Reason == reasonDrainRefused {
			state = tree.Note // it does what it is for
		}
		if state.WorseThan(tree.Note) && b.installing() {
			continue // its turn comes later
		}
		if state == tree.Bad && kind != conditions.Available {
			state = tree.Warn // Ready does not depend on it
		}
		if state == tree.Well {
			well = append(well, strings.TrimSuffix(kind, "Ready"))
		} else if state != tree.Note || c.Reason == reasonDrainRefused {
			out.Items = append(out.Items, tree.Item{Name: kind, State: state, Text: told(&c)})
		}
		states = append(states, state)
	}
	if len(well) == 0 && len(out.Items) == 0 {
		return tree.Item{}
	}
	out.State = tree.Worst(slices.DeleteFunc(states, func(s tree.State) bool { return s == tree.Note })...)
	out.Text = "healthy: " + strings.Join(well, ", ")
	if len(well) == 0 {
		out.Text = ""
	}
	return out
}
