package main

import (
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/hack/manifests"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// name is that of the operator's ServiceAccount, of what binds it to its rights, and of its package in catalogues.
const name = "storagecluster-operator"

// strategy is what OLM makes from the ClusterServiceVersion itself.
type strategy struct {
	// definition is the CustomResourceDefinition that the bundle owns.
	definition struct {
		Spec struct {
			Names    struct{ Kind, Plural string }
			Group    string
			Versions []struct{ Name string }
		}
	}
	// deployment and rules are the operator's. account and bound say that its ServiceAccount and its ClusterRoleBinding
	// are what OLM makes by itself.
	deployment     *deployment
	rules          []any
	account, bound bool
}

type deployment struct {
	Metadata struct {
		Labels map[string]string
	}
	Spec map[string]any
}

// take takes an object up if OLM makes it from the ClusterServiceVersion, and reports whether the bundle needs no file
// with it. One that OLM would make otherwise than the manifest is an error.
//
// Rights in the operator's namespace are not taken up: OLM widens those that a ClusterServiceVersion lists as
// permissions to the whole cluster where the operator is installed for all namespaces (OLM, ensureSingletonRBAC;
// operator-controller, BundleCSVClusterPermissionsGenerator). As a Role of the bundle they stay what they are.
func (s *strategy) take(d manifests.Document) (bool, error) {
	switch {
	case d.Kind == "CustomResourceDefinition":
		return false, yaml.Unmarshal([]byte(d.Text), &s.definition)
	case d.Kind == "Deployment":
		if s.deployment != nil || d.Name != name {
			return false, errors.New("there must be exactly one Deployment, named " + name)
		}
		return true, yaml.Unmarshal([]byte(d.Text), &s.deployment)
	case d.Kind == "ServiceAccount":
		if d.Name != name {
			return false, errors.New("there must be exactly one ServiceAccount, named " + name)
		}
		s.account = true
		return true, nil
	case d.Kind == "ClusterRole" && d.Name == name:
		var role struct{ Rules []any }
		err := yaml.Unmarshal([]byte(d.Text), &role)
		s.rules = role.Rules
		return true, err
	case d.Kind == "ClusterRoleBinding":
		s.bound = true
		return true, bindsTheOperator(d)
	}
	return false, nil
}

// bindsTheOperator is an error unless a ClusterRoleBinding is the one that OLM makes for the operator's rights.
func bindsTheOperator(d manifests.Document) error {
	type reference struct{ Kind, Name, Namespace string }
	var binding struct {
		RoleRef  reference
		Subjects []reference
	}
	if err := yaml.Unmarshal([]byte(d.Text), &binding); err != nil {
		return err
	}
	want := reference{"ServiceAccount", name, v1alpha1.OperatorNamespace}
	if binding.RoleRef.Name != name || len(binding.Subjects) != 1 || binding.Subjects[0] != want {
		return fmt.Errorf("it must bind %s %s to the ClusterRole %s and nothing else", want.Kind, want.Name, name)
	}
	return nil
}

// install is the part of a ClusterServiceVersion that OLM follows.
func (s *strategy) install() (map[string]any, error) {
	if s.deployment == nil || s.rules == nil || !s.account || !s.bound {
		return nil, errors.New("the manifests lack the operator's Deployment, ServiceAccount, ClusterRole or its binding")
	}
	return map[string]any{
		"strategy": "deployment",
		"spec": map[string]any{
			"clusterPermissions": []any{map[string]any{"serviceAccountName": name, "rules": s.rules}},
			"deployments": []any{map[string]any{"name": name, "label": s.deployment.Metadata.Labels,
				"spec": s.deployment.Spec}},
		},
	}, nil
}

// image is the operator's own.
func (s *strategy) image() (string, error) {
	var pod struct {
		Template struct {
			Spec struct{ Containers []struct{ Image string } }
		}
	}
	text, err := yaml.Marshal(s.deployment.Spec)
	if err != nil {
		return "", err
	}
	if err := yaml.Unmarshal(text, &pod); err != nil {
		return "", err
	}
	if n := len(pod.Template.Spec.Containers); n != 1 {
		return "", fmt.Errorf("the Deployment has %d containers, expected one", n)
	}
	return pod.Template.Spec.Containers[0].Image, nil
}
