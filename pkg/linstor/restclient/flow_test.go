package restclient_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

func TestNoController(t *testing.T) {
	s := newStage(t)
	_, err := s.View(t.Context(), linstor.ViewOptions{})
	if !linstor.IsUnreachable(err) || !linstor.IsTransient(err) {
		t.Errorf("View without a controller: %v, want unreachable", err)
	}
	if err := s.CreateNode(t.Context(), n1); !linstor.IsUnreachable(err) {
		t.Errorf("CreateNode without a controller: %v, want unreachable", err)
	}
}

func TestFreshController(t *testing.T) {
	s := newStage(t)
	s.controller()
	v := s.view()
	if v.Version != version || v.LocalID == "" || v.LocalID != s.world.Database("k8s").LocalID() || len(v.Nodes) != 0 ||
		v.Volumes != 0 {
		t.Errorf("view of a fresh controller = %+v", v)
	}
	for k := range v.Properties {
		if strings.Contains(k, "Passwd") || strings.HasPrefix(k, "encrypted/") {
			t.Errorf("the view holds the secret %s", k)
		}
	}
	if state, err := s.Passphrase(t.Context()); err != nil || state != linstor.PassphraseUnset {
		t.Errorf("Passphrase = %q, %v", state, err)
	}
	if _, err := s.Node(t.Context(), "n1"); !linstor.IsNotFound(err) {
		t.Errorf("Node: %v, want not found", err)
	}
	if _, err := s.Pool(t.Context(), "n1", "ssd"); !linstor.IsNotFound(err) {
		t.Errorf("Pool: %v, want not found", err)
	}
}

// TestPropertiesConverge: LINSTOR stores booleans in its own words; one write must be enough.
func TestPropertiesConverge(t *testing.T) {
	s := newStage(t)
	s.online()
	s.must(s.CreatePool(t.Context(), thin))
	type object struct {
		name string
		have func() map[string]string
		send func(linstor.Change) error
		keys []string
	}
	for _, o := range []object{
		{"controller", func() map[string]string { return s.view().Properties }, func(c linstor.Change) error {
			return s.SetProperties(t.Context(), c.Set, c.Delete)
		}, []string{"DrbdOptions/AutoEvictAllowEviction", "DrbdOptions/auto-add-quorum-tiebreaker"}},
		{"node", func() map[string]string { return s.view().Node("n1").Properties }, func(c linstor.Change) error {
			return s.SetNodeProperties(t.Context(), "n1", c.Set, c.Delete)
		}, []string{"DrbdOptions/AutoEvictAllowEviction", "AutoplaceTarget"}},
		{"pool", func() map[string]string { return s.view().Pool("n1", "ssd").Properties }, func(c linstor.Change) error {
			return s.SetPoolProperties(t.Context(), "n1", "ssd", c.Set, c.Delete)
		}, []string{"Aux/a", "Aux/b"}},
	} {
		for i, want := range []map[string]string{{o.keys[0]: "False", o.keys[1]: "Yes"}, {o.keys[0]: "no"}, {}} {
			before := o.have()
			change := linstor.Diff(before, want, "1.35.3")
			if change.Empty() {
				t.Fatalf("%s, step %d: nothing to change", o.name, i)
			}
			s.must(o.send(change))
			if again := linstor.Diff(o.have(), want, "1.35.3"); !again.Empty() {
				t.Errorf("%s, step %d: after the change, another is due: %+v", o.name, i, again)
			}
		}
	}
	err := s.SetProperties(t.Context(), map[string]string{"No/Such/Key": "x"}, nil)
	s.wantCode(err, linstor.CodeInvalidProperty)
	if linstor.IsTransient(err) {
		t.Errorf("%v passes for an error that ends by itself", err)
	}
}

// TestPropertiesThatAreNotKept: LINSTOR answers with success to a property that it then does not have. It is written
// once, and named.
func TestPropertiesThatAreNotKept(t *testing.T) {
	s := newStage(t)
	s.online()
	want := map[string]string{"DrbdOptions/auto-quorum": "suspend-io", "ExtCmdWaitTimeout": "60000",
		"DrbdOptions/Resource/on-no-quorum": "suspend-io"}
	err := s.SetProperties(t.Context(), want, nil)
	var lost *linstor.NotKeptError
	if !errors.As(err, &lost) || linstor.IsTransient(err) {
		t.Fatalf("SetProperties: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"DrbdOptions/auto-quorum": "suspend-io", "ExtCmdWaitTimeout": "60000"},
		lost.Properties); diff != "" {
		t.Errorf("not kept (-want +got):\n%s", diff)
	}
	change := linstor.Diff(s.view().Properties, want, version)
	s.must(change.Send(version, func(set map[string]string, del []string) error {
		return s.SetProperties(t.Context(), set, del)
	}))
	if again := linstor.Diff(s.view().Properties, want, version); !again.Empty() || len(again.Unkept) != 2 {
		t.Errorf("afterwards another change is due: %+v", again)
	}
}

func TestNodeLifeCycle(t *testing.T) {
	s := newStage(t)
	s.online()
	if err := s.CreateNode(t.Context(), n1); !linstor.IsExists(err) {
		t.Errorf("second CreateNode: %v, want exists", err)
	}
	n := s.view().Node("N1")
	if n == nil || !n.Online() || n.Type != linstor.TypeSatellite || n.UUID == "" {
		t.Fatalf("node = %+v", n)
	}
	want := []linstor.Interface{{Name: "default", Address: "10.0.0.1", Port: 3366, Active: true}}
	if diff := cmp.Diff(want, n.Interfaces); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
	if len(n.Pools) != 0 {
		t.Errorf("LINSTOR's own pool is listed: %v", n.Pools)
	}
	s.interfaceLifeCycle()
	s.must(s.Reconnect(t.Context(), "n1"))

	s.must(s.DeleteNode(t.Context(), "n1"))
	s.must(s.DeleteNode(t.Context(), "n1"))
	if got := s.view().Nodes; len(got) != 0 {
		t.Errorf("nodes after the deletion: %v", got)
	}
	if err := s.Reconnect(t.Context(), "n1"); !linstor.IsNotFound(err) {
		t.Errorf("Reconnect of no node: %v, want not found", err)
	}
}

// interfaceLifeCycle makes a second interface of n1, changes it and deletes it.
func (s *stage) interfaceLifeCycle() {
	s.Helper()
	s.must(s.CreateInterface(s.Context(), "n1", linstor.Interface{Name: "storage", Address: "fd00::1"}))
	if err := s.CreateInterface(s.Context(), "n1",
		linstor.Interface{Name: "STORAGE", Address: "fd00::1"}); !linstor.IsExists(err) {
		s.Errorf("second CreateInterface: %v, want exists", err)
	}
	s.must(s.ModifyInterface(s.Context(), "n1", linstor.Interface{Name: "storage", Address: "fd00::ab"}))
	n, err := s.Node(s.Context(), "n1")
	s.must(err)
	if i := n.Interface("storage"); i == nil || i.Address != "fd00::ab" || i.Port != 0 || i.Active {
		s.Errorf("interface storage = %+v", i)
	}
	s.must(s.DeleteInterface(s.Context(), "n1", "storage"))
	s.must(s.DeleteInterface(s.Context(), "n1", "storage"))
	if n, err := s.Node(s.Context(), "n1"); err != nil || n.Interface("storage") != nil {
		s.Errorf("after its deletion: %+v, %v", n, err)
	}
}

func TestOfflineNode(t *testing.T) {
	s := newStage(t)
	s.controller()
	satellite := s.satellite()
	s.must(s.CreateNode(t.Context(), n1))
	s.must(s.CreatePool(t.Context(), thin))
	satellite.Stop()
	s.pass(5 * time.Second)

	v := s.view()
	if n := v.Node("n1"); n.Status != linstor.StatusOffline || n.DevicesKnown {
		t.Errorf("node = %+v, want it offline with no devices known", n)
	}
	if p := v.Pool("n1", "ssd"); p.TotalKiB != nil || len(p.Errors) > 0 || p.Backing != "vg/thin" {
		t.Errorf("pool of an offline node = %+v, want an unknown capacity and no error", p)
	}
	if d, err := s.Devices(t.Context(), "n1"); err == nil {
		t.Errorf("Devices of an offline node = %v", d)
	}
	other := thin
	other.Name = "other"
	s.wantCode(s.CreatePool(t.Context(), other), linstor.CodeProviderUnsupported)
	if _, err := s.Pool(t.Context(), "n1", "other"); !linstor.IsNotFound(err) {
		t.Errorf("the refused pool: %v, want not found", err)
	}
	if err := s.SetPoolProperties(t.Context(), "n1", "ssd", map[string]string{"Aux/a": "b"},
		nil); !linstor.IsTransient(err) {
		t.Errorf("SetPoolProperties: %v, want transient", err)
	}
	if p := s.view().Pool("n1", "ssd"); p.Properties["Aux/a"] != "b" {
		t.Error("the property was not stored")
	}
	err := s.CreateDevices(t.Context(), linstor.DeviceSpec{Node: "n1", Provider: "LVM", PoolName: "new",
		Paths: []string{"/dev/sdb"}})
	if !errors.Is(err, linstor.ErrNoEffect) {
		t.Errorf("CreateDevices: %v, want ErrNoEffect", err)
	}
}

// TestLostReply: the write was carried out and its answer lost. The error says only that there was no answer, and
// nothing was sent twice.
func TestLostReply(t *testing.T) {
	s := newStage(t)
	s.controller()
	s.satellite()
	s.world.SetFault(func(r *http.Request) *sim.Fault {
		if r.Method == http.MethodGet {
			return nil
		}
		return &sim.Fault{DropAfter: true}
	})
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"node", func(ctx context.Context) error { return s.CreateNode(ctx, n1) }},
		{"pool", func(ctx context.Context) error { return s.CreatePool(ctx, thin) }},
		{"device", func(ctx context.Context) error {
			return s.CreateDevices(ctx, linstor.DeviceSpec{Node: "n1", Provider: "LVM", PoolName: "new",
				Paths: []string{"/dev/sdb"}})
		}},
		{"delete", func(ctx context.Context) error { return s.DeletePool(ctx, "n1", "ssd") }},
	} {
		_, err := s.Passphrase(t.Context()) // so that a used connection is there
		s.must(err)
		s.world.ResetRequests()
		err = step.do(t.Context())
		if !linstor.IsTransient(err) || linstor.IsExists(err) {
			t.Errorf("%s: %v, want transient", step.name, err)
		}
		if got := s.world.Writes(); len(got) != 1 {
			t.Errorf("%s: %d requests, want 1", step.name, len(got))
		}
	}
	s.world.SetFault(nil)
	if v := s.view(); v.Node("n1") == nil || v.Pool("n1", "ssd") != nil {
		t.Errorf("after the lost replies: %+v", v)
	}
}

// TestRequestsPerView: the number of requests does not depend on the number of nodes.
func TestRequestsPerView(t *testing.T) {
	s := newStage(t)
	s.online()
	count := func() int {
		s.world.ResetRequests()
		s.view()
		return len(s.world.Requests())
	}
	one := count()
	for _, name := range []string{"a2", "a3", "a4"} {
		s.world.AddMachine(sim.MachineSpec{Name: name, Address: "10.0.1." + name[1:]})
		_, err := s.world.StartSatellite(name, sim.SatelliteConfig{Version: version})
		s.must(err)
		s.must(s.CreateNode(t.Context(), linstor.NodeSpec{Name: name, Interfaces: []linstor.Interface{
			{Name: "default", Address: "10.0.1." + name[1:], Port: 3366},
		}}))
	}
	if four := count(); four != one || one != 6 {
		t.Errorf("%d requests for one node, %d for four, want 6", one, four)
	}
}
