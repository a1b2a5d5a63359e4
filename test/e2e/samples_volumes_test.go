package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// sampleText is a file of deploy/samples. Objects without a namespace get the default one, as kubectl does it.
func sampleText(t *testing.T, name ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "deploy", "samples"}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSamplesOfVolumes: an application gets a volume of the sample's StorageClass, a snapshot of it is restored, and
// the application runs on another node once its own is lost.
func TestSamplesOfVolumes(t *testing.T) {
	ns := harness.Nodes(3)
	for i := range ns {
		withVolumeGroup(i, &ns[i])
	}
	e := claimEnv{startWithDriver(t, ns)}
	harness.InstallSnapshotAPI(e.Env)
	if err := simcluster.RunSnapshotController(e.Ctx, e.Sim); err != nil {
		t.Fatal(err)
	}
	e.Run()
	e.Apply(sampleText(t, "storagecluster.yaml"))
	e.WaitPhase(v1alpha1.PhaseReady)
	e.says(conditions.SnapshotsReady, conditions.ReasonAsExpected)

	e.Apply(sampleText(t, "volumes", "application.yaml"))
	first := e.applicationOn("")
	e.Apply(sampleText(t, "volumes", "snapshot.yaml"))
	e.taken("data-before")

	if err := e.Sim.KillNode(e.Ctx, first.Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	lost := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: first.Spec.NodeName}}
	if err := e.Client().Get(e.Ctx, client.ObjectKeyFromObject(lost), lost); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(lost.DeepCopy())
	lost.Spec.Taints = append(lost.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown",
		Effect: corev1.TaintEffectNoExecute})
	if err := e.Client().Patch(e.Ctx, lost, patch); err != nil {
		t.Fatal(err)
	}
	second := e.applicationOn(first.Spec.NodeName)

	e.Apply(sampleText(t, "volumes", "restored.yaml"))
	restored := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "restored"}}
	e.phase(restored, corev1.PodSucceeded)
	if got, want := said(restored), "written by "+first.Name+"\n"; got != want {
		t.Errorf("restored: %q, want %q", got, want)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}
	pv := e.bound(claim)
	remove(e.env, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "application"}})
	gone(e.env, second)
	want := "written by " + first.Name + "\nwritten by " + second.Name + "\n"
	if got := e.reads("reader", claim.Name, "/data/log"); got != want {
		t.Errorf("the volume has %q, want %q", got, want)
	}
	if held := e.Sim.World().Volumes().Data(pv.Spec.CSI.VolumeHandle); len(held) != 2 {
		t.Errorf("copies on %v", held)
	}
}

// applicationOn waits until the sample's application runs, on any node but one.
func (e claimEnv) applicationOn(but string) *corev1.Pod {
	e.T.Helper()
	var pod *corev1.Pod
	e.Eventually("the application runs on another node than "+but, func() error {
		var list corev1.PodList
		if err := e.Client().List(e.Ctx, &list, client.InNamespace("default"),
			client.MatchingLabels{"app": "application"}); err != nil {
			return err
		}
		var said []string
		for i := range list.Items {
			p := &list.Items[i]
			if cluster.PodReady(p) && p.Spec.NodeName != but {
				pod = p
				return nil
			}
			said = append(said, p.Name+" on "+p.Spec.NodeName+": "+string(p.Status.Phase)+"; "+e.eventsOf(p.Name))
		}
		return fmt.Errorf("it does not: %s", strings.Join(said, "; "))
	})
	return pod
}
