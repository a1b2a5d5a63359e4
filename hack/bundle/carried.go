package main

import (
	"github.com/linstor-dev/storagecluster-operator/hack/manifests"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Why the bundle leaves an object out.
const (
	kindUnknown = "OLM does not support objects of this kind"
	kindNew     = "OLM versions before 0.32 reject a bundle that contains an object of this kind"
	elsewhere   = "OLM creates all objects in the operator's namespace"
	outlives    = "LINSTOR still needs it after OLM 1 has deleted the bundle's objects"
)

// kinds are those that the bundle carries, of all that OLM takes (operator-registry, pkg/lib/bundle, and OLM,
// pkg/controller/operators/catalog: supported resources). It makes the Deployment from the ClusterServiceVersion.
var kinds = map[string]bool{
	"CustomResourceDefinition": true,
	"Deployment":               true,
	"ServiceAccount":           true,
	"ClusterRole":              true,
	"ClusterRoleBinding":       true,
	"Role":                     true,
	"RoleBinding":              true,
	"Service":                  true,
	"PodDisruptionBudget":      true,
}

// leftOut is why the bundle leaves an object out; "" if it carries it. What it leaves out is in the file of
// prerequisites: no object of the manifests is in neither.
func leftOut(d manifests.Document) string {
	switch {
	case d.Kind == "NetworkPolicy" && d.Namespace == v1alpha1.OperatorNamespace:
		return kindNew
	case d.Namespace != "" && d.Namespace != v1alpha1.OperatorNamespace:
		return elsewhere
	case !kinds[d.Kind]:
		return kindUnknown
	case d.Kind == "CustomResourceDefinition":
		return "" // OLM demands the definitions that a bundle owns
	case d.Stays():
		return outlives
	}
	return ""
}
