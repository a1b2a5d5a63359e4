package restored_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/restored"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

const (
	keep = "apply ConfigMap/linstor-before-restore"
	stop = "delete Deployment/linstor-controller"
)

// world is held because LINSTOR has the number 7, and the claim 1.
func world(t *testing.T) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, 2)
	w.Phase(v1alpha1.PhaseHumanIntervention, 0)
	w.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldKubernetesRestored, Identities: []string{"7"},
		Since: *clustertest.At(clustertest.Begin)}
	w.Linstor.View.Properties[linstor.PropEpoch] = "7"
	w.Linstor.Behind = true
	return w
}

// kept has lists in the cache that were taken so long after the hold began.
func kept(after time.Duration) func(*clustertest.World) {
	return func(w *clustertest.World) {
		w.Kube.ConfigMaps[resources.ListsName] = &corev1.ConfigMap{Data: map[string]string{
			"takenAt": clustertest.Begin.Add(after).Format(time.RFC3339)}}
	}
}

func TestStop(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil  func(*clustertest.World)
		answer *hold.Answer
		calls  []string
	}{
		"the lists are kept first": {calls: []string{keep}},
		"then LINSTOR is stopped":  {spoil: kept(0), calls: []string{stop}},
		"lists of an earlier time": {spoil: kept(-time.Hour), calls: []string{keep}},
		"it is stopped": {spoil: func(w *clustertest.World) {
			kept(0)(w)
			delete(w.Kube.Deployments, "linstor-controller")
			w.Kube.ControllerPods = nil
		}},
		"LINSTOR does not answer, and nothing is kept": {spoil: func(w *clustertest.World) {
			w.Silent(errors.New("refused"))
		}},
		"another hold": {spoil: func(w *clustertest.World) {
			w.Cluster.Status.Hold.Reason = v1alpha1.HoldForeignLinstorFound
		}},
		"no hold yet":              {spoil: func(w *clustertest.World) { w.Cluster.Status.Hold = nil }},
		"suspended":                {spoil: func(w *clustertest.World) { w.Cluster.Spec.Suspend = true }},
		"answered":                 {answer: &hold.Answer{Cluster: true}, spoil: kept(0)},
		"another hold is answered": {answer: &hold.Answer{}, spoil: kept(0), calls: []string{stop}},
		"a database of SQL": {spoil: func(w *clustertest.World) {
			w.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}
			w.Accept()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			in, r := w.Input()
			in.Answer, r.Now = tc.answer, w.Linstor.View
			if err := restored.Stop(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Errorf("writes (-want +got):\n%s", d)
			}
		})
	}
}

// TestLists: they say where each copy is, in text as long as that fits.
func TestLists(t *testing.T) {
	w := world(t)
	now := *w.Linstor.View
	now.Resources = states.Copies("pvc-1@n01 UpToDate", "pvc-1@n02 Outdated")
	in, r := w.Input()
	r.Now = &now
	if err := restored.Stop(t.Context(), in); err != nil || len(r.Applied) != 1 {
		t.Fatalf("%v, writes %v", err, r.Calls)
	}
	cm, ok := r.Applied[0].(*corev1.ConfigMap)
	if !ok || cm.Data["epoch"] != "7" || !strings.Contains(cm.Data["nodes"], "n01 default=") ||
		!strings.Contains(cm.Data["nodes"], "pool:ssd=LVM_THIN:vg/thin") ||
		!strings.HasPrefix(cm.Data["copies"], "pvc-1 n01 diskful") {
		t.Errorf("%+v", r.Applied[0])
	}
	for i := range 20000 {
		now.Resources = append(now.Resources, states.Copies(fmt.Sprintf("pvc-%d@n01 UpToDate", i))...)
	}
	in, r = w.Input()
	r.Now = &now
	if err := restored.Stop(t.Context(), in); err != nil || len(r.Applied) != 1 {
		t.Fatalf("%v, writes %v", err, r.Calls)
	}
	cm, ok = r.Applied[0].(*corev1.ConfigMap)
	if n := len(cm.BinaryData["copies.gz"]); !ok || n == 0 || n > 700<<10 || cm.Data["copies"] != "" {
		t.Errorf("%d bytes of compressed copies", n)
	}
}
