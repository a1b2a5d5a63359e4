package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	objects "github.com/linstor-dev/storagecluster-operator/pkg/resources/canary"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

const tried = `
  volumes:
    driver: {mode: Managed}
    storageClasses:
    - {name: fast, storagePools: [ssd], default: true}
    - {name: local, storagePools: [ssd], replicas: 1, remoteAccess: ReplicasOnly, parameters: {layerList: storage}}
` + harness.ThinPool

// startTrying is a cluster with the CSI driver, in which a try has failed after a few seconds.
func startTrying(t *testing.T) claimEnv {
	t.Helper()
	e := claimEnv{startWithDriver(t, harness.Nodes(3))}
	e.Timing.Deadlines[fsm.Canary] = machine.Slow(8 * time.Second)
	return e
}

// canarySays waits for the condition CanaryPassed in a phase, and returns the status.
func canarySays(e claimEnv, phase v1alpha1.Phase, status metav1.ConditionStatus,
	reason string) *v1alpha1.StorageCluster {
	e.T.Helper()
	what := fmt.Sprintf("%s with CanaryPassed %s", phase, reason)
	return e.WaitStatus(what, func(s *v1alpha1.StorageClusterStatus) bool {
		c := &v1alpha1.StorageCluster{Status: *s}
		return s.Phase == phase && harness.Condition(c, conditions.CanaryPassed) == string(status)+"/"+reason
	})
}

// canaryObjects are the claims and pods of tries.
func canaryObjects(e claimEnv) []string {
	e.T.Helper()
	var out []string
	ours := []client.ListOption{client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentCanary}}
	var claims corev1.PersistentVolumeClaimList
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&claims, &pods} {
		if err := e.Client().List(e.Ctx, list, ours...); err != nil {
			e.T.Fatal(err)
		}
	}
	for _, c := range claims.Items {
		out = append(out, "claim "+c.Name)
	}
	for _, p := range pods.Items {
		out = append(out, "pod "+p.Name)
	}
	return out
}

// noTrace checks that neither Kubernetes nor LINSTOR has anything of a try.
func noTrace(e claimEnv) {
	e.T.Helper()
	noTraceInKubernetes(e)
	v, err := e.Linstor().View(e.Ctx, linstor.ViewOptions{})
	if err != nil {
		e.T.Fatal(err)
	}
	if v.Volumes > 0 {
		e.T.Errorf("left in LINSTOR: %v", v.VolumeNames)
	}
}

// noTraceInKubernetes is that without LINSTOR, which may be gone.
func noTraceInKubernetes(e claimEnv) {
	e.T.Helper()
	if left := canaryObjects(e); len(left) > 0 {
		e.T.Errorf("left in Kubernetes: %v", left)
	}
	var volumes corev1.PersistentVolumeList
	if err := e.Client().List(e.Ctx, &volumes); err != nil {
		e.T.Fatal(err)
	}
	if n := len(volumes.Items); n > 0 {
		e.T.Errorf("left are %d PersistentVolumes", n)
	}
}

// passedAt is when each class passed.
func passedAt(c *v1alpha1.StorageCluster) map[string]time.Time {
	out := map[string]time.Time{}
	if st := c.Status.Canary; st != nil {
		for _, class := range st.Classes {
			if class.Result == volumespec.CanaryPassed && class.Passed != nil {
				out[class.Name] = class.Passed.Time
			}
		}
	}
	return out
}

// TestCanary: a cluster is Ready once a pod has written to a volume of each class and read it back, of which nothing
// is left; and so again when somebody asks for it.
func TestCanary(t *testing.T) {
	e := claimEnv{startWithDriver(t, harness.Nodes(3))}
	e.Run()
	e.Apply(harness.Manifest(tried))
	c := canarySays(e, v1alpha1.PhaseReady, metav1.ConditionTrue, canary.ReasonPassed)
	if !slices.ContainsFunc(e.Steps(c), func(s v1alpha1.Transition) bool { return s.From == v1alpha1.PhaseCanary }) {
		t.Errorf("history %+v", c.Status.History)
	}
	if got := passedAt(c); len(got) != 2 {
		t.Errorf("passed %v of %+v", got, c.Status.Canary)
	}
	e.WaitEvent("CanaryPassed", "StorageClass fast")
	e.WaitEvent("CanaryPassed", "StorageClass local")
	noTrace(e)

	e.Annotate(v1alpha1.AnnotationCanary, "again")
	e.WaitStatus("the classes passed again", func(s *v1alpha1.StorageClusterStatus) bool {
		again := passedAt(&v1alpha1.StorageCluster{Status: *s})
		return len(again) == 2 && s.Canary.Request != "" && s.Phase == v1alpha1.PhaseReady
	})
	noTrace(e)
	comeToRest(e.env)
	writes := e.AuditMark()
	e.During(settle, "nothing is written at rest", func() error {
		if got := e.Writes(writes); len(got) > 0 {
			return fmt.Errorf("%s %s", got[0].Verb, got[0].RequestURI)
		}
		return nil
	})
}

// TestCanaryAfterAnUpgrade: another version of LINSTOR is tried as a new cluster is, and a volume of before stays.
func TestCanaryAfterAnUpgrade(t *testing.T) {
	e := claimEnv{startWithDriver(t, harness.Nodes(3))}
	e.Timing.HealthLost = machine.Slow(10 * time.Second)
	e.Timing.Deadlines[fsm.Upgrading] = machine.Slow(90 * time.Second)
	e.Run()
	e.Apply(harness.Manifest("  version: " + oldVersion + tried))
	before := targets(&canarySays(e, v1alpha1.PhaseReady, metav1.ConditionTrue, canary.ReasonPassed).Status)
	claim := e.claim("data", "fast", "64Mi")
	e.writes("writer", claim.Name, "hello")
	e.Update(setVersion(newVersion))
	e.upgraded(3)
	e.WaitStatus("the classes passed with LINSTOR "+newVersion, func(s *v1alpha1.StorageClusterStatus) bool {
		passed, now := passedAt(&v1alpha1.StorageCluster{Status: *s}), targets(s)
		return s.Phase == v1alpha1.PhaseReady && len(passed) == 2 && now["fast"] != before["fast"] &&
			now["local"] != before["local"]
	})
	if left := canaryObjects(e); len(left) > 0 {
		t.Errorf("left in Kubernetes: %v", left)
	}
	if got := e.reads("reader", claim.Name, "/data/greeting"); got != "hello" {
		t.Errorf("the pod read %q", got)
	}
}

// targets are the fingerprints of what was tried of each class.
func targets(s *v1alpha1.StorageClusterStatus) map[string]string {
	out := map[string]string{}
	if s.Canary != nil {
		for _, c := range s.Canary.Classes {
			out[c.Name] = c.Target
		}
	}
	return out
}

// TestCanaryAfterReady: one that fails later makes the cluster Degraded, and asks nobody. It passes when its pod is
// deleted after the cause was removed.
func TestCanaryAfterReady(t *testing.T) {
	e := startTrying(t)
	e.Run()
	e.Apply(harness.Manifest(tried))
	canarySays(e, v1alpha1.PhaseReady, metav1.ConditionTrue, canary.ReasonPassed)
	e.Sim.Faults().SetCrash(kubelet.Canary, "", "dd: error reading: Input/output error")
	e.Annotate(v1alpha1.AnnotationCanary, "again")
	canarySays(e, v1alpha1.PhaseDegraded, metav1.ConditionFalse, canary.ReasonFailed)
	// Which of the two classes fails first is chance; once both have, the default class is named.
	c := e.WaitStatus("the default class is named", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Phase == v1alpha1.PhaseDegraded && strings.Contains(s.Attention, "fast, WriteAndRead")
	})
	if got := harness.Condition(c, conditions.Degraded); got != "True/"+canary.ReasonFailed || c.Status.Hold != nil {
		t.Errorf("condition Degraded %s, ATTENTION %q, hold %+v", got, c.Status.Attention, c.Status.Hold)
	}
	e.WaitEvent("CanaryFailed", "WriteAndRead", "Input/output error")
	e.Sim.Faults().SetCrash(kubelet.Canary, "", "")
	e.Annotate(v1alpha1.AnnotationCanary, "once more")
	canarySays(e, v1alpha1.PhaseReady, metav1.ConditionTrue, canary.ReasonPassed)
	noTrace(e)
}

// holdCanaryFailed: the satellites cannot make a device, and the claim has a volume all the same. It passes once they
// can.
func holdCanaryFailed(t *testing.T) {
	e := startTrying(t)
	e.Sim.Faults().SetCrash(kubelet.Canary, "", "dd: error reading: Input/output error")
	e.Run()
	e.Apply(harness.Manifest(tried))
	// Which of the two classes fails first is chance; the hold is about the first.
	h := e.held(v1alpha1.HoldCanaryFailed, "StorageClass ", ": WriteAndRead: ", "Input/output error", "describe pvc,pod")
	if got := canaryObjects(e); len(got) != 4 {
		t.Errorf("there for a look are %v", got)
	}
	h = e.retriedInVain(h)
	e.Sim.Faults().SetCrash(kubelet.Canary, "", "")
	e.answered(h, v1alpha1.OptionRetry)
	e.ready("3/3", "3/3")
	canarySays(e, v1alpha1.PhaseReady, metav1.ConditionTrue, canary.ReasonPassed)
	noTrace(e)
}

// TestCanaryWithoutDevices: claims are bound although no satellite can make a device (linstor-csi takes what LINSTOR
// has stored for complete); the hold says at which step the volumes fail. Once devices can be made, other volumes can.
func TestCanaryWithoutDevices(t *testing.T) {
	e := startTrying(t)
	deviceError := func(on bool) {
		for _, n := range []string{"n1", "n2", "n3"} {
			e.Sim.World().Machine(n).SetDeviceError(on)
		}
	}
	deviceError(true)
	e.Run()
	e.Apply(harness.Manifest(tried))
	h := e.held(v1alpha1.HoldCanaryFailed, "StorageClass fast: Attach: FailedAttachVolume: ", "has no device on node")
	for _, name := range []string{"fast", "local"} {
		claim := &corev1.PersistentVolumeClaim{}
		key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: objects.Name(name)}
		if err := e.Client().Get(e.Ctx, key, claim); err != nil || claim.Status.Phase != corev1.ClaimBound {
			t.Errorf("claim %s is %q, %v", name, claim.Status.Phase, err)
		}
	}
	deviceError(false)
	e.answered(h, v1alpha1.OptionRetry)
	canarySays(e, v1alpha1.PhaseReady, metav1.ConditionTrue, canary.ReasonPassed)
	noTrace(e)
}

// TestCanarySkipped: a human goes on without it, and the condition says so.
func TestCanarySkipped(t *testing.T) {
	e := startTrying(t)
	e.Sim.Faults().SetCrash(kubelet.Canary, "", "dd: error reading: Input/output error")
	e.Run()
	e.Apply(harness.Manifest(tried))
	e.answered(e.held(v1alpha1.HoldCanaryFailed), v1alpha1.OptionSkip)
	canarySays(e, v1alpha1.PhaseReady, metav1.ConditionUnknown, canary.ReasonSkipped)
	e.Eventually("nothing is left of it", func() error {
		if left := canaryObjects(e); len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
}

// TestCanaryIsDeletedWithTheCluster, before the driver that its volumes need.
func TestCanaryIsDeletedWithTheCluster(t *testing.T) {
	e := startTrying(t)
	e.Sim.Faults().SetCrash(kubelet.Canary, "", "dd: error reading: Input/output error")
	e.Run()
	e.Apply(harness.Manifest(tried))
	e.held(v1alpha1.HoldCanaryFailed)
	e.LetDelete()
	e.Remove()
	e.WaitGone()
	noTraceInKubernetes(e)
}

// TestCanaryGoesOn: an operator that was killed goes on with what the one before has begun.
func TestCanaryGoesOn(t *testing.T) {
	e := claimEnv{startWithDriver(t, harness.Nodes(3))}
	e.Run()
	e.Apply(harness.Manifest(tried))
	for _, what := range []struct {
		name string
		seen func(*v1alpha1.StorageClusterStatus) bool
	}{
		{"a try has begun", func(s *v1alpha1.StorageClusterStatus) bool { return s.Canary != nil }},
		{"a claim is there", func(*v1alpha1.StorageClusterStatus) bool { return len(canaryObjects(e)) > 0 }},
		{"a try is being cleaned up or has passed", func(s *v1alpha1.StorageClusterStatus) bool {
			return slices.ContainsFunc(s.Canary.Classes, func(c volumespec.CanaryClass) bool {
				return c.Step == volumespec.CanaryCleanUp || c.Result == volumespec.CanaryPassed
			})
		}},
	} {
		e.WaitStatus(what.name, what.seen)
		e.StopOperator()
		e.Run()
	}
	canarySays(e, v1alpha1.PhaseReady, metav1.ConditionTrue, canary.ReasonPassed)
	noTrace(e)
}

// TestCanarySnapshot: a cluster without a snapshot controller is Ready, and says what it lacks; with one, a snapshot
// is taken of each class's volume, of which nothing is left.
func TestCanarySnapshot(t *testing.T) {
	e := claimEnv{startWithDriver(t, harness.Nodes(3))}
	e.Timing.Deadlines[fsm.Canary] = machine.Slow(40 * time.Second)
	harness.InstallSnapshotAPI(e.Env)
	e.Run()
	e.Apply(harness.Manifest(tried))
	canarySays(e, v1alpha1.PhaseReady, metav1.ConditionTrue, canary.ReasonPassed)
	e.says(conditions.SnapshotsReady, canary.ReasonSnapshotFailed, "check that the snapshot controller")
	e.WaitEvent(canary.ReasonSnapshotFailed, "StorageClass fast")
	noTrace(e)

	harness.RunSnapshotController(e.Env)
	e.Annotate(v1alpha1.AnnotationCanary, "again")
	e.WaitStatus("a snapshot of each class's volume was taken", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.Canary != nil && len(s.Canary.Classes) == 2 &&
			!slices.ContainsFunc(s.Canary.Classes, func(c volumespec.CanaryClass) bool {
				return c.Result != volumespec.CanaryPassed || c.Snapshot == nil || c.Snapshot.Result != volumespec.CanaryPassed
			})
	})
	e.says(conditions.SnapshotsReady, conditions.ReasonAsExpected, "the CSI driver can take snapshots")
	noTrace(e)
	for _, list := range []client.ObjectList{&snapshotv1.VolumeSnapshotList{}, &snapshotv1.VolumeSnapshotContentList{}} {
		if err := e.Client().List(e.Ctx, list); err != nil {
			t.Fatal(err)
		}
		if n := meta.LenList(list); n > 0 {
			t.Errorf("left are %d of %T", n, list)
		}
	}
}
