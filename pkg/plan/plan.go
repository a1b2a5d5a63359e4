// Package plan says what an edit of the StorageCluster would do, before anything is applied. It judges the edited
// object with the code that the operator itself decides with, on what was observed of the cluster, and has links and
// handlers act on a record that only takes down what they ask for.
package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/advice"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/compare"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/etcdmembers"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

// operator is who refuses what this package judges.
const operator = "operator"

// Input is what a plan is made from.
type Input struct {
	// Seen is what was observed with the edited object in the place of the stored one.
	Seen *cluster.Snapshot
	// Stored is the object as it is stored; nil if there is none yet.
	Stored *v1alpha1.StorageCluster
	// Wanted is what the edit would store; nil for no edit.
	Wanted *v1alpha1.StorageCluster
}

// Edited is the stored object with another spec, as the operator would read it after the edit. Without a stored object
// it is the wanted one, as it would be new. Annotations stay as they are stored: see
// compare.Annotations.
func Edited(stored, wanted *v1alpha1.StorageCluster) *v1alpha1.StorageCluster {
	if stored == nil {
		c := wanted.DeepCopy()
		c.Generation, c.Status = 1, v1alpha1.StorageClusterStatus{}
		return c
	}
	c := stored.DeepCopy()
	if wanted != nil && !equality.Semantic.DeepEqual(stored.Spec, wanted.Spec) {
		c.Spec = *wanted.Spec.DeepCopy()
		c.Generation++
	}
	return c
}

// planner makes one plan.
type planner struct {
	seen, base *cluster.Snapshot
	// after is the snapshot as if the edited spec were accepted, and an upgrade that it asks for had ended.
	after *cluster.Snapshot
	// upgrades says whether the edit is one of LINSTOR's version.
	upgrades bool
	// wakes says whether the edit ends a suspension. Without it nothing would be done at all.
	wakes bool
	// unlisted counts what is left out of lists that are long enough.
	unlisted int
	out      *result.Plan
}

// Make says what the edit would do. Nothing is written, and nobody is asked.
func Make(ctx context.Context, in Input) (*result.Plan, error) {
	s := in.Seen
	out := &result.Plan{Outcome: result.Nothing, Operator: s.OperatorVersion, Phase: string(s.Phase()),
		Of: result.Edit}
	p := &planner{seen: s, out: out, wakes: in.Stored != nil && in.Stored.Spec.Suspend && !s.Cluster.Spec.Suspend}
	marks := compare.Annotations(in.Stored, in.Wanted)
	switch {
	case s.Unreadable != nil:
		return nil, fmt.Errorf("the operator cannot manage this cluster and cannot plan an edit: %w", s.Unreadable)
	case in.Stored == nil:
		out.Of = result.Creation
	case in.Stored.Generation == s.Cluster.Generation && len(marks) == 0:
		out.Of = result.Present
	}
	p.base = phases.Judge(before(&s.Facts, in.Stored))
	if err := p.fields(in.Stored); err != nil {
		return nil, err
	}
	out.Unknown = append(out.Unknown, marks...)
	if out.Of != result.Creation && len(out.Fields) == 0 {
		p.nothing()
		if len(marks) > 0 {
			out.Outcome = result.Changes
		}
		return out, nil
	}
	out.Outcome = result.Changes
	if s.Cluster.DeletionTimestamp != nil {
		out.Notes = append(out.Notes, "the StorageCluster is being deleted: only changes to spec.deletionPolicy still "+
			"take effect")
		return out, nil
	}
	if h := specchange.Refuse(s); h != nil {
		out.Outcome = result.Refused
		out.Refusals = append(out.Refusals, Refusal(h))
		for i := range out.Fields {
			out.Fields[i].When = "not accepted"
		}
		return out, nil
	}
	release, _ := s.Catalogue.Release(s.WantedVersion())
	out.Notes = append(out.Notes, advice.Of(&s.Cluster.Spec, release)...)
	if s.Cluster.Spec.Suspend {
		out.Notes = append(out.Notes, phases.SuspendMessage(s)+"; this plan shows what it would do once spec.suspend is "+
			"false again")
	}
	p.accept()
	p.phases(ctx)
	p.touches(ctx)
	return out, nil
}

// nothing says what goes on although the spec changes nothing.
func (p *planner) nothing() {
	s := p.seen
	if specchange.Working(&s.Facts) || s.Phase() == v1alpha1.PhaseHumanIntervention {
		p.out.Notes = append(p.out.Notes, strings.TrimSuffix(fmt.Sprintf(
			"the cluster is in phase %s with the accepted spec: %s", s.Phase(), s.Cluster.Status.Message), ": "))
	}
}

// before are the facts as they are without the edit.
func before(f *cluster.Facts, stored *v1alpha1.StorageCluster) cluster.Facts {
	out := *f
	if stored == nil {
		return out
	}
	out.Cluster = stored
	if t := f.Target; t != nil {
		out.Target = specchange.NewTarget(t.Name, t.Spec, t.Release, stored)
	}
	return out
}

// fields lists what the edit changes. A spec that waits is compared with the accepted one.
func (p *planner) fields(stored *v1alpha1.StorageCluster) error {
	if stored == nil {
		return nil // everything is new
	}
	s := p.seen
	to := whole(&s.Facts)
	from := whole(&p.base.Facts)
	if p.out.Of == result.Present && p.base.Target != nil {
		from = p.base.Target.Spec
	}
	changes, err := specchange.Changes(from, to)
	if err != nil {
		return err
	}
	for i := range changes {
		c := &changes[i]
		class := c.In(fsm.State(s.Phase()))
		if class == specchange.ClassPreempt && !specchange.Working(&s.Facts) {
			class = c.Class
		}
		f := result.Field{Path: c.At, From: c.From, To: c.To, Class: string(class), When: p.when(class), Effect: c.Effect}
		// These two hold for an operator that is suspended, too.
		if s.Cluster.Spec.Suspend && c.At != "suspend" && c.At != "deletionPolicy" {
			f.When, p.out.Suspended = "once spec.suspend is false again", true
		}
		p.out.Fields = append(p.out.Fields, f)
	}
	if p.out.Of == result.Edit && p.base.Target != nil && p.base.SpecPending() {
		p.out.Notes = append(p.out.Notes, "the stored spec already differs from the accepted one; this plan compares the "+
			"edited spec with the accepted one. \"kubectl linstor plan\" without -f shows the pending changes")
	}
	return nil
}

// whole is a spec as the operator works on it, with what is meant where it names no version and no mode of TLS.
func whole(f *cluster.Facts) *v1alpha1.StorageClusterSpec {
	release, _ := f.Catalogue.Release(f.WantedVersion())
	return specchange.NewTarget("", f.WorkingSpec(), release, f.Cluster).Spec
}

// when says when a change of a class is taken up.
func (p *planner) when(class specchange.Class) string {
	phase := p.seen.Phase()
	switch {
	case class == specchange.ClassImmediate:
		return "at once, in every phase"
	case class == specchange.ClassPreempt:
		return fmt.Sprintf("at once, interrupting phase %s", phase)
	case phase == v1alpha1.PhaseHumanIntervention:
		return "once the open hold allows it"
	case specchange.Working(&p.seen.Facts) && phases.SpecWaits(p.seen):
		return fmt.Sprintf("after phase %s at the latest: work in progress is finished first", phase)
	default:
		return "at the next step"
	}
}

// Refusal is a hold that says why a spec is not accepted.
func Refusal(h *cluster.HoldRequest) result.Refusal {
	return result.Refusal{By: operator, Reason: string(h.Reason), Message: h.Message, Options: options(h)}
}

// touches lists what the edit touches. What would be done without it as well is left out.
func (p *planner) touches(ctx context.Context) {
	before, after := p.bothDesires(ctx)
	for _, u := range after.unknown {
		if !slices.Contains(before.unknown, u) {
			p.unknown("%s", u)
		}
	}
	p.nodes()
	p.objects(before, after)
	p.rollSatellites()
	p.pools()
	p.linstor(before, after)
	p.etcd()
	if p.unlisted > 0 {
		p.out.Notes = append(p.out.Notes, fmt.Sprintf("some lists are truncated: %d more entries are not listed",
			p.unlisted))
	}
}

// etcd says what becomes of the members of the etcd that the operator runs.
func (p *planner) etcd() {
	c := etcdmembers.Between(p.base.Etcd, p.after.Etcd)
	p.out.Members = c.Members
	p.out.Restarts = append(p.out.Restarts, c.Restarts...)
	p.out.Notes = append(p.out.Notes, c.Notes...)
	for _, u := range c.Unknown {
		p.unknown("%s", u)
	}
	if h := c.Hold; h != nil {
		p.out.Holds = append(p.out.Holds, result.Hold{Reason: string(h.Reason), Message: h.Message, Options: options(h)})
	}
}

// options are the answers that a hold takes.
func options(h *cluster.HoldRequest) []result.Option {
	var out []result.Option
	k := holdkind.Of(h.Reason)
	for _, o := range k.Options {
		special := h.Options == nil && slices.Contains(k.Special, o.Answer)
		if !special && (h.Options == nil || slices.Contains(h.Options, o.Answer)) {
			out = append(out, result.Option{Answer: o.Answer, Does: o.Does})
		}
	}
	return out
}

// accept makes the snapshot as if the edited spec were accepted. An upgrade is taken to have ended: its steps have an
// order of their own, and what it leads to is what is asked for here.
func (p *planner) accept() {
	f := Accepted(p.seen.Facts)
	if s := phases.Judge(f); s.Upgrade != nil {
		p.upgrades = true
		f.Recorded.Version, f.Recorded.UpgradeTo = f.WantedVersion(), ""
	}
	p.after = phases.Judge(f)
}

// Accepted are the facts as if the spec of their object were accepted.
func Accepted(f cluster.Facts) cluster.Facts {
	spec, c := f.WorkingSpec(), f.Cluster.DeepCopy()
	version := spec.Version
	release, _ := f.Catalogue.Release(version)
	name := revision.Of(c.Name, 0, spec).Name
	c.Status.AcceptedGeneration, c.Status.Target, c.Status.Version = c.Generation, name, version
	f.Cluster, f.Target = c, specchange.NewTarget(name, spec, release, c)
	certs := apicerts.Read(f.Kube.Secrets, &f.Target.Spec.TLS, f.Now)
	certs.Seen, certs.APIClock = f.Certificates.Seen, f.Certificates.APIClock
	f.Certificates = certs
	// A memory of its own: what the observer knows is of the accepted spec's Secret.
	f.PassphraseDiffers = new(controller.PassphraseMemory).Differs(&f)
	f.Etcd = etcdmembers.After(f, f.Etcd)
	return f
}
