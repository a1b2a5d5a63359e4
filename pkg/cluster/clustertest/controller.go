package clustertest

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Secret writes a Secret.
func (w *World) Secret(name string, data map[string]string) {
	w.secrets++
	s := &corev1.Secret{Data: map[string][]byte{}}
	s.Name, s.ResourceVersion = name, fmt.Sprint(w.secrets)
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	w.Kube.Secrets[name] = s
}

// CrashController makes the controller fail with LINSTOR's last words.
func (w *World) CrashController(restarts int32, message string) {
	w.Linstor = cluster.Linstor{}
	p := w.Kube.ControllerPods[0]
	p.Status.Conditions = nil
	p.Status.ContainerStatuses = []corev1.ContainerStatus{Crashing(resources.ControllerContainer, restarts, message)}
}

// Unclaimed removes the claim.
func (w *World) Unclaimed() { delete(w.Kube.ConfigMaps, resources.ClaimName) }

// CheckEvidence compares what all tables of evidence have in common.
func CheckEvidence(
	t *testing.T, e cluster.Evidence, state cluster.EvidenceState, reason string, lost bool, hold v1alpha1.HoldReason,
) {
	t.Helper()
	if e.State != state || e.Reason != reason || e.Lost != lost {
		t.Errorf("got %s/%s lost=%t (%s), want %s/%s lost=%t", e.State, e.Reason, e.Lost, e.Message, state, reason, lost)
	}
	if e.Message == "" {
		t.Error("no message")
	}
	var got v1alpha1.HoldReason
	if e.Hold != nil {
		got = e.Hold.Reason
	}
	if got != hold {
		t.Errorf("hold %q, want %q", got, hold)
	}
	if (e.State == cluster.Failed) != (e.Hold != nil) {
		t.Errorf("state %s with hold %v: only a failure opens a hold", e.State, e.Hold)
	}
}

// AppliedClaim is the claim that was written last; nil if none was.
func AppliedClaim(t testing.TB, r *Record) *resources.ClaimData {
	t.Helper()
	for i := len(r.Applied) - 1; i >= 0; i-- {
		if cm, ok := r.Applied[i].(*corev1.ConfigMap); ok && cm.Name == resources.ClaimName {
			data, err := resources.ClaimFrom(cm)
			if err != nil {
				t.Fatal(err)
			}
			return &data
		}
	}
	return nil
}

// Versions of LINSTOR of an upgrade.
const (
	FromVersion = "1.34.2"
	ToVersion   = "1.35.3"
)

// Upgrading puts the world into a step of an upgrade from 1.34.2 to 1.35.3, with everything as it is when the step
// begins.
func (w *World) Upgrading(step v1alpha1.UpgradeStep) {
	w.T.Helper()
	held := w.Cluster.Status.Phase == v1alpha1.PhaseHumanIntervention
	w.Cluster.Spec.Version, w.Cluster.Status.Version = FromVersion, FromVersion
	Runs(w, FromVersion)
	w.Settle()
	w.Copies()
	w.Cluster.Spec.Version = ToVersion
	w.Accept()
	if !held {
		w.Phase(v1alpha1.PhaseUpgrading, time.Minute)
	}
	if step == v1alpha1.UpgradePrechecks {
		return
	}
	w.Claim(func(c *resources.ClaimData) { c.UpgradeTo, c.UpgradeSince = ToVersion, Begin.Format(time.RFC3339) })
	deployController(w)
	Runs(w, ToVersion)
	for _, n := range w.Linstor.View.Nodes {
		n.Status = linstor.StatusVersionMismatch
	}
	if step == v1alpha1.UpgradeController {
		return
	}
	w.Claim(func(c *resources.ClaimData) { c.BackupRead = "read" })
	for _, ds := range satellites.DaemonSets(w.Snapshot()) {
		w.Kube.DaemonSets[ds.Name] = ds
	}
	if step == v1alpha1.UpgradeVerify {
		for _, n := range w.Kube.Nodes {
			w.PutPod(v1alpha1.ComponentSatellite, n.Name, w.NewSatellite(n.Name))
			w.Node(n.Name).Status = linstor.StatusOnline
		}
	}
}

// Runs lets a LINSTOR of the version answer, with the properties that it gets if the spec has none.
func Runs(w *World, version string) {
	w.Linstor.View.Version = version
	w.Linstor.View.Properties = linstor.Initial(controller.Properties(&cluster.Facts{Target: &cluster.Target{
		Spec: &v1alpha1.StorageClusterSpec{}}}, version))
}

// deployController makes the controller's Deployment as it is wanted now, and its pod.
func deployController(w *World) {
	s := w.Snapshot()
	objects, err := controller.Want(s)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, o := range objects {
		if d, ok := o.(*appsv1.Deployment); ok {
			w.Kube.Deployments[d.Name] = d
			for _, p := range w.Kube.ControllerPods {
				ofTemplate(p, d)
			}
		}
	}
}

// NewSatellite is a ready satellite of the new version.
func (w *World) NewSatellite(node string) *corev1.Pod {
	p := w.ReadyPod(v1alpha1.ComponentSatellite, node)
	p.CreationTimestamp = metav1.NewTime(w.Now.Add(-time.Minute))
	return p
}

// PutBack puts Kubernetes back to a time when LINSTOR did not have that number yet.
func PutBack(w *World, number string) {
	w.Linstor.View.Properties[linstor.PropEpoch], w.Linstor.Behind = number, true
}

// Swap gives LINSTOR another database, which has neither nodes nor volumes.
func Swap(w *World, localID string) {
	w.Linstor.View = &linstor.View{TakenAt: w.Now, Version: w.Linstor.View.Version, LocalID: localID,
		Nodes: map[string]*linstor.Node{}, Properties: w.Linstor.View.Properties}
}
