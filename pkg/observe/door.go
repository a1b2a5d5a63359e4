package observe

import (
	"crypto/tls"
	"crypto/x509"
	"slices"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
)

// Door is how LINSTOR's REST API is reached, by all that speaks to it.
type Door interface {
	// Open makes it the plain one.
	Open()
	// Lock makes it the locked one, with that certificate, for a server that one of the authorities has signed for. The
	// id tells keys apart: with one that is in use already nothing changes.
	Lock(id string, own tls.Certificate, authorities *x509.CertPool)
	// Seen is what the server showed at the last connection through the locked door: its certificate, and the names of
	// those whose certificates it takes. It is nil before the first one.
	Seen() (server *x509.Certificate, takes [][]byte)
}

// door goes where LINSTOR answers now, with the operator's certificate from the Secret. Without a certificate, or a
// pod that answers, it stays where it is.
func (o *Observer) door(f *cluster.Facts) {
	if o.Door == nil || !slices.ContainsFunc(f.Kube.ControllerPods, cluster.PodReady) {
		return
	}
	if !f.ServesLocked() {
		o.Door.Open()
		return
	}
	if h := f.Certificates.API.Held[apitls.Operator]; h.Leaf != nil && len(h.Trust) > 0 {
		o.Door.Lock(h.Leaf.Hash()+h.Trust.Hash(), h.Leaf.TLS(), h.Trust.Pool())
	}
}

// seen is what LINSTOR's controller uses, if it answered at the last look.
func (o *Observer) seen(f *cluster.Facts) apicerts.Seen {
	if o.Door == nil || f.Linstor.View == nil || !f.ServesLocked() {
		return apicerts.Seen{}
	}
	server, takes := o.Door.Seen()
	if server == nil {
		return apicerts.Seen{}
	}
	return apicerts.Seen{Leaf: (&certificates.Leaf{Certificate: server}).Hash(), Authorities: takes}
}
