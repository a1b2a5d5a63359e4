package databasebackup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/listing"
)

// TestListings runs the command of the container that lists, with the directory of a file pool and no tools of LVM.
func TestListings(t *testing.T) {
	pool, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(pool, "pvc-1_00000.img"), make([]byte, 2048), 0o600); err != nil {
		t.Fatal(err)
	}
	release, _ := catalogue.Embedded().Release(catalogue.Embedded().Newest())
	spec := &v1alpha1.StorageClusterSpec{StoragePools: []v1alpha1.StoragePoolSpec{{Name: "files",
		FileThin: &v1alpha1.FilePool{Directory: pool}}}}
	ds := Listings(resources.Params{Cluster: v1alpha1.ClusterName, Spec: spec, Release: release}, "operator", "token")
	pod := &ds.Spec.Template.Spec
	mounted := map[string]bool{}
	for _, m := range pod.InitContainers[0].VolumeMounts {
		mounted[m.MountPath] = !m.ReadOnly
	}
	if _, ok := mounted[pool]; !ok || mounted[pool] || !mounted["/run/lock"] {
		t.Errorf("mounts %+v: the pool must be there, and LVM must be able to lock", pod.InitContainers[0].VolumeMounts)
	}
	command := pod.InitContainers[0].Command
	command[2] = strings.ReplaceAll(command[2], listingFile, filepath.Join(dir, "listing"))
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.Open(filepath.Join(dir, "listing"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	l, err := listing.Parse(file, listing.Room())
	if err != nil {
		t.Fatal(err)
	}
	if at := l.At(listing.Place{Kind: listing.Directory, Name: pool}); at == nil || at.Volumes["pvc-1_00000.img"] != 2 {
		t.Errorf("the directory has %+v", at)
	}
}

// TestComparisonPod: two comparisons that begin in the same second are two, or the second one took over the result of
// the first.
func TestComparisonPod(t *testing.T) {
	by, begun := &v1alpha1.StorageCluster{}, time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	first, second := ComparisonPod(by, begun), ComparisonPod(by, begun.Add(time.Nanosecond))
	if first == second || first != ComparisonPod(by, begun) || Token(first) == Token(second) {
		t.Errorf("%s and %s, for %s and %s", first, second, Token(first), Token(second))
	}
}
