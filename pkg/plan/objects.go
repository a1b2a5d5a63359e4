package plan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/affinity"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/highavailability"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/monitoring"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/snapshotclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/compare"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drift"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Bounds of what is listed: objects, and fields of one.
const (
	mostObjects = 100
	mostFields  = 5
)

// desires has all links work on a snapshot, and what is kept beside them, and takes down what they would write at
// once. A try of volumes is left out, which makes what it removes.
func (p *planner) desires(ctx context.Context, s *cluster.Snapshot, r *record) {
	in := r.input(s)
	in.Answer = nil // it is about a hold, not about the edit
	if s.Target == nil {
		return
	}
	for _, l := range phases.Links() {
		if l.State == fsm.Canary || l.State == fsm.Database {
			continue
		}
		if err := l.Work(ctx, in); !harmless(err) {
			p.unknown("everything that %s would do: %v", l.State, err)
		}
	}
	if err := leaving.Leave(ctx, in); !harmless(err) {
		p.unknown("everything that would be done for nodes that are being removed: %v", err)
	}
	snapshotclass.Ensure(in)
	monitoring.Work(ctx, in)
	highavailability.Work(ctx, in)
	affinity.Work(ctx, in)
	drainguard.Work(ctx, in)
	r.runAll(ctx)
}

// unknown adds what could not be found out, once.
func (p *planner) unknown(format string, args ...any) {
	if u := text.OneLine(fmt.Sprintf(format, args...)); !slices.Contains(p.out.Unknown, u) {
		p.out.Unknown = append(p.out.Unknown, u)
	}
}

// objects lists the objects that the edit makes, changes or removes, and whose pods are restarted for it. What would
// be written without the edit as well is none of its doing.
func (p *planner) objects(before, after *record) {
	var all []result.Object
	if name := p.after.Target.Name; p.seen.Kube.Revisions[name] == nil && p.seen.SpecPending() {
		all = append(all, result.Object{Kind: "ControllerRevision", Namespace: v1alpha1.WorkloadNamespace, Name: name,
			Do: "create"})
	}
	anyway := compare.ByKey(before.applied)
	for _, o := range compare.Last(after.applied) {
		if slices.ContainsFunc(anyway[compare.Key(o)], func(b client.Object) bool { return compare.Same(b, o) }) {
			continue
		}
		out := result.Object{Kind: compare.Kind(o), Namespace: o.GetNamespace(), Name: o.GetName(), Do: "create"}
		if there := compare.Live(&p.seen.Kube, o); there != nil {
			fields := drift.Differences(there, o)
			out.Do, out.Fields = "change", fields[:min(len(fields), mostFields)]
			out.More = len(fields) - len(out.Fields)
			p.restarts(there, o, fields)
			if there.GetAnnotations()[drift.AnnotationAdmitted] != "" {
				p.out.Notes = append(p.out.Notes, fmt.Sprintf("a policy in this Kubernetes cluster changed %s %s when it was "+
					"applied: some of the listed fields may come from this policy", out.Kind, out.Name))
			}
		}
		all = append(all, out)
	}
	gone := compare.ByKey(before.deleted)
	for _, o := range after.deleted {
		if gone[compare.Key(o)] == nil {
			all = append(all, result.Object{
				Kind: compare.Kind(o), Namespace: o.GetNamespace(), Name: o.GetName(), Do: "remove",
			})
		}
	}
	slices.SortStableFunc(all, func(a, b result.Object) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	all = slices.CompactFunc(all, func(a, b result.Object) bool { return a.Kind == b.Kind && a.Name == b.Name })
	all = append(all, labels(before, after)...) // last: there may be as many as nodes
	if more := len(all) - mostObjects; more > 0 {
		all = all[:mostObjects]
		p.out.Notes = append(p.out.Notes, fmt.Sprintf("%d more objects are not listed", more))
	}
	p.out.Objects = all
}

// labels are the Nodes whose labels would be changed for the edit.
func labels(before, after *record) []result.Object {
	var out []result.Object
	for _, name := range slices.Sorted(maps.Keys(after.labelled)) {
		var fields []string
		for k, v := range after.labelled[name] {
			if was, ok := before.labelled[name][k]; !ok || !equality.Semantic.DeepEqual(was, v) {
				fields = append(fields, "metadata.labels."+k)
			}
		}
		if slices.Sort(fields); len(fields) > 0 {
			out = append(out, result.Object{Kind: "Node", Name: name, Do: "change",
				Fields: fields[:min(len(fields), mostFields)], More: max(0, len(fields)-mostFields)})
		}
	}
	return out
}
