package certificates_test

import (
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
)

// TestWhoIsWaitedFor: what nobody knows is never taken for done.
func TestWhoIsWaitedFor(t *testing.T) {
	const (
		silent = "all certificates are valid; no response from LINSTOR's controller, so the certificate in use for " +
			"LINSTOR's REST API is unknown"
		newest = "all certificates are valid; waiting for a restart with the latest certificate for "
		first  = "all certificates are valid; not secured by TLS yet; still running without a certificate for LINSTOR's " +
			"REST API: pod "
	)
	old := func(w *clustertest.World) {
		w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Annotations[netcomtls.Kind.Annotation] = "older.older"
	}
	down := func(w *clustertest.World) { w.Kube.ControllerPods[0].Status.Conditions = nil }
	for name, tc := range map[string]struct {
		spoil        func(*clustertest.World)
		reason, says string
	}{
		"LINSTOR does not answer": {func(w *clustertest.World) { w.Seen = apicerts.Seen{} },
			conditions.ReasonControllerUnreachable, silent},
		"LINSTOR is down": {down, conditions.ReasonControllerUnreachable, silent},
		"LINSTOR is down for weeks, and was renewed before": {func(w *clustertest.World) {
			down(w)
			w.Now = w.Now.Add(30 * day)
		}, conditions.ReasonControllerUnreachable, silent},
		"LINSTOR is down, and a satellite is renewed": {func(w *clustertest.World) {
			down(w)
			old(w)
		}, certificates.ReasonRenewing, silent + "; waiting for a restart with the latest certificate for the " +
			"connections between controller and satellites: pod "},
		"LINSTOR shows another certificate": {func(w *clustertest.World) { w.Seen.Leaf = "other" },
			certificates.ReasonRenewing, newest + "LINSTOR's REST API: LINSTOR's controller"},
		"LINSTOR takes others' certificates": {func(w *clustertest.World) {
			w.Seen.Authorities = append(w.Seen.Authorities, []byte("somebody"))
		}, certificates.ReasonRenewing, newest + "LINSTOR's REST API: LINSTOR's controller"},
		"a satellite has an older one": {old, certificates.ReasonRenewing,
			newest + "the connections between controller and satellites: pod "},
		"a driver's pod was made without": {func(w *clustertest.World) {
			w.Kube.Pods[v1alpha1.ComponentDriverNode]["n01"].Annotations = nil
		}, certificates.ReasonSwitching, first},
		"an older pod hides behind a new one": {func(w *clustertest.World) {
			p := w.ReadyPod(v1alpha1.ComponentDriver, "n02")
			p.Name = "older"
			w.Kube.Hidden = append(w.Kube.Hidden, p)
		}, certificates.ReasonSwitching, first + "older on node n02"},
	} {
		t.Run(name, func(t *testing.T) {
			w := made(t)
			tc.spoil(w)
			e := certificates.Judge(w.Snapshot())
			if e.State != cluster.Satisfied || e.Reason != tc.reason || !strings.HasPrefix(e.Message, tc.says) {
				t.Errorf("%s: %s; want %s: %s", e.Reason, e.Message, tc.reason, tc.says)
			}
		})
	}
}
