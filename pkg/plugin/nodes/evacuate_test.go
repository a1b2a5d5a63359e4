package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
)

// policy is spec.nodes.removalPolicy now.
func policy(t *testing.T, s *plugintest.Server) v1alpha1.NodeRemovalPolicy {
	t.Helper()
	sc := &v1alpha1.StorageCluster{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterName}, sc); err != nil {
		t.Fatal(err)
	}
	return sc.Spec.Nodes.RemovalPolicy
}

// untouched checks that neither the node nor the policy was changed.
func untouched(t *testing.T, s *plugintest.Server, what string, code int, name string) {
	t.Helper()
	has := func(taint corev1.Taint) bool { return strings.Contains(taint.Key, "evacuate") || taint.Key == "a" }
	if n := node(t, s, name); code == exit.Done || slices.ContainsFunc(n.Spec.Taints, has) ||
		policy(t, s) != v1alpha1.NodesRetain {
		t.Errorf("%s: code %d, taints %v, policy %s", what, code, n.Spec.Taints, policy(t, s))
	}
}

func TestEvacuate(t *testing.T) {
	s := server(t, nil, plugintest.Faults{}, func(sc *v1alpha1.StorageCluster, n *corev1.Node) {
		sc.Status.Nodes.Leaving = []v1alpha1.LeavingNode{{Name: "node-7", State: v1alpha1.LeavingRetained}}
		n.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
	})
	code, said := run(t, s, linstor(resources, nil), "evacuate", "node-2", "-y")
	expect(t, said, "LAST REPLICA", "pvc-2, pvc-3", "spec.nodes.removalPolicy changes from Retain to Evacuate.",
		"also evacuates nodes whose data has been retained until now: node-7", "2 nodes will remain", "1200Gi free",
		"gets taint storage.linstor.dev/evacuate:NoSchedule", "The evacuation of node node-2 starts in ten minutes",
		"kubectl taint node node-2 storage.linstor.dev/evacuate:NoSchedule-")
	taints := node(t, s, "node-2").Spec.Taints
	if code != exit.Done || policy(t, s) != v1alpha1.NodesEvacuate || len(taints) != 2 ||
		taints[1].Key != "storage.linstor.dev/evacuate" {
		t.Errorf("code %d, policy %s, taints %v", code, policy(t, s), taints)
	}
	s = server(t, nil, plugintest.Faults{}, func(sc *v1alpha1.StorageCluster, n *corev1.Node) {
		sc.Spec.Nodes.NodeSelector = map[string]string{"disk": "ssd"}
		n.Labels["disk"] = "ssd"
	})
	code, said = run(t, s, linstor("[[]]", nil), "evacuate", "node-2", "--remove-label", "disk", "-y")
	expect(t, said, "Node node-2 does not have a replica of any volume.", "Label disk is removed from node node-2")
	expect(t, said, "starts in half a minute", "kubectl label node node-2 disk=ssd")
	if n := node(t, s, "node-2"); code != exit.Done || n.Labels["disk"] != "" || len(n.Spec.Taints) > 0 {
		t.Errorf("code %d, labels %v", code, n.Labels)
	}
}

func TestEvacuateRefused(t *testing.T) {
	type change = func(*v1alpha1.StorageCluster, *corev1.Node)
	for name, c := range map[string]struct {
		args, want string
		change     change
	}{
		"not drained": {"node-2", "is not drained", func(_ *v1alpha1.StorageCluster, n *corev1.Node) {
			n.Spec.Unschedulable = false
		}},
		"suspended": {"node-2", "spec.suspend", func(sc *v1alpha1.StorageCluster, _ *corev1.Node) {
			sc.Spec.Suspend = true
		}},
		"leaves": {"node-2", "is already being removed", func(sc *v1alpha1.StorageCluster, _ *corev1.Node) {
			sc.Status.Nodes.Leaving = []v1alpha1.LeavingNode{{Name: "node-2", State: v1alpha1.LeavingEvacuating}}
		}},
		"maintenance": {"node-2", "maintenance off node-2", func(_ *v1alpha1.StorageCluster, n *corev1.Node) {
			n.Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "true"}
		}},
		"tolerated": {"node-2", "tolerates taint", func(sc *v1alpha1.StorageCluster, _ *corev1.Node) {
			sc.Spec.Nodes.Tolerations = []v1alpha1.Toleration{{Operator: corev1.TolerationOpExists}}
		}},
		"passing": {"node-2 --taint medik8s.io/drain=evacuate:NoSchedule", "the operator ignores " +
			"taint medik8s.io/drain=evacuate:NoSchedule", nil},
		"not asked for": {"node-2 --remove-label x", "required labels: none", nil},
		"no taint":      {"node-2 --taint a=b:PreferNoSchedule", "must have the form", nil},
	} {
		var changes []change
		if c.change != nil {
			changes = append(changes, c.change)
		}
		s := server(t, nil, plugintest.Faults{}, changes...)
		code, said := run(t, s, linstor("[[]]", nil), append([]string{"evacuate", "-y"}, strings.Fields(c.args)...)...)
		expect(t, said, c.want)
		untouched(t, s, name, code, "node-2")
		if n := node(t, s, "node-2"); len(n.Spec.Taints) > 0 {
			t.Errorf("%s: taints %v", name, n.Spec.Taints)
		}
	}
	no := "n\n"
	s := server(t, &no, plugintest.Faults{})
	code, _ := run(t, s, linstor("[[]]", nil), "evacuate", "node-2")
	untouched(t, s, "not wanted", code, "node-2")
}

// forbids refuses the patches of some objects: those that are tried alone, or those that are meant.
func forbids(resource string, dry bool) plugintest.Faults {
	return plugintest.Faults{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
		opts ...client.PatchOption) error {
		applied := &client.PatchOptions{}
		applied.ApplyOptions(opts)
		_, isNode := o.(*corev1.Node)
		if (resource == "nodes") == isNode && (len(applied.DryRun) > 0) == dry {
			return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, o.GetName(), errors.New("no right"))
		}
		return c.Patch(ctx, o, p, opts...)
	}}
}

// TestEvacuateHalfDone: nothing moves because of a Node that may not be written, and what was written is said.
func TestEvacuateHalfDone(t *testing.T) {
	s := server(t, nil, forbids("nodes", false))
	code, said := run(t, s, linstor("[[]]", nil), "evacuate", "node-2", "-y")
	expect(t, said, "not allowed to patch nodes node-2")
	untouched(t, s, "the Node is refused", code, "node-2")

	s = server(t, nil, forbids("storageclusters", true))
	code, said = run(t, s, linstor("[[]]", nil), "evacuate", "node-2", "-y")
	expect(t, said, "nothing was changed: not allowed to patch storageclusters")
	untouched(t, s, "the policy would be refused", code, "node-2")

	s = server(t, nil, forbids("storageclusters", false))
	code, said = run(t, s, linstor("[[]]", nil), "evacuate", "node-2", "-y")
	expect(t, said, "node node-2 now has the taint storage.linstor.dev/evacuate:NoSchedule",
		"spec.nodes.removalPolicy is still Retain", "kubectl taint node node-2 storage.linstor.dev/evacuate:NoSchedule-")
	if code == exit.Done || policy(t, s) != v1alpha1.NodesRetain || len(node(t, s, "node-2").Spec.Taints) != 1 {
		t.Errorf("code %d, policy %s, taints %v", code, policy(t, s), node(t, s, "node-2").Spec.Taints)
	}
}

// TestEvacuateRetained: a node that was kept goes by the policy alone, and at once.
func TestEvacuateRetained(t *testing.T) {
	s := server(t, nil, plugintest.Faults{}, func(sc *v1alpha1.StorageCluster, _ *corev1.Node) {
		sc.Status.Nodes.Leaving = []v1alpha1.LeavingNode{{Name: "node-2", State: v1alpha1.LeavingRetained}}
		sc.Status.Nodes.LeavingCount = 1
	})
	code, said := run(t, s, linstor("[[]]", nil), "evacuate", "node-2", "-y")
	expect(t, said, "Node node-2 is already being removed, but its data has been retained",
		"the evacuation starts at once", "Removing a taint stops it only if", "The evacuation of node node-2 starts now.",
		`kubectl patch storagecluster linstor --type merge -p '{"spec":{"nodes":{"removalPolicy":"Retain"}}}'`)
	if strings.Contains(said, "also evacuates") || strings.Contains(said, "ten minutes") {
		t.Errorf("it says too much: %s", said)
	}
	if code != exit.Done || policy(t, s) != v1alpha1.NodesEvacuate || len(node(t, s, "node-2").Spec.Taints) > 0 {
		t.Errorf("code %d, policy %s, taints %v", code, policy(t, s), node(t, s, "node-2").Spec.Taints)
	}
}

// TestEvacuateManyRetained: the status names ten of them.
func TestEvacuateManyRetained(t *testing.T) {
	s := server(t, nil, plugintest.Faults{}, func(sc *v1alpha1.StorageCluster, _ *corev1.Node) {
		for i := range 10 {
			sc.Status.Nodes.Leaving = append(sc.Status.Nodes.Leaving,
				v1alpha1.LeavingNode{Name: fmt.Sprintf("node-9%d", i), State: v1alpha1.LeavingRetained})
		}
		sc.Status.Nodes.LeavingCount = 13
	})
	_, said := run(t, s, linstor(resources, nil), "evacuate", "node-2", "-y")
	expect(t, said, "node-98, node-99 and 3 more.", "if node-2 is one of them, its evacuation starts at once",
		"the status names only 10 of 13 leaving nodes")
}

// TestEvacuateChangedMeanwhile: what the user has agreed to is looked at once more before anything is written.
func TestEvacuateChangedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.StorageCluster, *corev1.Node)
		want   string
	}{
		"another node": {func(_ *v1alpha1.StorageCluster, n *corev1.Node) { n.UID = "another" }, "node node-2 has changed"},
		"another cluster": {func(sc *v1alpha1.StorageCluster, _ *corev1.Node) { sc.UID = "another" },
			"the StorageCluster has changed"},
		"another policy": {func(sc *v1alpha1.StorageCluster, _ *corev1.Node) {
			sc.Spec.Nodes.RemovalPolicy = v1alpha1.NodesRemove
		}, "spec.nodes.removalPolicy (was Retain, is now Remove) has changed"},
		"it was kept meanwhile": {func(sc *v1alpha1.StorageCluster, _ *corev1.Node) {
			sc.Status.Nodes.Leaving = []v1alpha1.LeavingNode{{Name: "node-2", State: v1alpha1.LeavingRetained}}
		}, "the removal state of node node-2 has changed"},
		"maintenance": {func(_ *v1alpha1.StorageCluster, n *corev1.Node) {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.AnnotationMaintenance, "true")
		}, "is under maintenance"},
		"uncordoned": {func(_ *v1alpha1.StorageCluster, n *corev1.Node) { n.Spec.Unschedulable = false }, "is not drained"},
		"suspended":  {func(sc *v1alpha1.StorageCluster, _ *corev1.Node) { sc.Spec.Suspend = true }, "spec.suspend"},
	} {
		reads := map[string]int{}
		s := server(t, nil, plugintest.Faults{Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey,
			o client.Object, opts ...client.GetOption) error {
			if err := w.Get(ctx, key, o, opts...); err != nil {
				return err
			}
			if reads[key.Name]++; reads[key.Name] == 1 {
				return nil
			}
			switch o := o.(type) {
			case *v1alpha1.StorageCluster:
				c.change(o, &corev1.Node{})
			case *corev1.Node:
				c.change(&v1alpha1.StorageCluster{}, o)
			}
			return nil
		}})
		code, said := run(t, s, linstor("[[]]", nil), "evacuate", "node-2", "-y")
		expect(t, said, "nothing was changed", c.want)
		untouched(t, s, name, code, "node-2")
	}
}
