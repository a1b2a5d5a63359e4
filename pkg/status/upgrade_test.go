package status

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// upgrading is the snapshot with that claim, of a cluster that shall run the newest version.
func upgrading(t *testing.T, s *cluster.Snapshot, claim resources.ClaimData) *cluster.Snapshot {
	t.Helper()
	claim.Backend, claim.LocalID, claim.Version = "k8s", "id", "1.34.2"
	s.Kube.ConfigMaps = map[string]*corev1.ConfigMap{resources.ClaimName: resources.Claim(v1alpha1.ClusterName, claim)}
	s.Recorded = claim
	return phases.Judge(s.Facts)
}

func TestUpgradeIsShown(t *testing.T) {
	waits := func(s *cluster.Snapshot, message string) Input {
		return Input{Snapshot: s, Outcome: step.Wait("Upgrading", message, time.Second)}
	}
	s := upgrading(t, judged(t, v1alpha1.PhaseUpgrading, 0), resources.ClaimData{})
	st := Project(waits(s, "waiting: n2"))
	u := st.Upgrade
	if u == nil || u.From != "1.34.2" || u.To != s.Target.Release.Version || u.Step != v1alpha1.UpgradePrechecks ||
		u.Message != "waiting: n2" || !u.Since.Equal(st.ProgressSince) {
		t.Fatalf("upgrade %+v, progress since %v", u, st.ProgressSince)
	}
	again := Project(waits(upgrading(t, next(s, st, time.Minute), resources.ClaimData{}), "waiting: n2"))
	if !again.Upgrade.Since.Equal(&u.Since) || !again.ProgressSince.Equal(st.ProgressSince) {
		t.Errorf("the step began anew without progress: %+v", again.Upgrade)
	}
	to := s.Target.Release.Version
	skipped := upgrading(t, next(s, st, time.Minute),
		resources.ClaimData{UpgradeTo: to, SkippedChecks: "1.34.2>" + to + ":Controller:backup-unread"})
	later := Project(waits(skipped, "reading the backup"))
	if l := later.Upgrade; l.Step != v1alpha1.UpgradeController || l.Since.Equal(&u.Since) || !l.SkippedChecks ||
		later.ProgressSince.Equal(st.ProgressSince) {
		t.Errorf("the next step: %+v, progress since %v", l, later.ProgressSince)
	}
	done := judged(t, v1alpha1.PhaseReady, 1)
	done.Cluster.Status.Upgrade = later.Upgrade
	if left := Project(resting(done)).Upgrade; left != nil {
		t.Errorf("after the upgrade: %+v", left)
	}
}
