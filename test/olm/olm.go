// Package olm makes the objects that the Operator Lifecycle Manager makes from a bundle, for tests that have no OLM:
// as OLM 0.46 does it (pkg/controller/registry/resolver/rbac.go, pkg/controller/install/deployment.go, and ExecutePlan
// of pkg/controller/operators/catalog) and operator-controller 1.11 (internal/operator-controller/rukpak/render).
//
// Left out is what OLM adds on its own account: its labels, annotations and owners, the variable
// OPERATOR_CONDITION_NAME, and revisionHistoryLimit. The names that it makes up for roles are others.
package olm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// version is what OLM follows of a ClusterServiceVersion.
type version struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Install struct {
			Strategy string
			Spec     struct {
				ClusterPermissions, Permissions []struct {
					ServiceAccountName string
					Rules              []rbacv1.PolicyRule
				}
				Deployments []struct {
					Name  string
					Label map[string]string
					Spec  appsv1.DeploymentSpec
				}
			}
		}
		InstallModes []struct {
			Type      string
			Supported bool
		}
	}
}

// clusterScoped are the kinds that OLM leaves without a namespace (operator-registry, pkg/lib/bundle).
var clusterScoped = map[string]bool{
	"CustomResourceDefinition": true, "ClusterRole": true, "ClusterRoleBinding": true, "PriorityClass": true,
}

// taken are the kinds that every OLM from 0.16 on takes into a namespace, or leaves without one.
var taken = map[string]bool{
	"Secret": true, "ConfigMap": true, "ServiceAccount": true, "Service": true, "Role": true, "RoleBinding": true,
	"PodDisruptionBudget": true, "PrometheusRule": true, "ServiceMonitor": true,
}

// Objects are those that OLM makes from the bundle in a directory when it installs it into a namespace, for all
// namespaces.
func Objects(bundle fs.FS, namespace string) ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(bundle, "manifests/*.yaml")
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	var v *version
	for _, file := range files {
		text, err := fs.ReadFile(bundle, file)
		if err != nil {
			return nil, err
		}
		o, err := one(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path.Base(file), err)
		}
		switch kind := o.GetKind(); {
		case kind == "ClusterServiceVersion" && v == nil:
			v = &version{}
			if err := yaml.Unmarshal(text, v); err != nil {
				return nil, fmt.Errorf("%s: %w", path.Base(file), err)
			}
		case clusterScoped[kind]:
			out = append(out, o)
		case taken[kind]:
			o.SetNamespace(namespace)
			out = append(out, o)
		default:
			return nil, fmt.Errorf("%s: OLM takes no %s", path.Base(file), kind)
		}
	}
	if v == nil {
		return nil, errors.New("no ClusterServiceVersion")
	}
	made, err := v.objects(namespace)
	return append(out, made...), err
}

// one is the only object of a file.
func one(text []byte) (*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	o := &unstructured.Unstructured{}
	if err := decoder.Decode(o); err != nil {
		return nil, err
	}
	if err := decoder.Decode(&unstructured.Unstructured{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("OLM reads the first object of a file alone")
	}
	return o, nil
}

// objects are made from the ClusterServiceVersion itself.
func (v *version) objects(namespace string) ([]*unstructured.Unstructured, error) {
	forAll := false
	for _, m := range v.Spec.InstallModes {
		forAll = forAll || m.Type == "AllNamespaces" && m.Supported
	}
	install := v.Spec.Install
	if !forAll || install.Strategy != "deployment" {
		return nil, errors.New("it cannot be installed for all namespaces, by a Deployment")
	}
	var out []runtime.Object
	accounts := map[string]bool{}
	give := func(name, account string, rules []rbacv1.PolicyRule) {
		if !accounts[account] {
			accounts[account] = true
			out = append(out, &corev1.ServiceAccount{TypeMeta: kind("v1", "ServiceAccount"),
				ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: namespace}})
		}
		out = append(out, &rbacv1.ClusterRole{TypeMeta: kind(rbacv1.SchemeGroupVersion.String(), "ClusterRole"),
			ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules},
			&rbacv1.ClusterRoleBinding{TypeMeta: kind(rbacv1.SchemeGroupVersion.String(), "ClusterRoleBinding"),
				ObjectMeta: metav1.ObjectMeta{Name: name},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
				Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: namespace}}})
	}
	for i, p := range install.Spec.ClusterPermissions {
		give(fmt.Sprintf("%s-%d", v.Name, i), p.ServiceAccountName, p.Rules)
	}
	// What is listed for one namespace is given for all of them, and the right to see the namespaces with it.
	for i, p := range install.Spec.Permissions {
		give(fmt.Sprintf("%s-%s-%d", v.Name, p.ServiceAccountName, i), p.ServiceAccountName, append(p.Rules,
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list",
				"watch"}}))
	}
	for _, d := range install.Spec.Deployments {
		out = append(out, &appsv1.Deployment{TypeMeta: kind(appsv1.SchemeGroupVersion.String(), "Deployment"),
			ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: namespace, Labels: d.Label}, Spec: d.Spec})
	}
	return unstructuredOf(out)
}

func kind(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

func unstructuredOf(objects []runtime.Object) ([]*unstructured.Unstructured, error) {
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		delete(u, "status")
		out = append(out, &unstructured.Unstructured{Object: u})
	}
	return out, nil
}
