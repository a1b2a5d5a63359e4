package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/selection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
)

// rolls say how the pods of a component are restarted, and what does not work meanwhile. Those of the satellites are
// restarted by the operator.
var rolls = map[string]struct{ what, how string }{
	v1alpha1.ComponentController: {"LINSTOR's controller", "a new pod waits beside the running one, which is then let " +
		"go; volumes keep working, and for a moment none can be made or changed"},
	v1alpha1.ComponentModuleLoader: {"module loaders", "all at once; a module that is loaded stays until its node is " +
		"rebooted"},
	v1alpha1.ComponentDriver: {"the CSI driver's controller", "as its Deployment rolls; for a moment no volume is " +
		"made, attached or resized"},
	v1alpha1.ComponentDriverNode: {"the CSI driver on the nodes", "a tenth of the nodes at a time; mounted volumes " +
		"stay mounted, and for a moment none is mounted there"},
}

// restarts adds the pods of a workload whose template would change.
func (p *planner) restarts(there client.Object, fields []string) {
	if !slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, "spec.template") }) {
		return
	}
	component := there.GetLabels()[v1alpha1.LabelComponent]
	roll, ok := rolls[component]
	if !ok {
		roll.what, roll.how = kindOf(there)+" "+there.GetName(), "as it rolls"
	}
	r := result.Restart{What: roll.what, How: roll.how}
	switch o := there.(type) {
	case *appsv1.Deployment:
		if component == v1alpha1.ComponentController && p.upgrades {
			r.How = "the running pod goes before the new one starts: LINSTOR does not answer meanwhile, and volumes keep " +
				"working"
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
		if b := p.base.MemberByName(m.Name); m.Outdated && (b == nil || !b.Outdated) {
			nodes = append(nodes, m.Name)
			hosts = hosts && m.SatellitePod.Spec.HostNetwork
		}
	}
	if len(nodes) == 0 {
		return
	}
	how := fmt.Sprintf("one first, then up to %d at a time, each time once LINSTOR reports the last ones ONLINE; "+
		"volumes keep working, DRBD replicates on", satellites.AtOnce(p.after))
	if !hosts {
		how = "one in each zone at a time, each time once LINSTOR reports the last ones ONLINE and every other copy of " +
			"their volumes is up to date: on the pods' network replication stops with the pod"
	}
	if first := p.after.Roll.Next; len(first) > 0 {
		how += "; first " + satellites.MemberNames(first)
	} else if why := p.after.Roll.Waiting; why != "" {
		how += "; as it is now none could be restarted: " + why
	}
	p.out.Restarts = append(p.out.Restarts, result.Restart{What: "satellites", Names: result.Of(nodes), How: how})
}

// nodes lists those that would join or leave.
func (p *planner) nodes() {
	var join []string
	leave := map[string][]string{}
	for _, m := range p.after.Members {
		b := p.base.MemberByName(m.Name)
		was := b != nil && b.Selected && p.out.Of != result.Creation
		switch {
		case m.Selected && !was:
			join = append(join, m.Name)
		case !m.Selected && was && m.Leave != nil:
			why := selection.Cause(&p.after.Facts, &cluster.Leaver{Name: m.Name, Node: m.Linstor, Member: m, Leave: m.Leave})
			leave[why] = append(leave[why], m.Name)
			if m.Leave.Hold != "" {
				p.asks(m.Leave.Hold, m.Leave.Message)
			}
		}
	}
	if len(join) > 0 {
		p.out.Nodes = append(p.out.Nodes, result.NodeChange{Names: result.Of(join), Do: "join",
			How: "they get DRBD's module, a satellite, a registration in LINSTOR and their pools"})
	}
	for _, why := range slices.Sorted(maps.Keys(leave)) {
		p.out.Nodes = append(p.out.Nodes, result.NodeChange{Names: result.Of(leave[why]), Do: "leave",
			How: why + "; " + departures[p.after.RemovalPolicy()]})
	}
}

// departures say what becomes of nodes that leave.
var departures = map[v1alpha1.NodeRemovalPolicy]string{
	v1alpha1.NodesRetain: "removalPolicy Retain: satellite, registration and data stay, and nothing new is placed there",
	v1alpha1.NodesEvacuate: "removalPolicy Evacuate: LINSTOR rebuilds their data elsewhere, and then they are removed " +
		"from it",
	v1alpha1.NodesRemove: "removalPolicy Remove: they are removed from LINSTOR once they hold no data",
}
