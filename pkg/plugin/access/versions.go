package access

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// DefinitionName is the name of the StorageCluster's definition.
const DefinitionName = "storageclusters.storage.linstor.dev"

// Versions are those of all that takes part, one a line. What could not be read is said in its line, and in the error.
func (c *Cluster) Versions(ctx context.Context, plugin string) ([]string, error) {
	out := []string{"plugin      " + plugin}
	var failed []error
	for _, part := range []struct {
		name string
		read func(context.Context) (string, error)
	}{{"operator", c.operatorVersion}, {"linstor", c.linstorVersion}, {"crd", c.definitionVersion},
		{"kubernetes", c.serverVersion}} {
		text, err := part.read(ctx)
		if err != nil {
			failed = append(failed, err)
			text, _, _ = strings.Cut(err.Error(), "\n")
			text = "unknown: " + text
		}
		out = append(out, fmt.Sprintf("%-10s  %s", part.name, text))
	}
	return out, errors.Join(failed...)
}

// operatorVersion is the operator's image: its tag is its version.
func (c *Cluster) operatorVersion(ctx context.Context) (string, error) {
	var list appsv1.DeploymentList
	if err := c.List(ctx, &list, client.InNamespace(v1alpha1.OperatorNamespace)); err != nil {
		return "", c.Explain(err, "list", "deployments.apps", "in "+v1alpha1.OperatorNamespace)
	}
	for i := range list.Items {
		d := &list.Items[i]
		if d.Name == OperatorName && len(d.Spec.Template.Spec.Containers) > 0 {
			return fmt.Sprintf("%s, %d of %d pods ready", d.Spec.Template.Spec.Containers[0].Image, d.Status.ReadyReplicas,
				d.Status.Replicas), nil
		}
	}
	return "Deployment storagecluster-operator not found in namespace " + v1alpha1.OperatorNamespace, nil
}

func (c *Cluster) linstorVersion(ctx context.Context) (string, error) {
	sc, err := c.StorageCluster(ctx)
	if err != nil {
		return "", err
	}
	text := sc.Status.Version
	if text == "" {
		text = "not selected yet"
	}
	if k := sc.Status.KernelModule; k != nil {
		for _, v := range k.Loaded {
			text += fmt.Sprintf(", DRBD %s on %d nodes", v.Version, v.Count)
		}
	}
	return text, nil
}

// definitionVersion is what the StorageCluster's definition serves.
func (c *Cluster) definitionVersion(ctx context.Context) (string, error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(CRD)
	if err := c.Get(ctx, client.ObjectKey{Name: DefinitionName}, crd); err != nil {
		return "", c.Explain(err, "get", "customresourcedefinitions.apiextensions.k8s.io", DefinitionName)
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return "", fmt.Errorf("read the CRD: %w", err)
	}
	var served []string
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["served"] == true {
			served = append(served, fmt.Sprint(m["name"]))
		}
	}
	return fmt.Sprintf("%s %s, generation %d", DefinitionName, strings.Join(served, ", "), crd.GetGeneration()), nil
}

func (c *Cluster) serverVersion(ctx context.Context) (string, error) {
	text, err := c.Server(ctx)
	if err != nil {
		return "", c.Explain(err, "get", "the API server version", "")
	}
	return text + " at " + c.Host, nil
}
