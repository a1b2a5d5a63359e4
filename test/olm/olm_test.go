package olm

import (
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const small = `kind: ClusterServiceVersion
apiVersion: operators.coreos.com/v1alpha1
metadata: {name: op.v1.0.0}
spec:
  installModes: [{type: AllNamespaces, supported: true}]
  install:
    strategy: deployment
    spec:
      clusterPermissions:
      - {serviceAccountName: op, rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]}
      permissions:
      - {serviceAccountName: op, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
      deployments:
      - {name: op, label: {a: b}, spec: {replicas: 2, selector: {}, template: {spec: {containers: []}}}}
`

func bundle(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out["manifests/"+name+".yaml"] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

// TestObjects: what a bundle lists for a namespace is given for all of them; what lies beside stays what it is.
func TestObjects(t *testing.T) {
	objects, err := Objects(bundle(map[string]string{"version": small,
		"role": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: elsewhere}\n",
		"crd":  "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: d}\n"}), "here")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		found[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o
	}
	for _, name := range []string{"Role here/r", "CustomResourceDefinition /d", "ServiceAccount here/op",
		"ClusterRole /op.v1.0.0-0", "ClusterRoleBinding /op.v1.0.0-0", "ClusterRole /op.v1.0.0-op-0",
		"ClusterRoleBinding /op.v1.0.0-op-0", "Deployment here/op"} {
		if found[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	if len(objects) != 8 {
		t.Errorf("%d objects: %v", len(objects), found)
	}
	if rules, _, err := unstructured.NestedSlice(found["ClusterRole /op.v1.0.0-op-0"].Object, "rules"); err != nil ||
		len(rules) != 2 {
		t.Errorf("%v, %v", rules, err)
	}
	if labels := found["Deployment here/op"].GetLabels(); labels["a"] != "b" {
		t.Errorf("%v", labels)
	}
}

// TestRefused: what OLM does not install is an error.
func TestRefused(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"no ClusterServiceVersion": {},
		"OLM takes no Namespace":   {"version": small, "ns": "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"},
		"first object of a file": {"version": small,
			"two": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\nkind: Service\napiVersion: v1\n"},
		"cannot be installed for all": {"version": strings.ReplaceAll(small, "supported: true", "supported: false")},
		"OLM takes no ClusterService": {"version": small, "version2": small},
	} {
		if _, err := Objects(bundle(files), "here"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
