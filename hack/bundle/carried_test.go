package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/linstor-dev/storagecluster-operator/hack/manifests"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/olm"
)

// TestLeftOut: which objects the bundle carries, and why it does not carry the others. Whoever adds one to the
// manifests decides where it belongs.
func TestLeftOut(t *testing.T) {
	got := map[string][]string{}
	for _, d := range documents(t) {
		reason := leftOut(d)
		got[reason] = append(got[reason], d.Kind+" "+strings.TrimPrefix(d.Namespace+"/"+d.Name, "/"))
	}
	// All that is in LINSTOR's namespace is somewhere else than the operator: the operator's rights there, and the
	// ServiceAccounts, rights and network policies of the components.
	for _, n := range got[elsewhere] {
		if !strings.Contains(n, " linstor-storage/") && !strings.HasSuffix(n, " default/storagecluster-operator-events") {
			t.Errorf("%s is in another namespace", n)
		}
	}
	delete(got, elsewhere)
	want := map[string][]string{
		"": {
			"CustomResourceDefinition storageclusters.storage.linstor.dev",
			"ServiceAccount linstor-operator/storagecluster-operator",
			"Deployment linstor-operator/storagecluster-operator",
			"PodDisruptionBudget linstor-operator/storagecluster-operator",
			"Service linstor-operator/storagecluster-operator-metrics",
			"ClusterRole storagecluster-operator",
			"ClusterRoleBinding storagecluster-operator",
			"Role linstor-operator/storagecluster-operator",
			"RoleBinding linstor-operator/storagecluster-operator",
			"ClusterRole storagecluster-viewer",
			"ClusterRole storagecluster-admin",
			"ClusterRole storagecluster-metrics-reader",
		},
		kindNew: {"NetworkPolicy linstor-operator/storagecluster-operator"},
		kindUnknown: {
			"Namespace linstor-operator",
			"Namespace linstor-storage",
			"ResourceQuota linstor-operator/critical-pods",
			"ValidatingAdmissionPolicy storagecluster-operator-nodes",
			"ValidatingAdmissionPolicyBinding storagecluster-operator-nodes",
			"ValidatingAdmissionPolicy storagecluster-node-labels",
			"ValidatingAdmissionPolicyBinding storagecluster-node-labels",
			"ValidatingAdmissionPolicy storagecluster-operator-objects",
			"ValidatingAdmissionPolicyBinding storagecluster-operator-objects",
			"ValidatingAdmissionPolicy storagecluster-operator-pods",
			"ValidatingAdmissionPolicyBinding storagecluster-operator-pods",
			"ValidatingAdmissionPolicy storagecluster-operator-workloads",
			"ValidatingAdmissionPolicyBinding storagecluster-operator-workloads",
			"ValidatingAdmissionPolicy linstor-controller-definitions",
			"ValidatingAdmissionPolicyBinding linstor-controller-definitions",
			"ValidatingAdmissionPolicy storagecluster-deletion",
			"ValidatingAdmissionPolicyBinding storagecluster-deletion",
			"ValidatingAdmissionPolicy storagecluster-protection",
			"ValidatingAdmissionPolicyBinding storagecluster-protection",
		},
		outlives: {
			"ClusterRole linstor-controller",
			"ClusterRoleBinding linstor-controller",
			"ClusterRole linstor-ha-controller",
			"ClusterRoleBinding linstor-ha-controller",
			"ClusterRole linstor-affinity-controller",
			"ClusterRoleBinding linstor-affinity-controller",
			"ClusterRole linstor-csi-controller",
			"ClusterRoleBinding linstor-csi-controller",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestNoPolicies: nothing that the bundle gives is the right to write admission policies.
func TestNoPolicies(t *testing.T) {
	objects, err := olm.Objects(os.DirFS(filepath.Join(root, Directory, "bundle")), v1alpha1.OperatorNamespace)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, o := range objects {
		rules, _, err := unstructured.NestedSlice(o.Object, "rules")
		if err != nil {
			t.Error(err)
		}
		for _, rule := range rules {
			seen++
			groups, _, err := unstructured.NestedStringSlice(rule.(map[string]any), "apiGroups")
			if err != nil || slices.Contains(groups, "*") || slices.Contains(groups, "admissionregistration.k8s.io") {
				t.Errorf("%s gives rights on %v: %v", nameOf(o), groups, err)
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d rules", seen)
	}
}

// TestTake: an object that OLM would make otherwise than the manifest is refused.
func TestTake(t *testing.T) {
	const labels = "\n  labels: {app.kubernetes.io/name: storagecluster-operator}\n"
	const binding = "kind: ClusterRoleBinding\nmetadata:\n  name: storagecluster-operator" + labels
	for text, want := range map[string]string{
		"kind: Deployment\nmetadata:\n  name: other" + labels:     "one Deployment",
		"kind: ServiceAccount\nmetadata:\n  name: other" + labels: "one ServiceAccount",
		binding + "roleRef: {kind: ClusterRole, name: cluster-admin}\nsubjects:\n- {kind: ServiceAccount, " +
			"name: storagecluster-operator, namespace: linstor-operator}\n": "must bind Service",
		binding + "roleRef: {kind: ClusterRole, name: storagecluster-operator}\n": "must bind Service",
		binding + "roleRef: {kind: ClusterRole, name: storagecluster-operator}\nsubjects:\n" +
			"- {kind: ServiceAccount, name: storagecluster-operator, namespace: default}\n": "must bind Service",
	} {
		found, err := manifests.Split(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&strategy{}).take(found[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := (&strategy{}).install(); err == nil {
		t.Error("a bundle without an operator is complete")
	}
}

// TestObject: an object keeps the comments about it, and no others.
func TestObject(t *testing.T) {
	for text, want := range map[string]string{
		"# The file.\n\n# --- 1. Section ---\n# It.\nkind: A\nx: 1 # one\n": "# It.\nkind: A\nx: 1 # one\n",
		"kind: A\n# inside\nx: 1\n\n# --- 2. Next ---\n# More.\n":           "kind: A\n# inside\nx: 1\n",
	} {
		if got := object(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
