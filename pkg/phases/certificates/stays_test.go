package certificates_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	pki "github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/usage"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

// TestTheDriverKeepsItsCertificate: a driver that is not wanted any more stays for its volumes, and is made again for
// them; what it runs with stays as long as it runs.
func TestTheDriverKeepsItsCertificate(t *testing.T) {
	w := made(t)
	w.Cluster.Spec.Volumes.Driver.Mode = volumespec.DriverNone
	w.Accept()
	delete(w.Kube.Deployments, resources.DriverControllerName)
	w.Kube.Driver.Volumes = usage.Used{Count: 1, Names: []string{"pv-1"}}
	if calls := work(t, w); calls != nil {
		t.Errorf("with volumes of it: %v", calls)
	}
	w.Kube.Driver.Volumes = usage.Used{}
	if calls := work(t, w); calls != nil {
		t.Errorf("with pods of it: %v", calls)
	}
	delete(w.Kube.Pods, v1alpha1.ComponentDriver)
	delete(w.Kube.Pods, v1alpha1.ComponentDriverNode)
	want := []string{"delete Secret/linstor-csi-controller-api-tls", "delete Secret/linstor-csi-node-api-tls"}
	if diff := cmp.Diff(want, work(t, w)); diff != "" {
		t.Error(diff)
	}
}

// TestForgottenEntriesAreEmptied: server-side apply leaves an entry that somebody else has put there.
func TestForgottenEntriesAreEmptied(t *testing.T) {
	w := made(t)
	old, err := pki.NewAuthority("linstor-api", w.Now)
	if err != nil {
		t.Fatal(err)
	}
	data := w.Kube.Secrets[apitls.Kind.AuthoritySecret()].Data
	data[pki.EntryOld] = pki.NewBundle(old.Certificate).PEM()
	work(t, w)
	restart(w)
	work(t, w)
	got := w.Kube.Secrets[apitls.Kind.AuthoritySecret()].Data
	if text, ok := got[pki.EntryOld]; !ok || len(text) != 0 {
		t.Errorf("it is there: %t, with %d bytes", ok, len(text))
	}
	if k := kept(w); k.API.Problem != nil || len(k.API.Succession.Trust()) != 1 {
		t.Errorf("%d authorities are trusted, %v", len(k.API.Succession.Trust()), k.API.Problem)
	}
}

// TestRestartOverdue: that a Secret is new is no comfort if the program that uses it was not restarted.
func TestRestartOverdue(t *testing.T) {
	w := made(t)
	w.Now = w.Now.Add(60 * day)
	if e := certificates.Judge(w.Snapshot()); e.State != cluster.Satisfied || e.Reason != certificates.ReasonRenewing ||
		!strings.Contains(e.Message, "about to be renewed") {
		t.Errorf("before the renewal: %+v", e)
	}
	work(t, w)
	w.Now = w.Now.Add(20 * day)
	if e := certificates.Judge(w.Snapshot()); e.State != cluster.Satisfied || e.Reason != certificates.ReasonRenewing {
		t.Errorf("after twenty days: %+v", e)
	}
	w.Now, w.Cluster.Spec.Suspend = w.Now.Add(time.Second), true
	if e := certificates.Judge(w.Snapshot()); e.State == cluster.Satisfied || e.Reason != certificates.ReasonOverdue ||
		!strings.Contains(e.Message, "LINSTOR's controller") || !strings.Contains(e.Message, "spec.suspend is set") {
		t.Errorf("ten days before they expire: %+v", e)
	}
	if restart(w); reason(w) != conditions.ReasonAsExpected {
		t.Errorf("after the restarts: %s", reason(w))
	}
}

// TestRenewedWhileItIsUnlocked: what still runs locked is renewed, however long it takes until that is over.
func TestRenewedWhileItIsUnlocked(t *testing.T) {
	w := made(t)
	w.Cluster.Spec.TLS.Mode = tlsspec.Disabled
	w.Accept()
	w.Now = w.Now.Add(60 * day)
	if calls := work(t, w); len(calls) != 6 {
		t.Errorf("%v", calls)
	}
}

// TestLostWhileItIsUnlocked: without Secrets no controller could be made that satellites of before still take, and the
// way to plain connections would end there.
func TestLostWhileItIsUnlocked(t *testing.T) {
	w := made(t)
	for _, ds := range w.Kube.DaemonSets {
		ds.Spec.Template.Annotations = netcomtls.Kind.Annotate(tlssecret.Ref{Secret: "s", Leaf: "l", Trust: "t"},
			ds.Spec.Template.Annotations)
	}
	w.Cluster.Spec.TLS.Mode = tlsspec.Disabled
	w.Accept()
	for _, name := range netcomtls.Kind.Secrets() {
		delete(w.Kube.Secrets, name)
	}
	work(t, w)
	for _, name := range netcomtls.Kind.Secrets() {
		if w.Kube.Secrets[name] == nil {
			t.Errorf("%s was not made again", name)
		}
	}
}

// TestExpiredWhileItIsUnlocked: that nobody wants certificates any more is no reason to be silent about those in use.
func TestExpiredWhileItIsUnlocked(t *testing.T) {
	w := made(t)
	w.Cluster.Spec.TLS.Mode = tlsspec.Disabled
	w.Accept()
	w.Now = w.Now.Add(91 * day)
	if e := certificates.Judge(w.Snapshot()); e.Reason != certificates.ReasonExpired || e.State == cluster.Satisfied {
		t.Errorf("%+v", e)
	}
	if len(certificates.Status(&w.Snapshot().Facts)) == 0 {
		t.Error("the status lists none")
	}
}

// TestBothAreUnfinished: that the API is being renewed does not hide that satellites are open.
func TestBothAreUnfinished(t *testing.T) {
	w := made(t)
	for _, p := range w.Kube.Pods[v1alpha1.ComponentSatellite] {
		delete(p.Annotations, netcomtls.Kind.Annotation)
	}
	for _, p := range w.Kube.Pods[v1alpha1.ComponentDriver] {
		p.Annotations[apitls.Kind.Annotation] = "older.older"
	}
	w.Cluster.Spec.Suspend = true
	e := certificates.Judge(w.Snapshot())
	const (
		api = "all certificates are valid; waiting for a restart with the latest certificate for LINSTOR's REST API: pod "
		net = "; not secured by TLS yet; still running without a certificate for the connections between controller and " +
			"satellites: pod "
		end = "; spec.suspend is set, so the operator does nothing"
	)
	if e.Reason != certificates.ReasonSwitching || !strings.HasPrefix(e.Message, api) ||
		!strings.Contains(e.Message, net) || strings.Index(e.Message, end) != len(e.Message)-len(end) {
		t.Errorf("%+v", e)
	}
}

// TestOpen: whoever looks learns why the cluster is open, and which line locks it, unless it is there already.
func TestOpen(t *testing.T) {
	const cure = "to secure both, set spec.tls.mode to Managed"
	for mode, says := range map[tlsspec.Mode]string{tlsspec.Disabled: "spec.tls.mode is Disabled: ",
		"":              "spec.tls.mode is not set, so this existing cluster keeps running without TLS: ",
		tlsspec.Managed: "spec.tls has not been applied yet, and the cluster runs without TLS until then: "} {
		w := clustertest.NewWorld(t, 1)
		w.Accept()
		w.Cluster.Generation++
		w.Cluster.Spec.TLS.Mode = mode
		e := certificates.Judge(w.Snapshot())
		if e.Reason != certificates.ReasonNotWanted || !strings.HasPrefix(e.Message, says) ||
			strings.HasSuffix(e.Message, cure) == (mode == tlsspec.Managed) {
			t.Errorf("%q: %+v", mode, e)
		}
	}
}
