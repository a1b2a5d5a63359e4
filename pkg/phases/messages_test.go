package phases_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// TestMissingRightsAreToldWithTheWayOut, also while the cluster is being deleted.
func TestMissingRightsAreToldWithTheWayOut(t *testing.T) {
	gr := schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}
	const help = "namespace linstor-storage or the operator's permissions in it are missing: kubectl apply " +
		"--server-side -f deploy/operator.yaml ("
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"no role", apierrors.NewForbidden(gr, "x",
			errors.New(`User "u" cannot patch resource "controllerrevisions" in API group "apps" `+
				`in the namespace "linstor-storage"`)), true},
		{"no namespace", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "linstor-storage"), true},
		{"no role, for somebody else's", apierrors.NewForbidden(gr, "x",
			errors.New(`User "u" cannot patch resource "nodes" in API group "" at the cluster scope`)), false},
		{"a policy", apierrors.NewForbidden(gr, "x", errors.New("ValidatingAdmissionPolicy 'a' denied request: no")), false},
		{"another object", apierrors.NewNotFound(gr, "x"), false},
	} {
		o := step.Fail(fmt.Errorf("keep the accepted spec: %w", tc.err))
		if got := strings.HasPrefix(o.Message, help); got != tc.want || !errors.Is(o.Err, tc.err) {
			t.Errorf("%s: %q", tc.name, o.Message)
		}
	}
}

// refusedKey is LINSTOR's answer to a property that it does not know.
func refusedKey(key string) error {
	return &linstor.Error{Op: "set properties", Status: 500, Codes: []int{linstor.CodeInvalidProperty},
		Message: fmt.Sprintf("Invalid property key: %s: The key '%s' is not whitelisted.", key, key)}
}

func TestRefusedPropertiesAreNamedByTheirField(t *testing.T) {
	const key = "DrbdOptions/AutoEvictAfterTim"
	version := "LINSTOR " + clustertest.NewWorld(t, 1).Snapshot().Target.Release.Version
	w := clustertest.NewWorld(t, 3)
	w.Cluster.Spec.Nodes.Properties = map[string]string{key: "1", "DrbdOptions/AutoEvict": "2"}
	w.Accept()
	for _, n := range []string{"n01", "n02", "n03"} {
		w.Tasks["node/"+n] = work.State{Err: refusedKey(key)}
	}
	for _, m := range w.Snapshot().Members {
		if p := m.Problem; p == nil || p.Reason != "PropertyRefused" ||
			p.Message != "spec.nodes.properties: "+version+" does not support "+key {
			t.Errorf("%s: %+v", m.Name, p)
		}
	}
	w = clustertest.NewWorld(t, 1)
	w.Cluster.Spec.Controller.Properties = map[string]string{key: "1"}
	w.Accept()
	w.Tasks["controller/properties"] = work.State{Err: refusedKey(key)}
	e := controller.Link().Judge(w.Snapshot())
	if e.Reason != "PropertyRefused" || e.Message != "spec.controller.properties: "+version+" does not support "+key ||
		w.Snapshot().Health.Degraded {
		t.Errorf("%+v", e)
	}
	w.Tasks["controller/properties"] = work.State{Err: errors.New("connection refused")}
	if e = controller.Link().Judge(w.Snapshot()); e.Reason != "SettingProperties" {
		t.Errorf("another error: %+v", e)
	}
}

// TestLoadedModulesCount although their loaders are exchanged: DRBD stays loaded.
func TestLoadedModulesCount(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.UnreadyPod(v1alpha1.ComponentModuleLoader, "n01", "n02", "n03")
	if e := module.Link().Judge(w.Snapshot()); e.State != cluster.Missing ||
		e.Message != "3 of 3 nodes have DRBD loaded; 0 of 3 loaders are ready" {
		t.Errorf("%s %q", e.State, e.Message)
	}
	w.Node("n02").Layers = []string{"STORAGE"}
	if e := module.Link().Judge(w.Snapshot()); e.Message != "2 of 3 nodes have DRBD loaded; 0 of 3 loaders are ready" {
		t.Errorf("%q", e.Message)
	}
	w.Linstor = cluster.Linstor{}
	if e := module.Link().Judge(w.Snapshot()); e.State != cluster.Missing ||
		e.Message != "0 of 3 module loaders are ready; DRBD stays loaded where it was loaded before" {
		t.Errorf("LINSTOR does not answer: %s %q", e.State, e.Message)
	}
	w.Phase(v1alpha1.PhaseKernelModule, 0)
	if e := module.Link().Judge(w.Snapshot()); e.Message != "0 of 3 nodes have DRBD loaded" {
		t.Errorf("during an installation: %q", e.Message)
	}
}

func TestOneIsSingular(t *testing.T) {
	for got, want := range map[string]string{
		text.Amount(1, "copy", "copies"): "1 copy", text.NodesOf(1): "1 node", text.NodesOf(2): "2 nodes",
		text.Amount(1, "node is", "nodes are"): "1 node is", text.Amount(0, "node is", "nodes are"): "0 nodes are",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
