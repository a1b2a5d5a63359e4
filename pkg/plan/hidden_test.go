package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/drift"
)

var tolerateAll = []v1alpha1.Toleration{{Operator: corev1.TolerationOpExists}}

// TestCertificatesRestartPods: nothing can be built before they are there, and everything is restarted for them.
func TestCertificatesRestartPods(t *testing.T) {
	p := planOf(t, clustertest.NewWorld(t, 4), func(s *spec) { s.TLS.Mode = tlsspec.Managed })
	if got := restarted(p); !strings.Contains(got, "satellites (4)") ||
		!strings.Contains(got, "LINSTOR controller (1)") {
		t.Errorf("%s", got)
	}
	got := strings.Join(objects(p), "; ")
	for _, want := range []string{"create Secret/linstor-controller-api-tls",
		"create Secret/linstor-satellite-netcom-tls", "change Deployment/linstor-controller",
		"change DaemonSet/linstor-satellite"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s: %s", want, got)
		}
	}
	if !strings.Contains(strings.Join(p.Unknown, "; "), "how often pods are restarted for certificate changes") {
		t.Errorf("%v", p.Unknown)
	}
}

// TestAModeThatIsTakenOut changes nothing: the cluster stays as it is, locked or open.
func TestAModeThatIsTakenOut(t *testing.T) {
	for _, mode := range []tlsspec.Mode{tlsspec.Managed, tlsspec.Disabled} {
		w := clustertest.NewWorld(t, 2)
		w.Cluster.Spec.TLS.Mode = mode
		w.Accept()
		p := planOf(t, w, func(s *spec) { s.TLS.Mode = "" })
		if p.Outcome != result.Nothing || len(p.Fields) > 0 {
			t.Errorf("%s: %s %+v", mode, p.Outcome, p.Fields)
		}
	}
}

// TestAnAuthorityThatIsNotThere: nothing is made without it, and nobody knows what would be restarted.
func TestAnAuthorityThatIsNotThere(t *testing.T) {
	p := planOf(t, clustertest.NewWorld(t, 4), func(s *spec) {
		s.TLS.Mode = tlsspec.Managed
		s.TLS.Authorities = &tlsspec.AuthoritiesSpec{APISecret: "mine", SatellitesSecret: "mine-too"}
	})
	if got := strings.Join(p.Unknown, "; "); !strings.Contains(got, "which pods are restarted for certificates: ") {
		t.Errorf("%s", got)
	}
}

// TestTheEndOfASuspension does all that was not done while it lasted.
func TestTheEndOfASuspension(t *testing.T) {
	w := clustertest.NewWorld(t, 8)
	w.Leaves(v1alpha1.NodesRemove, "n08")
	w.Outdate("n03")
	delete(w.Kube.Services, "linstor-controller")
	w.Cluster.Spec.Suspend = true
	p := planOf(t, w, func(s *spec) { s.Suspend = false })
	if got := strings.Join(objects(p), "; "); !strings.Contains(got, "create Service/linstor-controller") {
		t.Errorf("%s", got)
	}
	if got := restarted(p); got != "satellites (1)" {
		t.Errorf("%s", got)
	}
	if got := nodeText(p); !strings.HasPrefix(got, "leave n08: ") {
		t.Errorf("%q", got)
	}
	if p.Suspended || strings.Contains(strings.Join(p.Notes, ";"), "spec.suspend is set") {
		t.Errorf("%v %v", p.Suspended, p.Notes)
	}
}

// TestUnderASuspension every change waits, but for the two fields that count at once.
func TestUnderASuspension(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Cluster.Spec.Suspend = true
	p := planOf(t, w, func(s *spec) {
		s.Controller.Properties = map[string]string{"k": "v"}
		s.Nodes.RemovalPolicy = v1alpha1.NodesRemove
		s.DeletionPolicy = v1alpha1.DeletionDelete
	})
	for i := range p.Fields {
		if f := &p.Fields[i]; strings.HasPrefix(f.When, "once spec.suspend is false again") == (f.Path == "deletionPolicy") {
			t.Errorf("%s: %s", f.Path, f.When)
		}
	}
	if !p.Suspended || len(p.Fields) != 3 {
		t.Errorf("%v %+v", p.Suspended, p.Fields)
	}
}

// TestAnnotations begin something that is not planned. Those of others are none of the operator's.
func TestAnnotations(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	w.Cluster.Annotations = map[string]string{v1alpha1.AnnotationCanary: "a", "example.com/x": "1"}
	for _, tc := range []struct {
		key, value, want string
	}{
		{v1alpha1.AnnotationCanary, "a", ""},
		{v1alpha1.AnnotationCanary, "b", "annotation storage.linstor.dev/canary would be set"},
		{v1alpha1.AnnotationCanary, "", "annotation storage.linstor.dev/canary would be removed"},
		{"storage.linstor.dev/restore", "x", "annotation storage.linstor.dev/restore would be set"},
		{"example.com/x", "2", ""},
	} {
		wanted := w.Cluster.DeepCopy()
		if wanted.Annotations[tc.key] = tc.value; tc.value == "" {
			delete(wanted.Annotations, tc.key)
		}
		stored := w.Cluster
		w.Cluster = plan.Edited(stored, wanted)
		p, err := plan.Make(t.Context(), plan.Input{Seen: w.Snapshot(), Stored: stored, Wanted: wanted})
		w.Cluster = stored
		if err != nil {
			t.Fatal(err)
		}
		outcome, of := result.Changes, result.Edit
		if tc.want == "" {
			outcome, of = result.Nothing, result.Present
		}
		if got := strings.Join(p.Unknown, "; "); !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") ||
			p.Outcome != outcome || p.Of != of {
			t.Errorf("%s=%q: %s of %s: %s", tc.key, tc.value, p.Outcome, p.Of, got)
		}
	}
}

// TestAPolicyThatChangesObjects: what it has made of a template restarts nothing, and its fields are not the edit's.
func TestAPolicyThatChangesObjects(t *testing.T) {
	w := clustertest.NewWorld(t, 3)
	ds := w.Kube.DaemonSets["linstor-satellite"]
	ds.Spec.Template.Spec.Containers[0].Image = "mirror.example.com/satellite"
	ds.Annotations[drift.AnnotationAdmitted] = "x"
	p := planOf(t, w, satelliteLimit)
	if !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, "a policy in this") }) {
		t.Errorf("%v", p.Notes)
	}
}

// TestAThousandNodes are planned in a time that grows with their number, and told in few words.
func TestAThousandNodes(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	for i := 3; i <= 999; i++ {
		grow(w, i)
	}
	p := planOf(t, w, func(s *spec) {
		satelliteLimit(s)
		s.Nodes.Properties = map[string]string{"Aux/site": "a"}
	})
	if got := restarted(p); got != "satellites (999)" || len(p.Restarts[0].Names.Names) != result.MostNames {
		t.Errorf("%s", got)
	}
	if len(p.Linstor) != 1 || p.Linstor[0].Nodes.Count != 999 {
		t.Errorf("%+v", p.Linstor)
	}
}

// grow adds a node that is as n02, without judging the world anew for it.
func grow(w *clustertest.World, i int) {
	name, address := fmt.Sprintf("n%02d", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250)
	own := func(s string) string { return strings.ReplaceAll(s, "n02", name) }
	like := w.KubeNode("n02").DeepCopy()
	like.Name, like.UID, like.Labels[corev1.LabelHostname] = name, types.UID(own(string(like.UID))), name
	like.Status.NodeInfo.SystemUUID = own(like.Status.NodeInfo.SystemUUID)
	like.Status.Addresses[0].Address = address
	w.Kube.Nodes = append(w.Kube.Nodes, like)
	for component, pods := range w.Kube.Pods {
		if old := pods["n02"]; old != nil {
			pod := old.DeepCopy()
			pod.Name, pod.Spec.NodeName, pod.Status.PodIP = component+"-"+name, name, address
			w.PutPod(component, name, pod)
		}
	}
	node := *w.Node("n02")
	node.Name, node.Properties, node.Pools = name, map[string]string{}, map[string]*linstor.Pool{}
	for k, v := range w.Node("n02").Properties {
		node.Properties[k] = own(v)
	}
	for k, p := range w.Node("n02").Pools {
		pool := *p
		pool.Node = name
		node.Pools[k] = &pool
	}
	node.Interfaces = slices.Clone(node.Interfaces)
	for j := range node.Interfaces {
		node.Interfaces[j].Address = address
	}
	w.Linstor.View.Nodes[name] = &node
}
