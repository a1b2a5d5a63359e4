package canary_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest/canarytest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const snapshot = "VolumeSnapshot/linstor-canary-fast"

// written is a try whose pod has read back what it wrote, where the driver takes snapshots.
func written(t *testing.T, change ...func(bench)) bench {
	t.Helper()
	b, _ := begun(t, false, "pvc-1", corev1.PodSucceeded)
	clustertest.AddSnapshotter(b.World)
	for _, f := range change {
		f(b)
	}
	return b
}

// wants checks what one step does, and where the try is then.
func (b bench) wants(what string, step volumespec.CanaryStep, calls ...string) {
	b.t.Helper()
	got, e := b.step()
	if !slices.Equal(got, calls) {
		b.t.Errorf("%s: calls %v, want %v", what, got, calls)
	}
	if last := b.last("fast"); last.Step != step || e.State != cluster.Missing {
		b.t.Errorf("%s: status %+v, evidence %+v", what, last, e)
	}
}

func (b bench) snapshotResult() string {
	if v := b.last("fast").Snapshot; v != nil {
		return strings.TrimSpace(string(v.Result) + " " + v.Message)
	}
	return ""
}

// TestSnapshot goes from a volume that was written to until its claim goes. Each step is what a killed operator finds.
func TestSnapshot(t *testing.T) {
	b := written(t)
	b.wants("nothing is made before the status has it", volumespec.CanarySnapshot)
	b.wants("it is taken", volumespec.CanarySnapshot, "apply "+snapshot)
	v := canarytest.PutCanarySnapshot(b.World, "fast")
	b.wants("nobody has taken it up", volumespec.CanarySnapshot)
	v.Status = &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: ptr.To("c"), ReadyToUse: ptr.To(false)}
	b.wants("it is on its way", volumespec.CanarySnapshot)
	v.Status.ReadyToUse = ptr.To(true)
	b.wants("nothing goes before the status has it", volumespec.CanaryCleanUp)
	if got := b.snapshotResult(); got != "Passed" {
		t.Errorf("result %q", got)
	}
	b.wants("the claim waits for its snapshot", volumespec.CanaryCleanUp, "delete "+pod, "delete "+snapshot)
	clear(b.Kube.Canary.Pods)
	v.DeletionTimestamp = clustertest.At(b.Now)
	b.wants("it is on its way out", volumespec.CanaryCleanUp)
	if got := b.last("fast").Message; !strings.Contains(got, "VolumeSnapshot linstor-storage/linstor-canary-fast") {
		t.Errorf("message %q", got)
	}
	clear(b.Kube.Canary.Snapshots)
	b.wants("it has gone", volumespec.CanaryCleanUp, "delete "+claim)
	clear(b.Kube.Canary.Claims)
	clear(b.Kube.Canary.Volumes)
	b.Linstor.View.Sought = []string{"pvc-1"}
	if calls, e := b.step(); len(calls) > 0 || !e.OK() || b.last("fast").Result != volumespec.CanaryPassed {
		t.Errorf("calls %v, evidence %+v, status %+v", calls, e, b.last("fast"))
	}
	if calls, e := b.step(); len(calls) > 0 || !e.OK() || b.snapshotResult() != "Passed" {
		t.Errorf("at rest: calls %v, evidence %+v, snapshot %q", calls, e, b.snapshotResult())
	}
}

// TestASnapshotThatFails keeps nobody waiting: the try goes on, and says why.
func TestASnapshotThatFails(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*snapshotv1.VolumeSnapshot)
		words  string
	}{
		{"there is none", nil, "the VolumeSnapshot has not been created yet"},
		{"nobody has taken it up", func(*snapshotv1.VolumeSnapshot) {}, "check that the snapshot controller"},
		{"the driver says why", func(v *snapshotv1.VolumeSnapshot) {
			v.Status = &snapshotv1.VolumeSnapshotStatus{Error: &snapshotv1.VolumeSnapshotError{Message: ptr.To("no space")}}
		}, "no space"},
		{"the driver is silent", func(v *snapshotv1.VolumeSnapshot) {
			v.Status = &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: ptr.To("c")}
		}, "csi-snapshotter has not taken the snapshot yet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := written(t)
			b.step()
			if tc.change != nil {
				tc.change(canarytest.PutCanarySnapshot(b.World, "fast"))
			}
			b.step()
			if got := b.last("fast"); got.Step != volumespec.CanarySnapshot || !strings.Contains(got.Message, tc.words) {
				t.Errorf("status %+v", got)
			}
			b.Now = b.Now.Add(b.Snapshot().Timing.Deadlines[fsm.Canary]/5 + time.Second)
			b.step()
			if got := b.last("fast"); got.Step != volumespec.CanaryCleanUp || got.Result != volumespec.CanaryRunning ||
				!strings.HasPrefix(b.snapshotResult(), "Failed ") || !strings.Contains(b.snapshotResult(), tc.words) {
				t.Errorf("status %+v, snapshot %q", got, b.snapshotResult())
			}
			if why := canary.SnapshotTrouble(&b.Cluster.Status); !strings.Contains(why, tc.words) ||
				!strings.Contains(why, v1alpha1.AnnotationCanary) {
				t.Errorf("trouble %q", why)
			}
		})
	}
}

// TestASnapshotLeavesTimeForTheRemoval: the phase must not end with a question because of it.
func TestASnapshotLeavesTimeForTheRemoval(t *testing.T) {
	b := written(t)
	b.step()
	deadline := b.Snapshot().Timing.Deadlines[fsm.Canary]
	b.Phase(v1alpha1.PhaseCanary, deadline*9/10)
	b.step()
	if got := b.last("fast"); got.Step != volumespec.CanaryCleanUp || !strings.HasPrefix(b.snapshotResult(), "Failed") {
		t.Errorf("status %+v, snapshot %q", got, b.snapshotResult())
	}
}

// TestWhereNoSnapshotIsTaken: a try goes on as if there were none.
func TestWhereNoSnapshotIsTaken(t *testing.T) {
	for name, change := range map[string]func(bench){
		"no API": func(b bench) { b.Kube.Optional = optional.APIs{optional.Snapshots: nil} },
		"the spec wants none": func(b bench) {
			b.Cluster.Spec.Volumes.Snapshots.Mode = volumespec.SnapshotsNone
			b.Accept()
		},
		"snapshots would stay": func(b bench) {
			b.Cluster.Spec.Volumes.Snapshots.DeletionPolicy = volumespec.SnapshotsRetain
			b.Accept()
			class := resources.SnapshotClass(b.Snapshot().SatelliteParams(), true)
			b.Kube.Driver.SnapshotClasses[class.Name] = class
		},
		"somebody else's class": func(b bench) {
			delete(b.Kube.Driver.SnapshotClasses[volumespec.DefaultSnapshotClass].Labels, v1alpha1.LabelCluster)
		},
		"csi-snapshotter does not run": func(b bench) {
			b.Kube.Deployments[resources.DriverControllerName].Status.AvailableReplicas = 0
		},
		"a pool has none": func(b bench) {
			for _, p := range b.Node("n02").Pools {
				p.SupportsSnapshots = false
			}
		},
		"no pool": func(b bench) {
			for _, n := range b.Linstor.View.Nodes {
				clear(n.Pools)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := written(t, change)
			b.wants("it goes on", volumespec.CanaryCleanUp)
			if got := b.snapshotResult(); got != "" {
				t.Errorf("result %q", got)
			}
		})
	}
}

// TestOtherPoolsDoNotMatter: only those that the StorageClass names.
func TestOtherPoolsDoNotMatter(t *testing.T) {
	b := written(t, func(b bench) {
		e := fast
		for _, p := range b.Node("n01").Pools {
			e.StoragePools = []string{strings.ToUpper(p.Name)}
		}
		canarytest.RunClasses(b.World, e)
		clustertest.AddSnapshotter(b.World)
		b.Node("n01").Pools["thick"] = &linstor.Pool{Name: "thick"}
		b.step()
		canarytest.PutCanary(b.World, "fast", "pvc-1", corev1.PodSucceeded)
	})
	b.wants("it is taken", volumespec.CanarySnapshot)
}

// TestASnapshotThatCanBeTakenNow: the StorageClass is tried again, once.
func TestASnapshotThatCanBeTakenNow(t *testing.T) {
	b := passed(t)
	clustertest.AddSnapshotter(b.World)
	b.step()
	if got := b.last("fast"); got.Result != volumespec.CanaryRunning || got.Passed == nil {
		t.Errorf("status %+v", got)
	}
	for _, result := range []volumespec.CanaryResult{volumespec.CanaryPassed, volumespec.CanaryFailed} {
		b := passed(t)
		clustertest.AddSnapshotter(b.World)
		b.Cluster.Status.Canary.Classes[0].Snapshot = &volumespec.CanarySnapshotResult{Result: result}
		b.step()
		if got := b.last("fast"); got.Result != volumespec.CanaryPassed {
			t.Errorf("%s: status %+v", result, got)
		}
	}
}

// TestTheSnapshotOfAnEarlierClaim proves nothing, and goes.
func TestTheSnapshotOfAnEarlierClaim(t *testing.T) {
	b := written(t)
	b.step()
	v := canarytest.PutCanarySnapshot(b.World, "fast")
	v.Status = &snapshotv1.VolumeSnapshotStatus{ReadyToUse: ptr.To(true)}
	v.CreationTimestamp = *clustertest.At(b.Now.Add(-time.Hour))
	b.Kube.Canary.Claims[name].CreationTimestamp = *clustertest.At(b.Now)
	b.wants("it goes", volumespec.CanarySnapshot, "delete "+snapshot)
	if got := b.snapshotResult(); got != "" {
		t.Errorf("result %q", got)
	}
}
