package preflight

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
)

// node is one that is fit.
func node(i int) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}, Status: corev1.NodeStatus{
		NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", OSImage: "Ubuntu 24.04.2 LTS",
			KernelVersion: "6.8.0-60-generic"},
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", i)}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

// fit is a cluster into which the operator can be installed.
func fit() *Seen {
	return &Seen{Host: "https://192.0.2.100:6443", Server: "v1.36.3", Nodes: []corev1.Node{node(1), node(2), node(3)},
		Administrator: true, Namespaces: []corev1.Namespace{namespace("default"), namespace("kube-system")}}
}

func namespace(name string) corev1.Namespace {
	return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func definition(name string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// webhook decides about pods wherever its selector says, and refuses when it does not answer.
func webhook(selector *metav1.LabelSelector, policy *admissionv1.FailurePolicyType, resource string) []admissionv1.
	ValidatingWebhookConfiguration {
	return []admissionv1.ValidatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "policies"},
		Webhooks: []admissionv1.ValidatingWebhook{{Name: "check.example.com", FailurePolicy: policy,
			NamespaceSelector: selector, Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, Resources: []string{resource}}}}}}}}
}

// TestJudge: what is in the way is found, and what is not does not make a cluster unfit.
func TestJudge(t *testing.T) {
	ignore := admissionv1.Ignore
	except := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName,
		Operator: metav1.LabelSelectorOpNotIn, Values: []string{v1alpha1.WorkloadNamespace}}}}
	for name, tc := range map[string]struct {
		change func(*Seen)
		want   tree.State
		says   string
	}{
		"fit":              {func(*Seen) {}, tree.Note, "not installed yet"},
		"old Kubernetes":   {func(s *Seen) { s.Server = "v1.29.8+k3s1" }, tree.Bad, "too old"},
		"odd Kubernetes":   {func(s *Seen) { s.Server = "main" }, tree.Unknown, `cannot parse the version "main"`},
		"no rights":        {func(s *Seen) { s.Denied = []string{"create namespaces"} }, tree.Bad, "create namespaces"},
		"no administrator": {func(s *Seen) { s.Administrator = false }, tree.Note, "sufficient to create the objects"},
		"unread": {func(s *Seen) { s.Nodes, s.Unread = nil, map[string]string{nodes: "not allowed to list nodes"} },
			tree.Unknown, "some data could not be read"},
		"definitions unread": {func(s *Seen) { s.Unread = map[string]string{definitions: "forbidden"} }, tree.Unknown,
			"? Another LINSTOR customresourcedefinitions.apiextensions.k8s.io could not be read"},
		"installed": {func(s *Seen) {
			s.Definitions = append(s.Definitions, definition("storageclusters.storage.linstor.dev"))
		}, tree.Note, "already installed"},
		"Piraeus": {func(s *Seen) { s.Definitions = append(s.Definitions, definition("linstorclusters.piraeus.io")) },
			tree.Bad, "can evacuate nodes"},
		"a database": {func(s *Seen) {
			s.Definitions = append(s.Definitions, definition("nodes.internal.linstor.linbit.com"))
		}, tree.Warn, "ForeignLinstorFound"},
		"a driver": {func(s *Seen) {
			s.Drivers = []storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: driverName}}}
		}, tree.Bad, "spec.volumes.driver.mode"},
		"our driver": {func(s *Seen) {
			s.Drivers = []storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: driverName,
				Labels: map[string]string{v1alpha1.LabelCluster: "linstor"}}}}
		}, tree.Note, "none found"},
		"a namespace": {func(s *Seen) { s.Namespaces = append(s.Namespaces, namespace("linstor-operator")) }, tree.Note,
			"already exists"},
		"a namespace that goes": {func(s *Seen) {
			n := namespace("linstor-storage")
			n.DeletionTimestamp = &metav1.Time{}
			s.Namespaces = append(s.Namespaces, n)
		}, tree.Bad, "is being deleted"},
		"a strict namespace": {func(s *Seen) {
			n := namespace("linstor-storage")
			n.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}
			s.Namespaces = append(s.Namespaces, n)
		}, tree.Warn, `the "baseline" Pod Security Standard`},
		"no nodes": {func(s *Seen) { s.Nodes = nil }, tree.Bad, "there are no Linux nodes"},
		"two nodes": {func(s *Seen) { s.Nodes = s.Nodes[:2] }, tree.Warn,
			"2 of 2 Linux nodes would be included: a volume needs 3"},
		"one is away": {func(s *Seen) { s.Nodes[1].Status.Conditions = nil }, tree.Warn, "1 (n2) not Ready"},
		"no address":  {func(s *Seen) { s.Nodes[1].Status.Addresses = nil }, tree.Bad, "1 (n2) without an InternalIP"},
		"same addresses": {func(s *Seen) { s.Nodes[1].Status.Addresses = s.Nodes[0].Status.Addresses }, tree.Bad,
			"2 (n1, n2) with"},
		"a mainframe": {func(s *Seen) { s.Nodes[2].Status.NodeInfo.Architecture = "s390x" }, tree.Warn,
			"1 (n3) neither amd64"},
		"all cordoned": {func(s *Seen) {
			for i := range s.Nodes {
				s.Nodes[i].Spec.Unschedulable = true
			}
		}, tree.Bad, "its pods cannot run on any node"},
		"two are tainted": {func(s *Seen) {
			for i := range s.Nodes[:2] {
				s.Nodes[i].Spec.Taints = []corev1.Taint{{Key: "example.com/storage", Effect: corev1.TaintEffectNoSchedule}}
			}
		}, tree.Warn, "2 (n1, n2) with the taint example.com/storage:NoSchedule: included only if spec.nodes.tolerations"},
		"all are new": {func(s *Seen) {
			for i := range s.Nodes {
				s.Nodes[i].Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/not-ready",
					Effect: corev1.TaintEffectNoSchedule}}
			}
		}, tree.Note, "3 of 3 Linux nodes would be included"},
		"all are of others": {func(s *Seen) {
			for i := range s.Nodes {
				s.Nodes[i].Spec.Taints = []corev1.Taint{{Key: "example.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
			}
		}, tree.Bad, "its pods cannot run on any node"},
		"a control plane": {func(s *Seen) {
			s.Nodes = append(s.Nodes, node(4))
			s.Nodes[3].Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane",
				Effect: corev1.TaintEffectNoSchedule}}
		}, tree.Note, "3 of 4 Linux nodes would be included"},
		"a control plane alone": {func(s *Seen) {
			for i := range s.Nodes {
				s.Nodes[i].Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane",
					Effect: corev1.TaintEffectNoSchedule}}
			}
		}, tree.Warn, "0 of 3 Linux nodes would be included"},
		"OpenShift": {func(s *Seen) {
			s.Nodes[0].Status.NodeInfo.OSImage = "Red Hat Enterprise Linux CoreOS 417.94.202501010000-0"
		}, tree.Warn, "OpenShift nodes have no kernel headers"},
		"Piraeus 1": {func(s *Seen) {
			s.Definitions = append(s.Definitions, definition("linstorcontrollers.piraeus.linbit.com"))
		}, tree.Bad, "can evacuate nodes"},
		"two addresses, one of another node": {func(s *Seen) {
			s.Nodes[1].Status.Addresses = append(s.Nodes[1].Status.Addresses, s.Nodes[0].Status.Addresses[0])
		}, tree.Bad, "2 (n1, n2) with the same InternalIP"},
		"Talos": {func(s *Seen) { s.Nodes[0].Status.NodeInfo.OSImage = "Talos (v1.11.0)" }, tree.Warn, "siderolabs/drbd"},
		"an unknown system": {func(s *Seen) { s.Nodes[0].Status.NodeInfo.OSImage = "Example OS 1" }, tree.Warn,
			"Example OS 1, kernel 6.8.0-60-generic: the catalogue has no loader"},
		"Windows beside": {func(s *Seen) {
			n := node(4)
			n.Status.NodeInfo.OperatingSystem = "windows"
			s.Nodes = append(s.Nodes, n)
		}, tree.Note, "3 of 3 Linux nodes would be included"},
		"a webhook": {func(s *Seen) { s.Validating = webhook(nil, nil, "pods") }, tree.Warn,
			"policies (check.example.com)"},
		"a webhook of all": {func(s *Seen) { s.Validating = webhook(nil, nil, "*") }, tree.Warn,
			"policies (check.example.com)"},
		"a webhook that lets go": {func(s *Seen) { s.Validating = webhook(nil, &ignore, "pods") }, tree.Note,
			"no webhook affects"},
		"a webhook elsewhere": {func(s *Seen) { s.Validating = webhook(except, nil, "pods") }, tree.Note,
			"no webhook affects"},
		"a webhook of else": {func(s *Seen) { s.Validating = webhook(nil, nil, "deployments") }, tree.Note,
			"no webhook affects"},
		"a webhook of parts": {func(s *Seen) { s.Validating = webhook(nil, nil, "pods/*") }, tree.Warn,
			"policies (check.example.com)"},
		"a webhook of some pods": {func(s *Seen) {
			s.Validating = webhook(nil, nil, "pods")
			s.Validating[0].Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, tree.Warn, "policies (check.example.com, applies only to some pods)"},
		"a namespace that is left out": {func(s *Seen) {
			n := namespace("linstor-storage")
			n.Labels = map[string]string{"policies.example.com/ignore": "true"}
			s.Namespaces = append(s.Namespaces, n)
			s.Validating = webhook(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: "policies.example.com/ignore", Operator: metav1.LabelSelectorOpDoesNotExist}}}, nil, "pods")
		}, tree.Note, "no webhook affects"},
		"a webhook that changes": {func(s *Seen) {
			w := webhook(nil, nil, "pods")[0].Webhooks[0]
			s.Mutating = []admissionv1.MutatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "mesh"},
				Webhooks: []admissionv1.MutatingWebhook{{Name: "inject.example.com", Rules: w.Rules}}}}
		}, tree.Warn, "mesh (inject.example.com)"},
		"snapshots": {func(s *Seen) {
			s.Definitions = append(s.Definitions, definition("volumesnapshots.snapshot.storage.k8s.io"))
		}, tree.Note, "the VolumeSnapshot CRDs exist"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fit()
			tc.change(s)
			f := Judge(s)
			for _, width := range []int{80, 120} {
				lines := f.Lines(tree.Style{Width: width})
				for _, l := range lines {
					if n := len([]rune(l)); n > width {
						t.Errorf("%d characters: %s", n, l)
					}
				}
				said := strings.NewReplacer("│", "", "├─", "", "└─", "").Replace(strings.Join(lines, "\n"))
				if f.State != tc.want || f.Fit != (tc.want != tree.Bad) || width == 120 && !strings.Contains(
					strings.Join(strings.Fields(said), " "), tc.says) {
					t.Errorf("%s, fit: %t; want %s, %q:\n%s", f.State, f.Fit, tc.want, tc.says, strings.Join(lines, "\n"))
				}
			}
		})
	}
}

// TestManyKinds: a cluster in the middle of an update is listed by kinds of nodes, the most first, and bounded.
func TestManyKinds(t *testing.T) {
	s := fit()
	for i := range 20 {
		n := node(10 + i)
		n.Status.NodeInfo.KernelVersion = fmt.Sprintf("6.8.0-%d-generic", i)
		s.Nodes = append(s.Nodes, n)
	}
	got := s.kernels()
	if len(got.Items) != mostGroups+1 || got.Items[0].Name != "3 nodes" ||
		got.Items[mostGroups].Text != "9 more kinds of nodes" {
		t.Errorf("%+v", got)
	}
}
