package deleting_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest/canarytest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
)

// TestDrainGuardsGoFirst: nobody waits for them any more, and nothing else goes in the same step.
func TestDrainGuardsGoFirst(t *testing.T) {
	w := clustertest.DeletedWorld(t, 2)
	w.Cluster.Spec.Volumes.DrainGuard = volumespec.DrainGuardAuto
	w.Cluster.Status.FirstReady = clustertest.At(w.Now)
	clustertest.Guard(w)
	in, r := w.Input()
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || o.Reason != "RemovingWorkloads" {
		t.Errorf("%s %s (%s)", o.Kind, o.Reason, o.Message)
	}
	want := []string{"delete Pod/drain-guard-n01", "delete Pod/drain-guard-n02",
		"delete PodDisruptionBudget/linstor-drain-guard"}
	if d := cmp.Diff(want, slices.Sorted(slices.Values(r.Calls))); d != "" {
		t.Error(d)
	}
}

// TestAGuardOnADeadNode is never taken away by its kubelet: the deletion goes on without it.
func TestAGuardOnADeadNode(t *testing.T) {
	w := clustertest.DeletedWorld(t, 2)
	w.Cluster.Status.FirstReady = clustertest.At(w.Now)
	clustertest.Guard(w)
	w.Kube.DrainBudget = nil
	for _, p := range w.Kube.Pods[v1alpha1.ComponentDrainGuard] {
		p.DeletionTimestamp = clustertest.At(w.Now)
	}
	in, r := w.Input()
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || len(r.Calls) == 0 {
		t.Errorf("%s %s (%s), calls %v", o.Kind, o.Reason, o.Message, r.Calls)
	}
	for _, call := range r.Calls {
		if strings.Contains(call, "drain-guard") {
			t.Errorf("it is removed again: %s", call)
		}
	}
}

// TestTheDriverGoesFirst: who makes volumes before who mounts them, and none of it while a PersistentVolume is left.
func TestTheDriverGoesFirst(t *testing.T) {
	const first = "delete Deployment/linstor-csi-controller"
	for _, tc := range []struct {
		name    string
		volumes map[string]string // that came since the view
		taken   map[string]string // snapshots that did
		waived  bool
		silent  bool
		why     string
		calls   []string
	}{
		{"the controller", nil, nil, false, false, "RemovingWorkloads", []string{first}},
		{"a volume made just now", map[string]string{"pv-1": "fast"}, nil, false, false, "VolumesExist", nil},
		{"a snapshot taken just now", nil, map[string]string{"s-1": "fast"}, false, false, "VolumesExist", nil},
		{"LINSTOR is silent, and a human said continue", map[string]string{"pv-1": "fast"}, nil, true, true,
			"RemovingWorkloads", []string{first}},
		{"a human said continue, and LINSTOR answers", map[string]string{"pv-1": "fast"}, nil, true, false, "VolumesExist",
			nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.DeletedWorld(t, 2)
			clustertest.RunDriver(w)
			w.Claim(func(c *resources.ClaimData) { c.RemoveUnverified = tc.waived })
			if tc.silent {
				w.Silent(errors.New("x"))
			}
			in, r := w.Input()
			r.Live.NewVolumes, r.Live.NewContents = tc.volumes, tc.taken
			if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || o.Reason != tc.why {
				t.Errorf("%s %s (%s)", o.Kind, o.Reason, o.Message)
			}
			if d := cmp.Diff(tc.calls, r.Calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestWhatTriedAVolumeGoesFirst, and the driver that its volume needs waits for it, unless a human waits no longer.
func TestWhatTriedAVolumeGoesFirst(t *testing.T) {
	for waived, why := range map[bool]string{false: "VolumesExist", true: "RemovingWorkloads"} {
		w := clustertest.DeletedWorld(t, 2)
		canarytest.RunClasses(w, volumespec.StorageClassSpec{Name: "fast"})
		canarytest.PutCanary(w, "fast", "", corev1.PodPending)
		w.Claim(func(c *resources.ClaimData) { c.RemoveUnverified = waived })
		if waived {
			w.Silent(errors.New("x"))
		}
		in, r := w.Input()
		if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || o.Reason != why {
			t.Errorf("waived %t: %s %s (%s)", waived, o.Kind, o.Reason, o.Message)
		}
		want := []string{"delete Pod/linstor-canary-fast", "delete PersistentVolumeClaim/linstor-canary-fast"}
		if d := cmp.Diff(want, r.Calls[:2]); d != "" || slices.Contains(r.Calls, "delete StorageClass/fast") != waived {
			t.Errorf("waived %t: calls %v", waived, r.Calls)
		}
	}
}

// TestCertificatesAreRenewedWhileADeletionWaits: it may wait for months, and without a certificate nobody could remove
// the volumes that it waits for.
func TestCertificatesAreRenewedWhileADeletionWaits(t *testing.T) {
	w := clustertest.DeletedWorld(t, 1)
	w.Linstor.View.Volumes = 1
	w.Cluster.Spec.TLS.Mode = tlsspec.Managed
	w.Accept()
	in, r := w.Input()
	if o := phases.Decide(t.Context(), in); o.Kind != step.KindWait || o.Reason != "VolumesExist" {
		t.Fatalf("%s %s (%s)", o.Kind, o.Reason, o.Message)
	}
	if !slices.Contains(r.Calls, "apply Secret/"+apitls.Kind.Secret(apitls.Operator)) {
		t.Errorf("no certificate was made: %v", r.Calls)
	}
}
