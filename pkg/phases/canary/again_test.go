package canary_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest/canarytest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
)

// TestWhatIsTried: the default class and two more, of those that can be satisfied and leave nothing behind.
func TestWhatIsTried(t *testing.T) {
	named := func(name string, replicas int32) volumespec.StorageClassSpec {
		return volumespec.StorageClassSpec{Name: name, Replicas: replicas}
	}
	main, kept := named("main", 2), named("akept", 2)
	main.Default, kept.ReclaimPolicy = true, corev1.PersistentVolumeReclaimRetain
	b := trying(t, false, named("ab", 2), kept, named("az", 2), named("azz", 2), named("awide", 5), main)
	b.step()
	var got []string
	for _, c := range b.Cluster.Status.Canary.Classes {
		got = append(got, c.Name)
	}
	if want := []string{"main", "ab", "az"}; !slices.Equal(got, want) {
		t.Errorf("tried are %v, want %v", got, want)
	}
}

// TestWhatIsNotWanted is satisfied, and what is left of a try goes.
func TestWhatIsNotWanted(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*volumespec.VolumesSpec)
		reason string
	}{
		{"None", func(v *volumespec.VolumesSpec) { v.Canary = volumespec.CanaryNone }, canary.ReasonNotWanted},
		{"no driver", func(v *volumespec.VolumesSpec) { v.Driver.Mode = volumespec.DriverNone }, canary.ReasonNotWanted},
		{"no class", func(v *volumespec.VolumesSpec) { v.StorageClasses = nil }, canary.ReasonNoClass},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, _ := begun(t, false, "pvc-1", corev1.PodPending)
			tc.change(&b.Cluster.Spec.Volumes)
			b.Accept()
			calls, e := b.step()
			if want := []string{"delete " + pod, "delete " + claim}; !slices.Equal(calls, want) {
				t.Errorf("calls %v, want %v", calls, want)
			}
			if e.State != cluster.Satisfied || e.Reason != tc.reason || b.Cluster.Status.Canary != nil {
				t.Errorf("evidence %+v, status %+v", e, b.Cluster.Status.Canary)
			}
		})
	}
}

// passed is a cluster at rest whose class was tried.
func passed(t *testing.T) bench {
	t.Helper()
	b := trying(t, true, fast)
	b.step()
	c := &b.Cluster.Status.Canary.Classes[0]
	c.Result, c.Step, c.Message, c.Passed = volumespec.CanaryPassed, "", "", clustertest.At(b.Now)
	return b
}

// TestAgain: a passed try is repeated after what it depends on has changed, and on request, once.
func TestAgain(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(bench)
		again  bool
	}{
		{"nothing", func(bench) {}, false},
		{"an hour", func(b bench) { b.Now = b.Now.Add(time.Hour) }, false},
		{"a request", func(b bench) { b.Cluster.Annotations = map[string]string{v1alpha1.AnnotationCanary: "1"} }, true},
		{"claims may not grow", func(b bench) {
			no := false
			b.Cluster.Spec.Volumes.StorageClasses[0].AllowVolumeExpansion = &no
			canarytest.RunClasses(b.World, b.Cluster.Spec.Volumes.StorageClasses...)
		}, false},
		{"other mount options", func(b bench) {
			b.Cluster.Spec.Volumes.StorageClasses[0].MountOptions = []string{"noatime"}
			canarytest.RunClasses(b.World, b.Cluster.Spec.Volumes.StorageClasses...)
		}, true},
		{"it cannot be satisfied for a while", func(b bench) {
			b.Node("n01").Status, b.Node("n02").Status = "OFFLINE", "OFFLINE"
			b.step()
			b.Node("n01").Status, b.Node("n02").Status = "ONLINE", "ONLINE"
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := passed(t)
			tc.change(b)
			_, e := b.step()
			last := b.last("fast")
			if again := last.Result == volumespec.CanaryRunning; again != tc.again || last.Passed == nil {
				t.Errorf("status %+v", last)
			}
			if !e.OK() {
				t.Errorf("evidence %+v", e)
			}
		})
	}
}

// TestARequestCountsOnce: neither the annotation that stays nor the one that is taken away asks again.
func TestARequestCountsOnce(t *testing.T) {
	b := passed(t)
	b.Cluster.Annotations = map[string]string{v1alpha1.AnnotationCanary: "1"}
	b.step()
	c := &b.Cluster.Status.Canary.Classes[0]
	c.Result, c.Step = volumespec.CanaryPassed, ""
	for _, annotations := range []map[string]string{b.Cluster.Annotations, nil} {
		b.Cluster.Annotations = annotations
		b.step()
		if got := b.last("fast"); got.Result != volumespec.CanaryPassed {
			t.Errorf("annotations %v: %+v", annotations, got)
		}
	}
}

// TestAnswers: retry removes what is there and begins anew, skip goes on without it.
func TestAnswers(t *testing.T) {
	for option, want := range map[string]volumespec.CanaryResult{
		v1alpha1.OptionRetry: "", v1alpha1.OptionSkip: volumespec.CanarySkipped,
	} {
		t.Run(option, func(t *testing.T) {
			b, p := begun(t, false, "pvc-1", corev1.PodFailed)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}}
			b.step()
			b.Cluster.Status.Canary = canary.Status(b.Snapshot(), &hold.Answer{Cluster: true, Option: option,
				Hold: &v1alpha1.Hold{Reason: v1alpha1.HoldCanaryFailed}})
			if got := b.last("fast").Result; got != want {
				t.Fatalf("result %q, want %q", got, want)
			}
			calls, e := b.step()
			if !slices.Equal(calls, []string{"delete " + pod, "delete " + claim}) {
				t.Errorf("calls %v", calls)
			}
			if skipped := option == v1alpha1.OptionSkip; skipped != (e.State == cluster.Satisfied) ||
				skipped != (e.Reason == canary.ReasonSkipped) {
				t.Errorf("evidence %+v", e)
			}
			clear(b.Kube.Canary.Pods)
			clear(b.Kube.Canary.Claims)
			b.step()
			if got := b.last("fast").Result; option == v1alpha1.OptionRetry && got != volumespec.CanaryRunning {
				t.Errorf("nothing begins anew: %q", got)
			}
		})
	}
}

// TestTheHoldOfATryThatCouldNotBegin ends once nothing hinders it any more.
func TestTheHoldOfATryThatCouldNotBegin(t *testing.T) {
	b := trying(t, false, fast)
	b.Phase(v1alpha1.PhaseHumanIntervention, 0)
	for _, tc := range []struct {
		name   string
		change func()
		want   hold.Cause
	}{
		{"nothing hinders", func() {}, hold.CauseGone},
		{"it has begun", func() {
			b.Phase(v1alpha1.PhaseCanary, 0)
			b.step()
			b.Phase(v1alpha1.PhaseHumanIntervention, 0)
		}, hold.CauseShownByLink},
		{"LINSTOR is silent", func() { b.Silent(errors.New("refused")) }, hold.CauseShownByLink},
	} {
		tc.change()
		in, _ := b.Input()
		if got := canary.Cause(in, nil); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestLeftovers are named, and what is not of a try is left alone.
func TestLeftovers(t *testing.T) {
	b, p := begun(t, false, "pvc-1", corev1.PodPending)
	in, r := b.Input()
	left, err := canary.Remove(t.Context(), in)
	if err != nil || left != "Pod "+name || len(r.Calls) != 2 {
		t.Errorf("%q %v, calls %v", left, err, r.Calls)
	}
	p.DeletionTimestamp = clustertest.At(b.Now)
	b.Kube.Canary.Claims[name].DeletionTimestamp = clustertest.At(b.Now)
	in, r = b.Input()
	if left, err := canary.Remove(t.Context(), in); err != nil || left == "" || len(r.Calls) > 0 {
		t.Errorf("%q %v, calls %v", left, err, r.Calls)
	}
	if e := in.Snapshot.Evidence[fsm.Canary]; e.Reason != canary.ReasonRunning {
		t.Errorf("evidence %+v", e)
	}
}
