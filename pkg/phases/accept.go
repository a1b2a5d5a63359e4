package phases

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// WorkingSpec is the part of a spec that a ControllerRevision keeps: all but the fields that hold at once. Version is filled
// in.
func WorkingSpec(c *v1alpha1.StorageCluster, version string) *v1alpha1.StorageClusterSpec {
	spec := c.Spec.DeepCopy()
	holdAtOnce(spec, &v1alpha1.StorageClusterSpec{})
	spec.Version = version
	return spec
}

// NewTarget is the accepted spec as it is to be worked on: what a ControllerRevision keeps, and of the cluster's present spec
// the fields that hold at once.
func NewTarget(name string, kept *v1alpha1.StorageClusterSpec, release catalogue.Release, c *v1alpha1.StorageCluster) *Target {
	spec := kept.DeepCopy()
	holdAtOnce(spec, &c.Spec)
	return &Target{Name: name, Spec: spec, Release: release}
}

// WantedVersion is the LINSTOR version that a spec asks for. Without a word in the spec it is the one that the cluster has,
// whatever newer ones the catalogue knows.
func (s *Snapshot) WantedVersion() string {
	switch {
	case s.Cluster.Spec.Version != "":
		return s.Cluster.Spec.Version
	case s.Cluster.Status.Version != "":
		return s.Cluster.Status.Version
	}
	// A cluster that is taken over again keeps its version, too, and so does a database.
	claim, _, _ := s.Claim()
	return cmp.Or(claim.UpgradeTo, claim.Version, s.leftVersion(), s.Catalogue.Newest())
}

// SpecPending is whether the spec differs from the accepted one in something that needs work.
func (s *Snapshot) SpecPending() bool {
	if s.Cluster.Generation == s.Cluster.Status.AcceptedGeneration {
		return false
	}
	return s.Target == nil || resources.Revision(s.Cluster.Name, 0, WorkingSpec(s.Cluster, s.WantedVersion())).Name != s.Target.Name
}

// refuse says why a spec cannot be accepted; nil if it can. Nothing is touched for a refused spec.
func (s *Snapshot) refuse() *HoldRequest {
	spec, version := &s.Cluster.Spec, s.WantedVersion()
	unsupported := func(format string, args ...any) *HoldRequest {
		return &HoldRequest{Reason: v1alpha1.HoldUnsupportedChange, Message: fmt.Sprintf(format, args...)}
	}
	release, known := s.Catalogue.Release(version)
	kind := spec.Database.Kind()
	why := ""
	if known {
		why = s.refuseVersion(release)
	}
	switch {
	case !known:
		return unsupported("spec.version: this operator does not know LINSTOR %s; it knows %s", version, strings.Join(s.Catalogue.Versions(), ", "))
	case !release.Supports(kind):
		return unsupported("spec.database: LINSTOR %s does not support %s; it supports %s", version, kind, kindList(release.Databases))
	case why != "":
		return unsupported("spec.version: %s", why)
	}
	if claim, claimed, _ := s.Claim(); claimed {
		if want := resources.DatabaseURL(&spec.Database); claim.Backend != want && !sameDatabase(claim.Backend, want) {
			return unsupported("spec.database.%s asks for %s, but this cluster's data is in %s (ConfigMap %s/%s): set spec.database back",
				kind, want, claim.Backend, v1alpha1.WorkloadNamespace, resources.ClaimName)
		}
	}
	if t := s.Target; t != nil {
		if t.Spec.Nodes.Network.Mode == v1alpha1.NetworkHost && spec.Nodes.Network.Mode == v1alpha1.NetworkPod {
			return unsupported("spec.nodes.network.mode: going from Host to Pod would strand the DRBD connections in the hosts' network until every node is rebooted: set it back to Host")
		}
	}
	return s.refusePools()
}

// refuseVersion says why the cluster cannot be moved to a release; "" if it can, or runs it.
func (s *Snapshot) refuseVersion(to catalogue.Release) string {
	claim, _, _ := s.Claim()
	from := s.acceptedVersion()
	has := "this cluster runs LINSTOR " + from
	if s.Cluster.Status.Version == "" || s.leftVersion() != "" {
		has = fmt.Sprintf("an earlier cluster has claimed the database for LINSTOR %s (ConfigMap %s/%s)", from, v1alpha1.WorkloadNamespace, resources.ClaimName)
	}
	switch {
	case claim.UpgradeTo != "" && claim.UpgradeTo != to.Version:
		return fmt.Sprintf("the database was already moved to LINSTOR %s, and the upgrade from %s is not finished; there is no way back, "+
			"and no other way before it is: set spec.version to %s", claim.UpgradeTo, from, claim.UpgradeTo)
	case from == "" || from == to.Version || claim.UpgradeTo != "" || to.CanUpgradeFrom(from):
		return ""
	case slices.Contains(s.newerThan(to.Version), from):
		return fmt.Sprintf("%s, and the database cannot go back to %s: set spec.version to %s", has, to.Version, from)
	default:
		return fmt.Sprintf("%s; %s takes clusters of the lines %s only: set spec.version to %s, or to a version between the two first",
			has, to.Version, strings.Join(to.UpgradeFrom, ", "), from)
	}
}

// newerThan are the catalogue's versions above a version.
func (s *Snapshot) newerThan(version string) []string {
	all := s.Catalogue.Versions() // the newest first
	return all[:max(0, slices.Index(all, version))]
}

// acceptedVersion is the version that the cluster's data was last started with; "" before that.
func (s *Snapshot) acceptedVersion() string {
	claim, _, _ := s.Claim()
	left, accepted := s.leftVersion(), s.Cluster.Status.Version
	if left != "" && newer(accepted, left) {
		left = accepted // the claim of this cluster itself may not be in the cache yet
	}
	return cmp.Or(claim.Version, left, accepted)
}

func kindList(kinds []v1alpha1.DatabaseKind) string {
	out := make([]string, 0, len(kinds))
	for _, k := range kinds {
		out = append(out, string(k))
	}
	return strings.Join(out, ", ")
}

// refusePools judges the pools of the wanted spec on the members as they are now. It looks through the eyes of a target
// that is not accepted yet.
func (s *Snapshot) refusePools() *HoldRequest {
	release, _ := s.Catalogue.Release(s.WantedVersion())
	try := *s
	try.Members = nil
	try.Target = NewTarget("", WorkingSpec(s.Cluster, s.WantedVersion()), release, s.Cluster)
	try.Derive()
	for _, reason := range []v1alpha1.HoldReason{v1alpha1.HoldPoolConflict, v1alpha1.HoldUnsupportedChange} {
		var nodes []string
		var message string
		for _, m := range try.Members {
			for _, p := range m.Pools {
				if p.Problem != nil && p.Problem.Hold == reason && (len(nodes) == 0 || nodes[len(nodes)-1] != m.Name) {
					nodes = append(nodes, m.Name)
					if message == "" {
						message = p.Problem.Message
					}
				}
			}
		}
		if len(nodes) > 0 {
			return &HoldRequest{Reason: reason, Message: fmt.Sprintf("%s (%s)", message, quoteList(nodes)), Nodes: nodes}
		}
	}
	return nil
}

// accept keeps the wanted spec as a ControllerRevision. The caller has made sure that it is not refused.
func (in *Input) accept(ctx context.Context) (*Acceptance, error) {
	version := in.WantedVersion()
	rev := resources.Revision(in.Cluster.Name, in.nextRevision(), WorkingSpec(in.Cluster, version))
	if in.Kube.Revisions[rev.Name] == nil {
		if err := in.Writer.Apply(ctx, rev); err != nil {
			return nil, fmt.Errorf("keep the accepted spec: %w", err)
		}
	}
	return &Acceptance{Revision: rev.Name, Generation: in.Cluster.Generation, Version: version, Database: in.Cluster.Spec.Database.Kind()}, in.pruneRevisions(ctx, rev.Name)
}

func (in *Input) nextRevision() int64 {
	var top int64
	for _, r := range in.Kube.Revisions {
		top = max(top, r.Revision)
	}
	return top + 1
}

// keptRevisions is how many accepted specs are kept.
const keptRevisions = 10

// pruneRevisions removes the oldest accepted spec when there are too many. One is added at a time, so one is removed.
func (in *Input) pruneRevisions(ctx context.Context, keep string) error {
	if len(in.Kube.Revisions) < keptRevisions {
		return nil
	}
	oldest := ""
	for name, r := range in.Kube.Revisions {
		if name != keep && name != in.Cluster.Status.Target && (oldest == "" || r.Revision < in.Kube.Revisions[oldest].Revision) {
			oldest = name
		}
	}
	if oldest == "" {
		return nil
	}
	return in.Writer.Delete(ctx, in.Kube.Revisions[oldest])
}
