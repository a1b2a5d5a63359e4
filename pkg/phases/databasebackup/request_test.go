package databasebackup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// runs makes the cluster one of that LINSTOR, as an upgrade that has ended does.
func (b bench) runs(version string) {
	b.Cluster.Spec.Version, b.Cluster.Status.Version = version, version
	clustertest.Runs(b.World, version)
	b.Settle()
}

func (b bench) request() backupspec.Request {
	if st := b.Cluster.Status.Backup; st != nil && st.Request != nil {
		return *st.Request
	}
	return backupspec.Request{}
}

// TestRequestEndsWithTheVersion: what was asked for with one LINSTOR is never a backup of another one.
func TestRequestEndsWithTheVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		// meanwhile happens after the request was seen, and before LINSTOR runs in another version.
		meanwhile func(bench)
		says      string
	}{
		"LINSTOR cannot be backed up": {"1.33.3", func(bench) {}, "backup manual-a will not be taken: LINSTOR " +
			"1.33.3 cannot export its database while it is running (this requires 1.34 or newer)"},
		"it waits for its next attempt": {"1.34.2", func(b bench) {
			b.step()
			b.ends("Failed", "no bucket")
			b.step()
		}, "when the database was at LINSTOR 1.34.2, but the database is at 1.35.3 now"},
		"it is being taken": {"1.34.2", func(b bench) { b.step() },
			"when the database was at LINSTOR 1.34.2, but the database is at 1.35.3 now"},
		"there is no place for it": {"1.34.2", func(b bench) {
			b.Cluster.Spec.Backup = nil
			b.step()
		}, "when the database was at LINSTOR 1.34.2, but the database is at 1.35.3 now"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			spec := b.spec()
			spec.Schedule = ""
			b.runs(tc.version)
			b.ask("a")
			b.step()
			if r := b.request(); r.Name != "a" || r.Linstor != tc.version {
				t.Fatalf("request %+v", r)
			}
			tc.meanwhile(b)
			b.runs("1.35.3")
			b.Cluster.Spec.Backup = spec
			b.step()
			b.Now = b.Now.Add(time.Hour)
			for range 3 {
				_, e := b.step()
				if e.State != cluster.Failed || e.Reason != databasebackup.ReasonRequestEnded ||
					!strings.Contains(e.Message, tc.says) || !strings.Contains(e.Message, "with a different name") {
					t.Errorf("evidence %+v", e)
				}
				if len(b.Kube.Backups) > 0 || b.current().ID != "" {
					t.Errorf("it is taken: %+v", b.current())
				}
			}
			b.ask("b")
			b.step()
			b.step()
			b.takes()
			b.look("another one", nil, cluster.Satisfied, databasebackup.ReasonTaken)
			if got := b.request(); got.Name != "" {
				t.Errorf("request %+v", got)
			}
		})
	}
}

// TestRequestPastTheEdge: while the database is being migrated, a request is for the newer one.
func TestRequestPastTheEdge(t *testing.T) {
	b := newBench(t)
	b.spec().Schedule = ""
	b.Upgrading(v1alpha1.UpgradePrechecks)
	b.ask("a")
	b.step()
	b.Claim(func(c *resources.ClaimData) { c.UpgradeTo = clustertest.ToVersion })
	b.step()
	if r := b.request(); r.Linstor != clustertest.FromVersion || r.Refused == "" {
		t.Errorf("request %+v", r)
	}
	b.ask("b")
	b.step()
	if r := b.request(); r.Linstor != clustertest.ToVersion || r.Refused != "" {
		t.Errorf("request %+v", r)
	}
}

// TestRequestBeforeTheFirstStart: a manifest may ask for a backup before there is a database.
func TestRequestBeforeTheFirstStart(t *testing.T) {
	b := newBench(t)
	b.Unclaimed()
	b.Cluster.Status.Version = ""
	b.ask("a")
	b.step()
	if r := b.request(); r.Name != "" {
		t.Errorf("request %+v", r)
	}
}

// TestTakenOfAnotherVersion: a pod that says it has a backup of another LINSTOR has not done what was asked for.
func TestTakenOfAnotherVersion(t *testing.T) {
	b := newBench(t)
	b.spec().Schedule = ""
	b.runs("1.34.2")
	b.ask("a")
	b.step()
	b.step()
	if told := b.pod().Spec.Containers[0].Args[1]; !strings.Contains(told, `"version":"1.34.2"`) {
		t.Errorf("it is told %s", told)
	}
	b.takes() // of 1.35.3
	_, e := b.step()
	const says = "manual-a in the store is from LINSTOR 1.35.3, but was requested for 1.34.2"
	if e.Reason != databasebackup.ReasonRequestEnded || !strings.Contains(e.Message, says) ||
		b.Cluster.Status.Backup.Requested != "" {
		t.Errorf("evidence %+v, status %+v", e, b.Cluster.Status.Backup)
	}
}
