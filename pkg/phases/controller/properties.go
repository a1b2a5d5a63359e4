package controller

import (
	"context"
	"maps"

	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// propertiesKey is the task that sets the controller's properties.
const propertiesKey = "controller/properties"

// propertyField is where the spec has the controller's properties.
const propertyField = "spec.controller.properties"

// firstExporting is the first LINSTOR that exports its database by itself. An older one refuses the properties of it.
const firstExporting = "1.35.1"

// Properties are the ones that a LINSTOR controller of the version should have: what the spec says, and defaults for
// the rest. They are set before the first node is registered, so that none is ever without them.
//
//   - AutoEvictAllowEviction: a fresh LINSTOR evicts nodes that are offline for long (CtrlNodeApi, "True" in a new
//     database), which would rebuild a whole node's data during a long maintenance. Nodes leave when an administrator
//     says so.
//   - rr-conflict: after both sides of a connection were primary, DRBD tries again instead of staying disconnected.
//   - on-no-quorum, on-no-data-accessible: I/O waits for the data to come back. The alternative, I/O errors, turns a
//     short loss of the network into read-only file systems that an administrator must repair.
//   - on-suspended-primary-outdated: a primary that waited in vain gives way, so that the workload can start
//     elsewhere.
//   - AutoDbExport/Cron: from 1.35.1 LINSTOR exports its database once a day into a directory of its own (release
//     notes), which in a pod is lost with the pod. Backups are what spec.backup is for.
//
// LINSTOR's own quorum and tie-breaker stay on.
func Properties(s *cluster.Facts, version string) map[string]string {
	want := map[string]string{
		"DrbdOptions/AutoEvictAllowEviction":                 "false",
		"DrbdOptions/Net/rr-conflict":                        "retry-connect",
		"DrbdOptions/Resource/on-no-quorum":                  "suspend-io",
		"DrbdOptions/Resource/on-no-data-accessible":         "suspend-io",
		"DrbdOptions/Resource/on-suspended-primary-outdated": "force-secondary",
	}
	if !catalogue.Newer(firstExporting, version) {
		want["AutoDbExport/Cron"] = "off"
	}
	maps.Copy(want, s.Target.Spec.Controller.Properties)
	return want
}

// PropertyChange is what is to be written to make the controller's properties as wanted. LINSTOR must have answered.
func PropertyChange(s *cluster.Facts) linstor.Change {
	return linstor.Diff(s.Linstor.View.Properties, Properties(s, s.Linstor.View.Version), s.Linstor.View.Version)
}

// setProperties writes the properties that differ.
func setProperties(in *step.Input) {
	change := PropertyChange(&in.Snapshot.Facts)
	if change.Empty() {
		return
	}
	version := in.Snapshot.Linstor.View.Version
	in.Ensure(work.Task{Key: propertiesKey, Input: text.Digest(change), Do: func(ctx context.Context) error {
		return change.Send(version, func(set map[string]string, del []string) error {
			return in.API.SetProperties(ctx, set, del)
		})
	}})
}

func settingProperties(s *cluster.Snapshot) cluster.Evidence {
	err := s.TaskStates[propertiesKey].Err
	why := step.RefusedProperty(s, err, propertyField, s.Target.Spec.Controller.Properties)
	if why != "" {
		return cluster.Missing.Because(step.ReasonPropertyRefused, why)
	}
	message := "LINSTOR's controller properties are being set"
	if err != nil {
		message += ": " + text.OneLine(err.Error())
	}
	return cluster.Missing.Because(reasonSettingProperties, message)
}
