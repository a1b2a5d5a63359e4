package observe

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

// doorNote notes which way was taken, and shows a certificate.
type doorNote struct {
	way    string
	server *x509.Certificate
}

func (d *doorNote) Open() { d.way = "open" }

func (d *doorNote) Lock(id string, own tls.Certificate, _ *x509.CertPool) {
	d.way = "locked with " + id
	if own.PrivateKey == nil {
		d.way = "locked without a key"
	}
}

func (d *doorNote) Seen() (*x509.Certificate, [][]byte) { return d.server, [][]byte{[]byte("ca")} }

// operators is what the operator's Secret has.
func operators(t *testing.T) apicerts.Held {
	t.Helper()
	now := time.Now()
	a, err := certificates.NewAuthority("linstor-api", now)
	if err != nil {
		t.Fatal(err)
	}
	l, err := a.Sign(certificates.Profile{Name: "linstor-operator", Uses: certificates.Client}, now)
	if err != nil {
		t.Fatal(err)
	}
	return apicerts.Held{Leaf: l, Trust: certificates.NewBundle(a.Certificate)}
}

// TestDoor: the operator goes where the pod listens that answers, which is not always what the spec says.
func TestDoor(t *testing.T) {
	own := operators(t)
	annotated := func(p *corev1.Pod) {
		p.Annotations = apitls.Access{Ref: tlssecret.Ref{Secret: "s", Leaf: "leaf", Trust: "trust"}}.Annotate(nil)
	}
	for name, tc := range map[string]struct {
		change func(*cluster.Facts)
		want   string
		seen   bool
	}{
		"a plain controller answers": {func(*cluster.Facts) {}, "open", false},
		"a locked one answers": {func(f *cluster.Facts) { annotated(f.Kube.ControllerPods[0]) },
			"locked with " + own.Leaf.Hash() + own.Trust.Hash(), true},
		"a locked one is not ready": {func(f *cluster.Facts) {
			annotated(f.Kube.ControllerPods[0])
			f.Kube.ControllerPods[0].Status.Conditions = nil
		}, "as before", false},
		"a locked one answers, and the certificate is not there": {func(f *cluster.Facts) {
			annotated(f.Kube.ControllerPods[0])
			delete(f.Certificates.API.Held, apitls.Operator)
		}, "as before", true},
		"a locked one answers, and whom to trust is not there": {func(f *cluster.Facts) {
			annotated(f.Kube.ControllerPods[0])
			f.Certificates.API.Held[apitls.Operator] = apicerts.Held{Leaf: own.Leaf}
		}, "as before", true},
		"no controller runs": {func(f *cluster.Facts) { f.Kube.ControllerPods = nil }, "as before", false},
		"LINSTOR does not answer": {func(f *cluster.Facts) {
			annotated(f.Kube.ControllerPods[0])
			f.Linstor.View = nil
		}, "locked with " + own.Leaf.Hash() + own.Trust.Hash(), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := clustertest.NewWorld(t, 1).Raw()
			f.Certificates.API.Held[apitls.Operator] = own
			tc.change(f)
			d := &doorNote{way: "as before", server: own.Leaf.Certificate}
			o := &Observer{Door: d}
			if o.door(f); d.way != tc.want {
				t.Errorf("the way is %s, want %s", d.way, tc.want)
			}
			if seen := o.seen(f); (seen.Leaf == own.Leaf.Hash()) != tc.seen || (len(seen.Authorities) == 1) != tc.seen {
				t.Errorf("seen is %+v", seen)
			}
			d.server = nil
			if seen := o.seen(f); seen.Leaf != "" {
				t.Errorf("before the first connection %+v was seen", seen)
			}
		})
	}
}
