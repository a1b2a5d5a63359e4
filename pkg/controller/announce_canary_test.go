package controller

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
)

// TestEachTryThatEndsIsAnEvent, once: also where it ends as the one before.
func TestEachTryThatEndsIsAnEvent(t *testing.T) {
	at := func(s int64) *metav1.Time { return &metav1.Time{Time: time.Unix(s, 0)} }
	with := func(c volumespec.CanaryClass) *v1alpha1.StorageCluster {
		c.Name = "fast"
		out := storageCluster(nil)
		out.Status.Canary = &volumespec.CanaryStatus{Classes: []volumespec.CanaryClass{c}}
		return out
	}
	running := with(volumespec.CanaryClass{Result: volumespec.CanaryRunning})
	passed := with(volumespec.CanaryClass{Result: volumespec.CanaryPassed, Passed: at(1)})
	again := with(volumespec.CanaryClass{Result: volumespec.CanaryPassed, Passed: at(2)})
	failed := with(volumespec.CanaryClass{Result: volumespec.CanaryFailed, Step: volumespec.CanaryMount,
		Message: "no device"})
	noSnapshot := with(volumespec.CanaryClass{Result: volumespec.CanaryRunning,
		Snapshot: &volumespec.CanarySnapshotResult{Result: volumespec.CanaryFailed, Message: "timed out"}})
	const good = "event Normal CanaryPassed fast: a pod wrote data to a test volume of StorageClass fast and read it " +
		"back; the volume has been deleted"
	for _, tc := range []struct {
		name          string
		before, after *v1alpha1.StorageCluster
		want          []string
	}{
		{"it begins", storageCluster(nil), running, nil},
		{"it passes", running, passed, []string{good}},
		{"at rest", passed, passed, nil},
		{"it passes again", passed, again, []string{good}},
		{"it fails", running, failed,
			[]string{"event Warning CanaryFailed fast Mount: StorageClass fast: Mount: no device"}},
		{"it has failed", failed, failed, nil},
		{"no snapshot can be taken", running, noSnapshot, []string{"event Warning CanarySnapshotFailed fast: the test " +
			"snapshot of StorageClass fast failed: timed out"}},
		{"none could be taken", noSnapshot, noSnapshot, nil},
	} {
		b := newBench(t, tc.after)
		b.log = nil
		b.r.announceCanary(tc.before, tc.after)
		if !slices.Equal(b.log, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, b.log, tc.want)
		}
	}
}
