// Package advice says what a spec asks for that is accepted and has no effect, or that does not fit what is run: what
// nothing refuses, and a user would notice late.
package advice

import (
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/memory"
)

// Of is the advice on a spec and the LINSTOR that it leads to: sentences, each about the field that it names first.
func Of(spec *v1alpha1.StorageClusterSpec, release catalogue.Release) []string {
	var out []string
	add := func(says string) {
		if says != "" {
			out = append(out, says)
		}
	}
	add(OfRelease(release))
	add(memory.Controller.Problem(&spec.Controller.Resources))
	add(memory.Satellite.Problem(&spec.Nodes.Satellite.Resources))
	if _, given := spec.Controller.Properties[linstor.PropAutoQuorum]; given {
		add("spec.controller.properties: " + ignoredQuorum("", spec.Controller.Properties[linstor.PropAutoQuorum]))
	}
	for i := range spec.Volumes.StorageClasses {
		e := &spec.Volumes.StorageClasses[i]
		if says := OfClass(e); says != "" {
			add(fmt.Sprintf("spec.volumes.storageClasses[%s]: %s", e.Name, says))
		}
	}
	return out
}

// OfRelease is the advice on the LINSTOR that a cluster runs; "" for none.
func OfRelease(r catalogue.Release) string {
	if r.Withdrawn == "" {
		return ""
	}
	return "spec.version: " + r.Withdrawal()
}

// OfClass is the advice on an entry of spec.volumes.storageClasses; "" for none.
func OfClass(e *volumespec.StorageClassSpec) string {
	value, given := e.Parameters[resources.PropertyParameter+linstor.PropAutoQuorum]
	if !given {
		return ""
	}
	return ignoredQuorum(resources.PropertyParameter, string(value))
}

// ignoredQuorum says what to write instead of DrbdOptions/auto-quorum, in a field whose keys have the prefix.
func ignoredQuorum(prefix, value string) string {
	quorum, without := prefix+linstor.PropQuorum, prefix+linstor.PropOnNoQuorum
	if value == "disabled" {
		return fmt.Sprintf("LINSTOR 1.31 and later ignore %s: remove it, or set %s to \"off\" for volumes without quorum",
			prefix+linstor.PropAutoQuorum, quorum)
	}
	return fmt.Sprintf("LINSTOR 1.31 and later ignore %s: set %s to %s instead", prefix+linstor.PropAutoQuorum, without,
		value)
}
