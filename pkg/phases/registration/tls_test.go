package registration_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

// TestTheInterfaceFollowsTheSatellite: LINSTOR connects as the satellite's pod listens, whatever the spec says
// meanwhile.
func TestTheInterfaceFollowsTheSatellite(t *testing.T) {
	lock := func(w *clustertest.World) {
		p := w.Satellite("n01")
		p.Annotations = netcomtls.Kind.Annotate(tlssecret.Ref{Secret: "s", Leaf: "l", Trust: "t"}, p.Annotations)
	}
	recorded := func(port int32, tls bool) func(*clustertest.World) {
		return func(w *clustertest.World) { i := &w.Node("n01").Interfaces[0]; i.Port, i.TLS = port, tls }
	}
	for name, tc := range map[string]struct {
		spoil []func(*clustertest.World)
		port  int32 // 0: nothing is written
		tls   bool
	}{
		"both plain":          {nil, 0, false},
		"it listens with TLS": {[]func(*clustertest.World){lock}, netcomtls.Port, true},
		"both with TLS":       {[]func(*clustertest.World){lock, recorded(netcomtls.Port, true)}, 0, false},
		"it is plain again": {[]func(*clustertest.World){recorded(netcomtls.Port, true)}, resources.SatellitePort,
			false},
		"the port of another kind": {[]func(*clustertest.World){lock, recorded(netcomtls.Port, false)}, netcomtls.Port,
			true},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			for _, spoil := range tc.spoil {
				spoil(w)
			}
			var want []linstor.Interface
			if tc.port != 0 {
				i := w.Node("n01").Interfaces[0]
				i.Port, i.TLS = tc.port, tc.tls
				want = append(want, i)
			}
			s := w.Snapshot()
			r := registration.WantedRegistration(s, s.MemberByName("n01"))
			if diff := cmp.Diff(want, r.Modify); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestANewNodeIsRegisteredAsItListens: LINSTOR connects at once, and not only after another write.
func TestANewNodeIsRegisteredAsItListens(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	p := w.Satellite("n01")
	p.Annotations = netcomtls.Kind.Annotate(tlssecret.Ref{Secret: "s", Leaf: "l", Trust: "t"}, p.Annotations)
	delete(w.Linstor.View.Nodes, "n01")
	s := w.Snapshot()
	r := registration.WantedRegistration(s, s.MemberByName("n01"))
	if r.Create == nil || r.Create.Interfaces[0].Port != netcomtls.Port || !r.Create.Interfaces[0].TLS {
		t.Errorf("%+v", r)
	}
}
