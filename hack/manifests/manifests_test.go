package manifests

import (
	"strings"
	"testing"
)

// TestSplit: each object is there with its comments, and what is LINSTOR's or protects it stays.
func TestSplit(t *testing.T) {
	documents, err := Split(`# about
---
# A role.
kind: Role
metadata:
  name: a
  labels: {app.kubernetes.io/name: storagecluster-operator}
---
kind: Role
metadata:
  name: b
  labels: {app.kubernetes.io/name: linstor}
---
kind: ValidatingAdmissionPolicy
metadata:
  name: storagecluster-deletion
  labels: {app.kubernetes.io/name: storagecluster-operator}
`)
	if err != nil || len(documents) != 3 {
		t.Fatalf("%v, %v", documents, err)
	}
	for i, want := range []struct {
		name  string
		stays bool
	}{{"Role a", false}, {"Role b", true}, {"ValidatingAdmissionPolicy storagecluster-deletion", true}} {
		if d := documents[i]; d.String() != want.name || d.Stays() != want.stays {
			t.Errorf("%s stays: %t", d, d.Stays())
		}
	}
	if !strings.HasPrefix(documents[0].Text, "# A role.\nkind: Role\n") {
		t.Errorf("%q", documents[0].Text)
	}
	if _, err := Split("kind: [\n"); err == nil || !strings.Contains(err.Error(), "read a document") {
		t.Errorf("%v", err)
	}
}
