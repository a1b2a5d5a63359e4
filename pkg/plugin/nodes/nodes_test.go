package nodes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/nodes"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
)

// resources is what LINSTOR's client prints: pvc-1 has a good copy elsewhere, pvc-2 has an outdated one there, pvc-3
// is on node-2 alone and in use, pvc-4 has nothing but a diskless resource there.
const resources = `[[
{"name":"pvc-1","node_name":"node-1","volumes":[{"state":{"disk_state":"UpToDate"}}],
 "layer_object":{"type":"DRBD","drbd":{"connections":{"node-2":{"connected":true}}}}},
{"name":"pvc-1","node_name":"node-2","state":{"in_use":false},"volumes":[{"state":{"disk_state":"UpToDate"}}],
 "layer_object":{"type":"DRBD","drbd":{"connections":{"node-1":{"connected":true}}}}},
{"name":"pvc-2","node_name":"Node-2","volumes":[{"state":{"disk_state":"UpToDate"}}]},
{"name":"pvc-2","node_name":"node-3","volumes":[{"state":{"disk_state":"Outdated"}}]},
{"name":"pvc-3","node_name":"node-2","state":{"in_use":true},"volumes":[{"state":{"disk_state":"UpToDate"}}]},
{"name":"pvc-3","node_name":"node-3","flags":["DISKLESS","TIE_BREAKER"],
 "volumes":[{"state":{"disk_state":"Diskless"}}]},
{"name":"pvc-4","node_name":"node-2","flags":["DISKLESS","DRBD_DISKLESS"],
 "volumes":[{"state":{"disk_state":"Diskless"}}]},
{"name":"pvc-4","node_name":"node-1","volumes":[{"state":{"disk_state":"UpToDate"}}]}
]]`

// satellites is what LINSTOR's client prints of its nodes.
const satellites = `[[{"name":"node-1","connection_status":"ONLINE"},{"name":"Node-2","connection_status":"ONLINE"},
{"name":"node-3","connection_status":"ONLINE"},{"name":"node-4","connection_status":"OFFLINE"},
{"name":"node-5","connection_status":"ONLINE","flags":["EVICTED"]}]]`

// linstor is LINSTOR's client: it lists these resources, of the nodes or volumes that it is asked for, or fails.
func linstor(resources string, err error) nodes.Linstor {
	return func(_ context.Context, args ...string) ([]byte, error) {
		what, filter := strings.Join(args[3:5], " "), args[5:]
		if err != nil || what == "node list" {
			return []byte(satellites), err
		}
		var all [][]map[string]any
		_ = json.Unmarshal([]byte(resources), &all)
		if len(all) == 0 || all[0] == nil { // an error of LINSTOR's, or nothing
			return []byte(resources), nil
		}
		key := map[string]string{"--nodes": "node_name", "--resources": "name"}[filter[0]]
		if key == "" {
			return nil, fmt.Errorf("linstor %s: a list of all copies of all volumes", strings.Join(args, " "))
		}
		all[0] = slices.DeleteFunc(all[0], func(r map[string]any) bool {
			got, named := r[key].(string)
			return named && !slices.ContainsFunc(filter[1:], func(name string) bool { return strings.EqualFold(name, got) })
		})
		return json.Marshal(all)
	}
}

// notices lets the operator see an announcement at once.
func notices() plugintest.Faults {
	return plugintest.Faults{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
		opts ...client.PatchOption) error {
		if err := c.Patch(ctx, o, p, opts...); err != nil {
			return err
		}
		n, ok := o.(*corev1.Node)
		if !ok {
			return nil
		}
		sc := &v1alpha1.StorageCluster{}
		if err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, sc); err != nil {
			return err
		}
		sc.Status.Nodes.Maintenance, sc.Status.Nodes.MaintenanceCount = nil, 0
		if _, there := n.Annotations[v1alpha1.AnnotationMaintenance]; there {
			sc.Status.Nodes.Maintenance, sc.Status.Nodes.MaintenanceCount = []string{n.Name}, 1
		}
		return c.Status().Update(ctx, sc)
	}}
}

func server(t *testing.T, typed *string, faults plugintest.Faults, change ...func(*v1alpha1.StorageCluster,
	*corev1.Node)) *plugintest.Server {
	sc, list := plugintest.Healthy(3), plugintest.Nodes([]string{"node-1", "node-2", "node-3"})
	sc.Spec.Nodes.RemovalPolicy = v1alpha1.NodesRetain
	list[1].Spec.Unschedulable = true
	for _, f := range change {
		f(sc, &list[1])
	}
	objects := []client.Object{sc}
	for i := range list {
		objects = append(objects, &list[i])
	}
	return plugintest.New(t, typed, faults, objects...)
}

// run calls a command of this package with a LINSTOR of the test's.
func run(t *testing.T, s *plugintest.Server, l nodes.Linstor, args ...string) (int, string) {
	t.Helper()
	s.Out.Reset()
	s.Err.Reset()
	cmd := nodes.Evacuate(s.Env, l)
	if args[0] == "maintenance" {
		cmd = nodes.Maintenance(s.Env, l)
	}
	cmd.SetArgs(args[1:])
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return exit.Code(err), strings.Join(strings.Fields(s.Out.String()+" "+s.Err.String()+" "+exit.Text(err)), " ")
}

func node(t *testing.T, s *plugintest.Server, name string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		t.Fatal(err)
	}
	return n
}

func expect(t *testing.T, said string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
}

func TestMaintenance(t *testing.T) {
	yes, no := "y\n", "n\n"
	s := server(t, &no, notices())
	code, said := run(t, s, linstor(resources, nil), "maintenance", "on", "node-2")
	expect(t, said, "3 volumes have a replica on node-2.",
		"no other node is known to have an up-to-date replica of pvc-2, pvc-3.", "Volumes in use on the node: pvc-3.",
		"[y/N]", "nothing was changed")
	if code != exit.Refused || len(node(t, s, "node-2").Annotations) > 0 {
		t.Errorf("code %d, annotations %v", code, node(t, s, "node-2").Annotations)
	}
	s = server(t, &yes, notices())
	code, said = run(t, s, linstor(resources, nil), "maintenance", "on", "node-2", "--reason", "new memory")
	expect(t, said, "Node node-2 is under maintenance.", "kubectl drain node-2", "kubectl linstor maintenance off node-2")
	if got := node(t, s, "node-2").Annotations[v1alpha1.AnnotationMaintenance]; code != exit.Done || got != "new memory" {
		t.Errorf("code %d, annotation %q", code, got)
	}
	code, said = run(t, s, linstor("", nil), "maintenance", "on", "node-2", "-y")
	expect(t, said, "already under maintenance: new memory")
	if code != exit.Done {
		t.Errorf("code %d", code)
	}
	code, said = run(t, s, nil, "maintenance", "off", "node-2", "-y")
	expect(t, said, "The maintenance of node node-2 has ended.", "kubectl uncordon node-2")
	if code != exit.Done || len(node(t, s, "node-2").Annotations) > 0 {
		t.Errorf("code %d, annotations %v", code, node(t, s, "node-2").Annotations)
	}
}

func TestMaintenanceRefused(t *testing.T) {
	for args, want := range map[string]string{
		"on node-9 -y": `node "node-9" does not exist`, "on node-2 -y": "is not part of", "up node-1": "on or off",
		"on node-1 --reason false": "would not start", "on node-1": "use --yes",
		"on node-1 -y --timeout 40ms": "did not act on this within 40ms",
	} {
		// Each case has a cluster of its own: one of them announces maintenance, and the order is left to chance.
		s := server(t, nil, plugintest.Faults{}, func(_ *v1alpha1.StorageCluster, n *corev1.Node) { n.Labels = nil })
		code, said := run(t, s, linstor("[[]]", nil), append([]string{"maintenance"}, strings.Fields(args)...)...)
		expect(t, said, want)
		if code == exit.Done {
			t.Errorf("%s: code %d", args, code)
		}
	}
	// Without LINSTOR's word nobody is kept from announcing anything.
	s := server(t, nil, notices())
	code, said := run(t, s, linstor("", errors.New("pods \"linstor-controller\" is forbidden")), "maintenance", "on",
		"node-2", "-y")
	expect(t, said, "Could not determine", "resource list --nodes node-2", "is under maintenance")
	if code != exit.Done {
		t.Errorf("code %d", code)
	}
}

// TestConflict: the kubelet writes the Node meanwhile.
func TestConflict(t *testing.T) {
	faults, writes := notices(), 0
	patch := faults.Patch
	faults.Patch = func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
		opts ...client.PatchOption) error {
		if writes++; writes == 1 {
			return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, o.GetName(), nil)
		}
		return patch(ctx, c, o, p, opts...)
	}
	s := server(t, nil, faults)
	code, said := run(t, s, linstor("[]", nil), "maintenance", "on", "node-1", "-y")
	if code != exit.Done || writes != 2 {
		t.Errorf("code %d after %d writes: %s", code, writes, said)
	}
}
