package e2e

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/difference"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/listing"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// differences compares the newest backup with what lies on these nodes.
func (e backupEnv) differences(nodes ...string) []string {
	e.T.Helper()
	layout, err := harness.BackupLayout(&e.Administrator)
	if err != nil {
		e.T.Fatal(err)
	}
	listings := map[string]*listing.Listing{}
	for _, node := range nodes {
		text := e.Sim.World().Machine(node).Listing()
		if listings[node], err = listing.Parse(strings.NewReader(text), listing.Room()); err != nil {
			e.T.Fatal(err)
		}
	}
	out := []string{}
	for _, d := range difference.Compare(layout, listings, nil) {
		out = append(out, strings.Join([]string{string(d.Kind), d.Node, d.Place, d.Name}, " "))
	}
	return out
}

// TestDifferencesOfABackup: what was done to volumes since a backup is found, from the nodes alone.
func TestDifferencesOfABackup(t *testing.T) {
	e := backupEnv{start(t, harness.Nodes(3))}
	e.Run()
	s3 := harness.BackupStore(&e.Administrator)
	e.Apply(harness.Manifest(harness.ThinPool + "  backup:\n" + s3))
	e.WaitPhase(v1alpha1.PhaseReady)
	volumes := e.Sim.World().Volumes()
	do := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	do(volumes.Create("pvc-same", 1<<20, "ssd", "n1", "n2"), volumes.AttachDiskless("pvc-same", "n3"),
		volumes.Create("pvc-deleted", 1<<20, "ssd", "n1"), volumes.CreateWithoutDRBD("pvc-moved", 1<<20, "ssd", "n2"),
		volumes.Create("pvc-grown", 1<<20, "ssd", "n1", "n3"), volumes.CreateSnapshot("pvc-same", "before"))
	e.Annotate(v1alpha1.AnnotationBackup, "1")
	e.backupIs("True", databasebackup.ReasonTaken)
	if d := cmp.Diff([]string{}, e.differences("n1", "n2", "n3")); d != "" {
		t.Errorf("at once (-want +got):\n%s", d)
	}

	do(volumes.Delete("pvc-deleted"), volumes.Delete("pvc-moved"), volumes.Delete("pvc-grown"))
	do(volumes.CreateWithoutDRBD("pvc-moved", 1<<20, "ssd", "n3"), volumes.Create("pvc-grown", 2<<20, "ssd", "n1", "n3"),
		volumes.Create("pvc-new", 1<<20, "ssd", "n2"), volumes.CreateSnapshot("pvc-same", "after"))
	volumes.DeleteSnapshot("pvc-same", "before")
	volumes.SetInUse("pvc-same", "n3", true)
	volumes.SetInUse("pvc-new", "n2", true)
	want := []string{
		"Absent n1 vg_ssd0 pvc-deleted_00000",
		"Absent n2 vg_ssd0 pvc-moved_00000",
		"Stray n3 vg_ssd0 pvc-moved_00000",
		"InUse n2  pvc-new",
		"Larger n1 vg_ssd0 pvc-grown_00000",
		"Larger n3 vg_ssd0 pvc-grown_00000",
		"SnapshotAbsent n1 vg_ssd0 pvc-same_00000_before",
		"SnapshotAbsent n2 vg_ssd0 pvc-same_00000_before",
		"Unknown n1 vg_ssd0 pvc-same_00000_after",
		"Unknown n2 vg_ssd0 pvc-new_00000",
		"Unknown n2 vg_ssd0 pvc-same_00000_after",
	}
	if d := cmp.Diff(want, e.differences("n1", "n2", "n3")); d != "" {
		t.Errorf("later (-want +got):\n%s", d)
	}
	if got := e.differences("n2"); !strings.HasPrefix(strings.Join(got, "|"), "Absent n2 vg_ssd0 pvc-moved_00000|"+
		"InUse n2  pvc-new|SnapshotAbsent n2 vg_ssd0 pvc-same_00000_before|Unseen n1  |Unseen n3  |") {
		t.Errorf("with one node: %v", got)
	}
}

// TestCompareBackup: the operator compares a backup with what lies on the nodes, on request, without LINSTOR.
func TestCompareBackup(t *testing.T) {
	e := backupEnv{start(t, harness.Nodes(3))}
	e.Run()
	s3 := harness.BackupStore(&e.Administrator)
	e.Apply(harness.Manifest(harness.ThinPool + "  backup:\n" + s3))
	e.WaitPhase(v1alpha1.PhaseReady)
	volumes := e.Sim.World().Volumes()
	for _, name := range []string{"pvc-same", "pvc-deleted"} {
		if err := volumes.Create(name, 1<<20, "ssd", "n1", "n2"); err != nil {
			t.Fatal(err)
		}
	}
	e.Annotate(v1alpha1.AnnotationBackup, "1")
	e.backupIs("True", databasebackup.ReasonTaken)
	e.Annotate(v1alpha1.AnnotationCompareBackup, "manual-1")
	if c := e.compared("manual-1"); c.Nodes != 3 || len(c.Differences) > 0 || c.Taken == nil ||
		c.Message != "no differences: compared 4 volumes and snapshots in the backup with 3 nodes" {
		t.Errorf("at once: %+v", c)
	}
	e.WaitEvent(databasebackup.ReasonCompared, "no difference")

	if err := volumes.Delete("pvc-deleted"); err != nil {
		t.Fatal(err)
	}
	e.Annotate(v1alpha1.AnnotationCompareBackup, "")
	e.WaitStatus("it is forgotten", func(s *v1alpha1.StorageClusterStatus) bool { return s.Backup.Comparison == nil })
	e.Annotate(v1alpha1.AnnotationCompareBackup, "manual-1")
	c := e.compared("manual-1")
	if d := cmp.Diff(map[string]int32{"Absent": 2}, c.Differences); d != "" || len(c.Worst) != 2 || c.Worst[0] !=
		"Absent: vg_ssd0/pvc-deleted_00000 on n1: it is missing: LINSTOR recreates it EMPTY" {
		t.Errorf("later: %s%+v", d, c)
	}
	e.WaitEvent(databasebackup.ReasonCompared, "2 Absent")
	e.Eventually("only the pod that has compared is left", func() error {
		return errors.Join(harness.PodsOf(&e.Administrator, v1alpha1.ComponentListing, 0),
			harness.PodsOf(&e.Administrator, v1alpha1.ComponentComparison, 1))
	})

	e.Annotate(v1alpha1.AnnotationCompareBackup, "manual-2")
	if c := e.compared("manual-2"); c.Taken != nil || !strings.Contains(c.Message, "the store has no backup manual-2") {
		t.Errorf("one that is not there: %+v", c)
	}
	e.WaitEvent(databasebackup.ReasonNotCompared, "the store has no backup manual-2")

	e.bomb("manual-1")
	e.Annotate(v1alpha1.AnnotationCompareBackup, "manual-1")
	const says = "a single value in the export is larger than 8 MiB, which is the limit"
	if c := e.compared("manual-1"); c.Taken != nil || !strings.Contains(c.Message, says) {
		t.Errorf("one that is a bomb: %+v", c)
	}
}

// bomb puts a few bytes in the place of a backup that are very many once they are decompressed.
func (e backupEnv) bomb(id string) {
	e.T.Helper()
	server, err := harness.S3(e.Ctx)
	if err != nil {
		e.T.Fatal(err)
	}
	files, err := filepath.Glob(server.Path(e.Get().Spec.Backup.S3.Bucket, "tests/*/*-"+id+".json.gz"))
	if err != nil || len(files) != 1 {
		e.T.Fatalf("%s is in the files %v, %v", id, files, err)
	}
	var content bytes.Buffer
	zip := gzip.NewWriter(&content)
	_, err = zip.Write([]byte(`{"linstor_version":"` + strings.Repeat("1", 64<<20)))
	if err := errors.Join(err, zip.Close(), os.WriteFile(files[0], content.Bytes(), 0o600)); err != nil {
		e.T.Fatal(err)
	}
}

// compared waits until a backup was compared, or could not be.
func (e backupEnv) compared(id string) *backupspec.Comparison {
	e.T.Helper()
	return e.WaitStatus(id+" is compared", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Backup != nil && s.Backup.Comparison != nil && s.Backup.Comparison.Backup == id &&
			s.Backup.Comparison.Ended != nil
	}).Status.Backup.Comparison
}
