package controller_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestPassphrase(t *testing.T) {
	check, err := controller.PassphraseCheck([]byte("0123456789abcdef"), []byte("right"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		secret string            // spec.controller.passphraseSecret
		data   map[string]string // what it holds; nil: it does not exist
		check  string            // what the claim has
		held   string            // part of the hold's message; "" if there is none
	}{
		{name: "none wanted"},
		{name: "first use", secret: "p", data: map[string]string{resources.PassphraseKey: "right"}},
		{name: "again", secret: "p", data: map[string]string{resources.PassphraseKey: "right"}, check: check},
		{name: "no Secret", secret: "p", held: "does not exist"},
		{name: "no key", secret: "p", data: map[string]string{"other": "x"}, held: "does not exist"},
		{name: "empty", secret: "p", data: map[string]string{resources.PassphraseKey: ""}, held: "does not exist"},
		{name: "another one", secret: "p", data: map[string]string{resources.PassphraseKey: "wrong"}, check: check,
			held: "does not contain the passphrase that this cluster was set up with"},
		{name: "taken away", check: check, held: "the name of the Secret that contains the passphrase"},
		{name: "check damaged", secret: "p", data: map[string]string{resources.PassphraseKey: "right"}, check: "zz:zz",
			held: "does not contain the passphrase that this cluster was set up with"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			w.Cluster.Spec.Controller.PassphraseSecret = tc.secret
			w.Settle()
			if tc.data != nil {
				w.Secret("p", tc.data)
			}
			w.Claim(func(c *resources.ClaimData) { c.PassphraseCheck = tc.check })
			h := controller.PassphraseHold(&w.Snapshot().Facts)
			if (h == nil) != (tc.held == "") || h != nil &&
				(h.Reason != v1alpha1.HoldPassphraseUnusable || !strings.Contains(h.Message, tc.held)) {
				t.Fatalf("hold %+v, want %q", h, tc.held)
			}
			w.Kube.Deployments = nil
			in, r := w.Input()
			if err := controller.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if h != nil && len(r.Calls) > 0 {
				t.Errorf("held, but %v", r.Calls)
			}
			if h == nil && len(r.Calls) == 0 {
				t.Error("not held, but the controller is not brought back")
			}
			if strings.Contains(fmt.Sprint(h), "right") || strings.Contains(fmt.Sprint(h), "wrong") {
				t.Error("the passphrase is in the message")
			}
		})
	}
}

// runsSince makes the controller's container one that has run for some time.
func runsSince(p *corev1.Pod, age time.Duration) {
	running := &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(clustertest.Begin.Add(-age))}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: resources.ControllerContainer, Ready: true,
		State: corev1.ContainerState{Running: running}}}
}

// edited makes a Secret one that was written so long ago.
func edited(w *clustertest.World, secret string, ago time.Duration) {
	written := metav1.NewTime(clustertest.Begin.Add(-ago))
	w.Kube.Secrets[secret].ManagedFields = []metav1.ManagedFieldsEntry{{Time: &written}, {}}
}

// TestAPassphraseIsRecordedOnceLINSTORHasUnlockedWithIt: a Secret with a line break at its end must not be taken for
// the right one, because the right one would be refused ever after.
func TestAPassphraseIsRecordedOnceLINSTORHasUnlockedWithIt(t *testing.T) {
	for _, tc := range []struct {
		name     string
		spoil    func(w *clustertest.World, r *clustertest.Record)
		recorded bool
	}{
		{"unlocked", func(*clustertest.World, *clustertest.Record) {}, true},
		{"the Deployment is of before", func(w *clustertest.World, _ *clustertest.Record) { w.Kube.Deployments = nil },
			false},
		{"the pod is of before", func(w *clustertest.World,
			_ *clustertest.Record) {
			w.Kube.ControllerPods[0].Annotations = nil
		}, false},
		{"a pod hangs on a dead node", func(w *clustertest.World, _ *clustertest.Record) {
			old := w.ReadyPod(v1alpha1.ComponentController, "n01")
			hang(w, old, "n01")
			w.Kube.ControllerPods = append(w.Kube.ControllerPods, old)
		}, true},
		{"not ready", func(w *clustertest.World, _ *clustertest.Record) { w.Kube.ControllerPods[0].Status.Conditions = nil },
			false},
		{"started before the Secret was there", func(w *clustertest.World, _ *clustertest.Record) {
			w.Kube.ControllerPods[0].CreationTimestamp = metav1.NewTime(clustertest.Begin.Add(-time.Hour))
			runsSince(w.Kube.ControllerPods[0], time.Hour)
		}, false},
		{"the Secret was edited right before the pod was made",
			func(w *clustertest.World, _ *clustertest.Record) { edited(w, "p", 40*time.Second) }, true},
		{"the Secret was edited since the start", func(w *clustertest.World, _ *clustertest.Record) { edited(w, "p", 0) },
			false},
		{"the container was started again, perhaps after an edit",
			func(w *clustertest.World, _ *clustertest.Record) { edited(w, "p", 20*time.Second) }, false},
		{"the container was started again, long after an edit",
			func(w *clustertest.World, _ *clustertest.Record) { edited(w, "p", 35*time.Second) }, true},
		{"LINSTOR does not answer", func(w *clustertest.World, _ *clustertest.Record) { w.Silent(errors.New("refused")) },
			false},
		{"locked", func(_ *clustertest.World, r *clustertest.Record) { r.PassphraseState = linstor.PassphraseLocked },
			false},
		{"never set", func(_ *clustertest.World, r *clustertest.Record) { r.PassphraseState = linstor.PassphraseUnset },
			false},
		{"its state is unknown", func(_ *clustertest.World,
			r *clustertest.Record) {
			r.Fail["passphrase"] = errors.New("boom")
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			w.Cluster.Spec.Controller.PassphraseSecret = "p"
			w.Settle()
			w.Secret("p", map[string]string{resources.PassphraseKey: "right"})
			w.Kube.Secrets["p"].CreationTimestamp = metav1.NewTime(clustertest.Begin.Add(-time.Minute))
			runsSince(w.Kube.ControllerPods[0], time.Second)
			w.Kube.ControllerPods[0].CreationTimestamp = metav1.NewTime(clustertest.Begin.Add(-40 * time.Second))
			_, before := w.Input()
			tc.spoil(w, before)
			in, r := w.Input()
			r.PassphraseState, r.Fail["passphrase"] = cmp.Or(before.PassphraseState, linstor.PassphraseUnlocked),
				before.Fail["passphrase"]
			if err := controller.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(r.Calls, "apply ConfigMap/linstor-claim"); got != tc.recorded {
				t.Fatalf("recorded %t, want %t: %v", got, tc.recorded, r.Calls)
			}
			if !tc.recorded {
				return
			}
			got := clustertest.AppliedClaim(t, r).PassphraseCheck
			if !controller.DerivesTo(got, []byte("right")) || controller.DerivesTo(got, []byte("Right")) ||
				strings.Contains(got, "right") {
				t.Errorf("check value %q", got)
			}
			again, err := controller.PassphraseCheck([]byte("another salt 123"), []byte("right"))
			if err != nil || again == got {
				t.Errorf("equal passphrases show: %q (%v)", again, err)
			}
		})
	}
}
