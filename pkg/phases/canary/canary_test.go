package canary_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest/canarytest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
)

const (
	name  = "linstor-canary-fast"
	pod   = "Pod/" + name
	claim = "PersistentVolumeClaim/" + name
)

var fast = volumespec.StorageClassSpec{Name: "fast"}

// bench is a cluster whose volumes are tried.
type bench struct {
	*clustertest.World
	t *testing.T
}

// trying is a cluster that is being installed, or was Ready once, and has StorageClasses.
func trying(t *testing.T, ready bool, entries ...volumespec.StorageClassSpec) bench {
	t.Helper()
	w := clustertest.NewWorld(t, 3)
	canarytest.RunClasses(w, entries...)
	if !ready {
		w.Phase(v1alpha1.PhaseCanary, 0)
		w.Cluster.Status.FirstReady = nil
	}
	return bench{w, t}
}

// step does what a reconcile does about tries, and returns the writes and the evidence.
func (b bench) step() ([]string, cluster.Evidence) {
	b.t.Helper()
	in, r := b.Input()
	e := canary.Link().Judge(in.Snapshot)
	if err := canary.Link().Work(b.t.Context(), in); err != nil {
		b.t.Fatal(err)
	}
	b.Cluster.Status.Canary = canary.Status(in.Snapshot, nil)
	return r.Calls, e
}

// last is what the status says of a StorageClass.
func (b bench) last(class string) volumespec.CanaryClass {
	b.t.Helper()
	if st := b.Cluster.Status.Canary; st != nil {
		for _, c := range st.Classes {
			if c.Name == class {
				return c
			}
		}
	}
	return volumespec.CanaryClass{}
}

// begun is a cluster whose try of the class fast has begun, with claim and pod; see PutCanary.
func begun(t *testing.T, ready bool, volume string, phase corev1.PodPhase) (bench, *corev1.Pod) {
	t.Helper()
	b := trying(t, ready, fast)
	b.step()
	_, p := canarytest.PutCanary(b.World, "fast", volume, phase)
	return b, p
}

// TestLife goes through a try from the first look to rest. Each step is what a killed operator finds.
func TestLife(t *testing.T) {
	b := trying(t, false, fast)
	look := func(what string, calls []string, state cluster.EvidenceState, step volumespec.CanaryStep) {
		t.Helper()
		got, e := b.step()
		if diff := cmp.Diff(calls, got); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", what, diff)
		}
		if e.State != state {
			t.Errorf("%s: evidence %+v", what, e)
		}
		if got := b.last("fast"); got.Step != step {
			t.Errorf("%s: status %+v", what, got)
		}
	}
	look("nothing is made before the status has it", nil, cluster.Missing, volumespec.CanaryProvision)
	look("it begins", []string{"apply " + claim, "apply " + pod}, cluster.Missing, volumespec.CanaryProvision)
	_, p := canarytest.PutCanary(b.World, "fast", "", corev1.PodPending)
	look("no volume yet", nil, cluster.Missing, volumespec.CanaryProvision)
	canarytest.PutCanary(b.World, "fast", "pvc-1", corev1.PodSucceeded)
	look("nothing goes before the status has it", nil, cluster.Missing, volumespec.CanaryCleanUp)
	if got := b.last("fast").Volume; got != "pvc-1" {
		t.Errorf("volume %q", got)
	}
	look("it goes", []string{"delete " + pod, "delete " + claim}, cluster.Missing, volumespec.CanaryCleanUp)
	delete(b.Kube.Canary.Pods, name)
	p.DeletionTimestamp = clustertest.At(b.Now)
	b.Kube.Canary.Claims[name].DeletionTimestamp = clustertest.At(b.Now)
	look("what is on its way is not deleted again", nil, cluster.Missing, volumespec.CanaryCleanUp)
	clear(b.Kube.Canary.Claims)
	look("its PersistentVolume is there", nil, cluster.Missing, volumespec.CanaryCleanUp)
	clear(b.Kube.Canary.Volumes)
	look("LINSTOR was not asked", nil, cluster.Missing, volumespec.CanaryCleanUp)
	if got := canary.Leaving(&b.Snapshot().Facts); !slices.Equal(got, []string{"pvc-1"}) {
		t.Errorf("LINSTOR is asked about %v", got)
	}
	b.Linstor.View.Sought, b.Linstor.View.Found = []string{"pvc-1"}, []string{"pvc-1"}
	look("LINSTOR has it", nil, cluster.Missing, volumespec.CanaryCleanUp)
	b.Linstor.View.Found = nil
	look("LINSTOR has it no longer", nil, cluster.Satisfied, "")
	if got := b.last("fast"); got.Result != volumespec.CanaryPassed || !got.Passed.Time.Equal(b.Now) || got.Volume != "" {
		t.Errorf("status %+v", got)
	}
	rest := b.Cluster.Status.Canary.DeepCopy()
	b.Now = b.Now.Add(time.Hour)
	b.Linstor.View.Sought = nil
	look("rest", nil, cluster.Satisfied, "")
	if diff := cmp.Diff(rest, b.Cluster.Status.Canary); diff != "" {
		t.Errorf("a status at rest changes:\n%s", diff)
	}
}

func waiting(reason, message string) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{Name: "canary", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
}

// TestSteps: what is seen of claim and pod says which step a try is at, and why it does not go on.
func TestSteps(t *testing.T) {
	warn := func(reason, message string) func(bench, *corev1.Pod) {
		return func(b bench, p *corev1.Pod) {
			b.Kube.Warnings = map[string][]cluster.Warning{p.Name: {{Reason: reason, Message: message}}}
		}
	}
	for _, tc := range []struct {
		name    string
		volume  string
		phase   corev1.PodPhase
		change  func(bench, *corev1.Pod)
		step    volumespec.CanaryStep
		message string
	}{
		{"no volume", "", corev1.PodPending, nil, volumespec.CanaryProvision,
			"the PersistentVolumeClaim has not been bound yet"},
		{"no volume, and the provisioner says why", "", corev1.PodPending,
			warn("ProvisioningFailed", "Not enough available nodes"), volumespec.CanaryProvision,
			"ProvisioningFailed: Not enough available nodes"},
		{"no volume, and the class cannot be satisfied any more", "", corev1.PodPending, func(b bench, _ *corev1.Pod) {
			b.Node("n01").Status, b.Node("n02").Status = "OFFLINE", "OFFLINE"
		}, volumespec.CanaryProvision, "2 replicas require as many nodes, but 1 node can hold a replica"},
		{"the pod has no node", "pvc-1", corev1.PodPending, func(_ bench, p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Message: "0/3 nodes are available"}}
		}, volumespec.CanaryAttach, "the pod cannot be scheduled: 0/3 nodes are available"},
		{"not attached", "pvc-1", corev1.PodPending, nil, volumespec.CanaryAttach, "the volume has not been attached yet"},
		{"cannot be attached", "pvc-1", corev1.PodPending, warn("FailedAttachVolume", "node n1 is not online"),
			volumespec.CanaryAttach, "FailedAttachVolume: node n1 is not online"},
		{"cannot be mounted", "pvc-1", corev1.PodPending, warn("FailedMount", "no such device"),
			volumespec.CanaryMount, "FailedMount: no such device"},
		{"no image", "pvc-1", corev1.PodPending, func(_ bench, p *corev1.Pod) {
			p.Status.ContainerStatuses = waiting("ImagePullBackOff", "not found")
		}, volumespec.CanaryMount, "ImagePullBackOff: not found"},
		{"it writes", "pvc-1", corev1.PodRunning, func(_ bench, p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{}}}}
		}, volumespec.CanaryWriteAndRead, "is writing data and reading it back"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, p := begun(t, false, tc.volume, tc.phase)
			if tc.change != nil {
				tc.change(b, p)
			}
			calls, e := b.step()
			last := b.last("fast")
			if last.Step != tc.step || !strings.Contains(last.Message, tc.message) || last.Result != volumespec.CanaryRunning {
				t.Errorf("status %+v, want %s: %s", last, tc.step, tc.message)
			}
			if len(calls) > 0 || e.State != cluster.Missing || !strings.Contains(e.Message, tc.message) {
				t.Errorf("calls %v, evidence %+v", calls, e)
			}
		})
	}
}

// TestFailure: before the cluster was Ready a human is asked, afterwards it is Degraded; claim and pod stay for a
// look, and the try goes on by itself once the pod succeeds.
func TestFailure(t *testing.T) {
	crash := func(_ bench, p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "canary", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "what was read is not what was written"}}}}
	}
	late := func(b bench, _ *corev1.Pod) {
		b.Cluster.Status.Canary.Classes[0].Since = *clustertest.At(b.Now.Add(-time.Hour))
	}
	for _, tc := range []struct {
		name   string
		ready  bool
		change func(bench, *corev1.Pod)
		state  cluster.EvidenceState
		step   volumespec.CanaryStep
		words  string
	}{
		{"the pod fails", false, crash, cluster.Failed, volumespec.CanaryWriteAndRead, "not what was written"},
		{"the pod fails later", true, crash, cluster.Enough, volumespec.CanaryWriteAndRead, "not what was written"},
		{"it takes too long", false, late, cluster.Failed, volumespec.CanaryAttach, "not been attached yet"},
		{"it takes too long later", true, late, cluster.Enough, volumespec.CanaryAttach, "not been attached yet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, p := begun(t, tc.ready, "pvc-1", corev1.PodPending)
			tc.change(b, p)
			calls, e := b.step()
			last := b.last("fast")
			if last.Result != volumespec.CanaryFailed || last.Step != tc.step || !strings.Contains(last.Message, tc.words) {
				t.Errorf("status %+v", last)
			}
			if len(calls) > 0 || e.State != tc.state || !strings.Contains(e.Message, tc.words) {
				t.Errorf("calls %v, evidence %+v", calls, e)
			}
			b.asks(e, !tc.ready)
			if got := b.Snapshot().Health; got.Degraded != tc.ready {
				t.Errorf("health %+v", got)
			}
			if !tc.ready {
				b.Phase(v1alpha1.PhaseHumanIntervention, 0)
			}
			b.succeeds(p)
		})
	}
}

// asks checks that a human is asked, and told where to look; or that nobody is.
func (b bench) asks(e cluster.Evidence, human bool) {
	b.t.Helper()
	if (e.Hold != nil) != human || human && !strings.Contains(e.Hold.Message, "describe pvc,pod "+name) {
		b.t.Errorf("hold %+v", e.Hold)
	}
}

// succeeds lets the pod of a try that has failed succeed after all: the try goes on.
func (b bench) succeeds(p *corev1.Pod) {
	b.t.Helper()
	p.Status = corev1.PodStatus{Phase: corev1.PodSucceeded}
	b.step()
	if got := b.last("fast"); got.Result != volumespec.CanaryRunning || got.Step != volumespec.CanaryCleanUp {
		b.t.Errorf("the pod has succeeded, but the status is %+v", got)
	}
	if calls, e := b.step(); len(calls) != 2 || e.State == cluster.Failed {
		b.t.Errorf("calls %v, evidence %+v", calls, e)
	}
}

// TestAnEvictedPodSaysNothing: it is replaced, and the try goes on.
func TestAnEvictedPodSaysNothing(t *testing.T) {
	b, p := begun(t, false, "pvc-1", corev1.PodFailed)
	p.Status.Reason = "Evicted"
	calls, e := b.step()
	if !slices.Equal(calls, []string{"delete " + pod}) || e.State != cluster.Missing {
		t.Errorf("calls %v, evidence %+v", calls, e)
	}
}

// TestWhenNoTryBegins: what hinders a try is said, and nothing is made. A cluster that was Ready stays so.
func TestWhenNoTryBegins(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(bench)
		message string
	}{
		{"suspended", func(b bench) { b.Cluster.Spec.Suspend = true }, "spec.suspend is set"},
		{"LINSTOR is silent", func(b bench) { b.Silent(errors.New("refused")) }, "LINSTOR does not respond"},
		{"LINSTOR connects", func(b bench) {
			b.Node("n01").Status = linstor.StatusOffline
			b.Condition(conditions.Available, metav1.ConditionTrue, 2*time.Second)
		}, "LINSTOR is connecting to its satellites"},
		{"an upgrade", func(b bench) {
			b.Upgrading(v1alpha1.UpgradePrechecks)
			b.Phase(v1alpha1.PhaseReady, 0)
		}, "LINSTOR is being upgraded"},
		{"a mass failure", func(b bench) {
			b.NodeDown("n01", 0)
			b.NodeDown("n02", 0)
		}, "many nodes failed at once"},
		{"the driver's pods are exchanged", func(b bench) {
			b.Kube.Deployments["linstor-csi-controller"].Status.UpdatedReplicas = 0
		}, "pods are being replaced"},
		{"no kubelet has the driver", func(b bench) { clear(b.Kube.Driver.Nodes) }, "the CSI driver is not ready"},
		{"a full pool", func(b bench) {
			meta.SetStatusCondition(&b.Cluster.Status.Conditions, metav1.Condition{Type: conditions.PoolsNearlyFull,
				Status: metav1.ConditionTrue})
		}, "a storage pool is nearly full"},
		{"another hold", func(b bench) { b.Phase(v1alpha1.PhaseHumanIntervention, 0) }, "in phase HumanIntervention"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := trying(t, true, fast)
			b.Cluster.Status.FirstReady = clustertest.At(b.Now)
			tc.change(b)
			for range 2 {
				calls, e := b.step()
				if len(calls) > 0 || e.State != cluster.Satisfied || e.Reason != canary.ReasonPutOff ||
					!strings.Contains(e.Message, tc.message) {
					t.Errorf("calls %v, evidence %+v", calls, e)
				}
			}
			if got := b.last("fast"); got.Result != "" {
				t.Errorf("begun: %+v", got)
			}
		})
	}
}

// TestAFullPoolDoesNotHoldUpAnInstallation, while everything else that hinders a try does.
func TestAFullPoolDoesNotHoldUpAnInstallation(t *testing.T) {
	b := trying(t, false, fast)
	b.Cluster.Spec.Suspend = true
	if _, e := b.step(); e.State != cluster.Missing {
		t.Errorf("suspended: %+v", e)
	}
	b.Cluster.Spec.Suspend = false
	meta.SetStatusCondition(&b.Cluster.Status.Conditions, metav1.Condition{Type: conditions.PoolsNearlyFull,
		Status: metav1.ConditionTrue})
	if _, e := b.step(); e.State != cluster.Satisfied || e.Reason != canary.ReasonPutOff {
		t.Errorf("a full pool: %+v", e)
	}
}
