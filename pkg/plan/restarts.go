package plan

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/compare"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
)

// rolls say how the pods of a component are restarted, and what does not work meanwhile. Those of the satellites are
// restarted by the operator.
var rolls = map[string]struct{ what, how string }{
	v1alpha1.ComponentController: {"LINSTOR controller", "a new pod waits until the running one is stopped; " +
		"volumes keep working, but cannot be created or changed for a moment"},
	v1alpha1.ComponentModuleLoader: {"module loaders", "all at once; a loaded module stays loaded until its node is " +
		"rebooted"},
	v1alpha1.ComponentDriver: {"CSI driver controller", "in a rolling update; for a moment, volumes cannot be " +
		"created, attached or resized"},
	v1alpha1.ComponentDriverNode: {"CSI driver on the nodes", "a tenth of the nodes at a time; mounted volumes " +
		"stay mounted, but volumes cannot be mounted on these nodes for a moment"},
}

// restarts adds the pods of a workload whose template would change.
func (p *planner) restarts(there, want client.Object, fields []string) {
	if !compare.NewTemplate(there, want, fields) {
		return
	}
	component := there.GetLabels()[v1alpha1.LabelComponent]
	roll, ok := rolls[component]
	if !ok {
		roll.what, roll.how = compare.Kind(there)+" "+there.GetName(), "in a rolling update"
	}
	r := result.Restart{What: roll.what, How: roll.how}
	switch o := there.(type) {
	case *appsv1.Deployment:
		if component == v1alpha1.ComponentController && p.upgrades {
			r.How = "the running pod is stopped before the new one is started: LINSTOR does not respond in the meantime, but " +
				"volumes keep working"
		}
		r.Count = int(ptr.Deref(o.Spec.Replicas, 1))
	case *appsv1.DaemonSet:
		if component == v1alpha1.ComponentSatellite {
			return // see rollSatellites
		}
		r.Names = result.Of(p.nodesOf(component, o))
	}
	p.out.Restarts = append(p.out.Restarts, r)
}

// nodesOf are the nodes on which pods of a DaemonSet run.
func (p *planner) nodesOf(component string, ds *appsv1.DaemonSet) []string {
	var out []string
	for node, pod := range p.seen.Kube.Pods[component] {
		if slices.ContainsFunc(pod.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Name == ds.Name }) ||
			len(pod.OwnerReferences) == 0 {
			out = append(out, node)
		}
	}
	slices.Sort(out)
	return out
}

// rollSatellites adds the satellites that would be restarted for the edit.
func (p *planner) rollSatellites() {
	var nodes []string
	hosts := true
	for _, m := range p.after.Members {
		if b := p.base.MemberByName(m.Name); m.Outdated && (p.wakes || b == nil || !b.Outdated) {
			nodes = append(nodes, m.Name)
			hosts = hosts && m.SatellitePod.Spec.HostNetwork
		}
	}
	if len(nodes) == 0 {
		return
	}
	how := fmt.Sprintf("one first, then up to %d at a time, each time after LINSTOR reports the previous nodes as "+
		"ONLINE; volumes keep working, and DRBD keeps replicating", step.RestartsAtOnce(p.after))
	if !hosts {
		how = "one per zone at a time, each time after LINSTOR reports the previous nodes as ONLINE and every other " +
			"replica of their volumes is up to date: on the pod network, replication stops with the pod"
	}
	if first := p.after.Roll.Next; len(first) > 0 {
		how += "; starting with " + satellites.MemberNames(first)
	} else if why := p.after.Roll.Waiting; why != "" {
		how += "; none can be restarted at the moment: " + why
	}
	p.out.Restarts = append(p.out.Restarts, result.Restart{What: "satellites", Names: result.Of(nodes), How: how})
}
