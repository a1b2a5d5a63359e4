// Package specchange compares the spec with the accepted one: what changed, of which class, and whether it is refused.
package specchange

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/move"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/tlsmode"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/storageclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// NewTarget is the accepted spec as it is to be worked on: a ControllerRevision's, and what holds at once. One without
// a mode of TLS was kept by an older operator, for which that meant Disabled.
func NewTarget(name string, kept *v1alpha1.StorageClusterSpec, release catalogue.Release,
	c *v1alpha1.StorageCluster) *cluster.Target {
	spec := kept.DeepCopy()
	cluster.HoldAtOnce(spec, &c.Spec)
	spec.TLS.Mode = cmp.Or(spec.TLS.Mode, tlsspec.Disabled)
	return &cluster.Target{Name: name, Spec: spec, Release: release}
}

// Acceptable reports whether a change of the spec waits that can be taken up.
func Acceptable(s *cluster.Snapshot) bool { return s.SpecPending() && Refuse(s) == nil }

// Refuse says why a spec cannot be accepted; nil if it can. Nothing is touched for a refused spec.
func Refuse(s *cluster.Snapshot) *cluster.HoldRequest {
	spec, version := &s.Cluster.Spec, s.WantedVersion()
	const unsupported = v1alpha1.HoldUnsupportedChange
	release, known := s.Catalogue.Release(version)
	kind := connection.Kind(&spec.Database)
	if !known {
		return cluster.Request(unsupported, "spec.version: this operator does not support LINSTOR %s: %suse an operator "+
			"version that supports it", version, setBack(&s.Facts))
	}
	if !slices.Contains(release.Databases, kind) {
		return cluster.Request(unsupported, "spec.database: LINSTOR %s does not support %s; it supports %s%s",
			version, kind, kindList(release.Databases), offEtcd(kind))
	}
	if why := refuseVersion(&s.Facts, release); why != "" {
		return cluster.Request(unsupported, "spec.version: %s", why)
	}
	if why := refuseEtcd(&s.Facts, spec.Database.ManagedEtcd); why != "" {
		return cluster.Request(unsupported, "spec.database.managedEtcd: %s", why)
	}
	if t := s.Target; t != nil && t.Spec.Nodes.Network.Mode == nodespec.NetworkHost &&
		spec.Nodes.Network.Mode == nodespec.NetworkPod {
		return cluster.Request(unsupported, "spec.nodes.network.mode: changing Host to Pod would leave DRBD's "+
			"connections on the host network until every node is rebooted: set it back to Host")
	}
	params := resources.Params{Cluster: s.Cluster.Name, Spec: spec, Release: release}
	if why := storageclass.Refuse(s, &spec.Volumes, params); why != "" {
		return cluster.Request(unsupported, "%s", why)
	}
	if h := refusePools(s); h != nil {
		return h
	}
	return refuseDatabase(s)
}

// refuseDatabase says that the data is in another database than the spec's; nil if it is there. It comes last: nobody
// is asked about a spec that cannot be accepted for something else.
func refuseDatabase(s *cluster.Snapshot) *cluster.HoldRequest {
	spec := &s.Cluster.Spec.Database
	kind, want := connection.Kind(spec), connection.URL(spec)
	claim, claimed := s.Claim()
	if !claimed || connection.Same(claim.Backend, want) {
		return nil
	}
	h := cluster.Request(v1alpha1.HoldUnsupportedChange, "spec.database.%s points to %s, but this cluster's data is in "+
		"%s (ConfigMap %s/%s): ", kind, want, claim.Backend, v1alpha1.WorkloadNamespace, resources.ClaimName)
	why := move.Obstacle(s.Cluster, claim, s.AcceptedDatabase())
	if runs := s.ControllerRelease(); why == "" && !slices.Contains(runs.Databases, kind) {
		why = fmt.Sprintf("LINSTOR %s, which this cluster runs, cannot use %s", runs.Version, kind)
	}
	if why == "" && (kind == v1alpha1.DatabaseEtcd || kind == v1alpha1.DatabaseManagedEtcd) {
		why = "LINSTOR 1.34 and newer cannot use etcd, so the operator does not move data to it"
	}
	if why != "" {
		h.Message += "revert spec.database; the data cannot be moved: " + why
		return h
	}
	h.Message += "resume with " + v1alpha1.OptionMigrate + " to move it there, or revert spec.database"
	if connection.SameKind(claim.Backend, want) {
		h.Message += "; if the new database already contains LINSTOR's data, for example because it is the same server " +
			"under another name, the operator imports nothing, and uses the database only if its data is identical"
	}
	h.Identities, h.Options = []string{want}, []string{v1alpha1.OptionRetry, v1alpha1.OptionMigrate}
	return h
}

// refuseVersion says why the cluster cannot be moved to a release; "" if it can, or runs it.
func refuseVersion(s *cluster.Facts, to catalogue.Release) string {
	claim, _ := s.Claim()
	from, all := s.AcceptedVersion(), s.Catalogue.Versions() // the newest first
	has := "this cluster runs LINSTOR " + from
	if s.Cluster.Status.Version == "" || s.LeftVersion() != "" {
		has = fmt.Sprintf("an earlier cluster claimed the database for LINSTOR %s (ConfigMap %s/%s)", from,
			v1alpha1.WorkloadNamespace, resources.ClaimName)
	}
	switch {
	case claim.UpgradeTo != "" && claim.UpgradeTo != to.Version:
		return fmt.Sprintf("the database has already been migrated to LINSTOR %s, which cannot be undone; no other "+
			"version is accepted until the upgrade from %s is complete: set spec.version to %s", claim.UpgradeTo, from,
			claim.UpgradeTo)
	case from == "" || from == to.Version || claim.UpgradeTo != "":
		return ""
	case to.CanUpgradeFrom(from) && to.Withdrawn == "":
		return ""
	case to.CanUpgradeFrom(from):
		return fmt.Sprintf("%s: set spec.version to another version, or back to %s", to.Withdrawal(), from)
	case slices.Contains(all[:max(0, slices.Index(all, to.Version))], from):
		return fmt.Sprintf("%s, and the database cannot be downgraded to %s: set spec.version to %s", has, to.Version, from)
	default:
		return fmt.Sprintf("%s, but an upgrade to %s is possible only from %s: set spec.version to %s, or to an "+
			"intermediate version first", has, to.Version, strings.Join(to.UpgradeFrom, ", "), from)
	}
}

// setBack says which versions the spec may ask for instead; "" if there is none.
func setBack(s *cluster.Facts) string {
	kind := connection.Kind(&s.Cluster.Spec.Database)
	fit := slices.DeleteFunc(s.Catalogue.Versions(), func(v string) bool {
		release, _ := s.Catalogue.Release(v)
		unasked := release.Withdrawn != "" && v != s.AcceptedVersion()
		return unasked || refuseVersion(s, release) != "" || !slices.Contains(release.Databases, kind)
	})
	switch len(fit) {
	case 0:
		return ""
	case 1:
		return "set it to " + fit[0] + ", or "
	default:
		return "set it to one of " + strings.Join(fit, ", ") + ", or "
	}
}

func kindList(kinds []v1alpha1.DatabaseKind) string {
	out := make([]string, 0, len(kinds))
	for _, k := range kinds {
		out = append(out, string(k))
	}
	return strings.Join(out, ", ")
}

// refusePools judges the pools of the wanted spec on the members as they are now, as if it were accepted.
func refusePools(s *cluster.Snapshot) *cluster.HoldRequest {
	release, _ := s.Catalogue.Release(s.WantedVersion())
	f := s.Facts
	f.Target = NewTarget("", s.WorkingSpec(), release, s.Cluster)
	members := judge.Facts(f, nil).Members
	for _, reason := range []v1alpha1.HoldReason{v1alpha1.HoldPoolConflict, v1alpha1.HoldUnsupportedChange} {
		h := &cluster.HoldRequest{Reason: reason}
		for _, m := range members {
			i := slices.IndexFunc(m.Pools, func(p *cluster.MemberPool) bool {
				return p.Problem != nil && p.Problem.Hold == reason
			})
			if i >= 0 {
				h.Nodes = append(h.Nodes, m.Name)
				h.Message = cmp.Or(h.Message, m.Pools[i].Problem.Message)
			}
		}
		if len(h.Nodes) > 0 {
			h.Message += " (" + text.QuoteList(h.Nodes) + ")"
			return h
		}
	}
	return nil
}

// Accept keeps the wanted spec as a ControllerRevision. The caller has made sure that it is not refused.
func Accept(ctx context.Context, in *step.Input) (*step.Acceptance, error) {
	s := in.Snapshot
	if err := confirmMode(ctx, in); err != nil {
		return nil, err
	}
	spec := s.WorkingSpec()
	rev := revision.Of(s.Cluster.Name, nextRevision(s), spec)
	if s.Kube.Revisions[rev.Name] == nil {
		if err := in.Writer.Apply(ctx, rev); err != nil {
			return nil, fmt.Errorf("store the accepted spec: %w", err)
		}
	}
	kind := connection.Kind(&s.Cluster.Spec.Database)
	return &step.Acceptance{Revision: rev.Name, Generation: s.Cluster.Generation, Version: spec.Version,
			Database: kind},
		pruneRevisions(ctx, in, rev.Name)
}

// confirmMode makes sure that the claim itself leads to the mode of TLS that the cached one does. To a cache that lags
// behind, a cluster whose claim was kept looks like one that begins: it would be locked although it was open.
func confirmMode(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	if s.Target != nil || tlsmode.Named(&s.Cluster.Spec.TLS) != "" {
		return nil
	}
	live, err := in.Live.ConfigMap(ctx, resources.ClaimName)
	if err != nil {
		return fmt.Errorf("%w: %w", step.ErrUnconfirmed, err)
	}
	f := s.Facts
	f.Recorded = resources.ClaimData{}
	if live != nil {
		if f.Recorded, err = resources.ClaimFrom(live); err != nil {
			return fmt.Errorf("%w: %w", step.ErrOutdated, err)
		}
	}
	if f.WorkingSpec().TLS.Mode != s.WorkingSpec().TLS.Mode {
		return fmt.Errorf("%w: the claim has changed", step.ErrOutdated)
	}
	return nil
}

// nextRevision is the number of the next ControllerRevision that keeps an accepted spec.
func nextRevision(s *cluster.Snapshot) int64 {
	var top int64
	for _, r := range s.Kube.Revisions {
		top = max(top, r.Revision)
	}
	return top + 1
}

const keptRevisions = 10

// pruneRevisions removes the oldest accepted spec when there are too many. One is added at a time, so one is removed.
func pruneRevisions(ctx context.Context, in *step.Input, keep string) error {
	s := in.Snapshot
	if len(s.Kube.Revisions) < keptRevisions {
		return nil
	}
	oldest := ""
	for name, r := range s.Kube.Revisions {
		if name != keep && name != s.Cluster.Status.Target &&
			(oldest == "" || r.Revision < s.Kube.Revisions[oldest].Revision) {
			oldest = name
		}
	}
	if oldest == "" {
		return nil
	}
	return in.Writer.Delete(ctx, s.Kube.Revisions[oldest])
}
