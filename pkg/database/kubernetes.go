package database

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodesKind is the kind of LINSTOR's table of nodes; LINSTOR names kinds in the plural (linstor-server, Nodes.yaml).
var nodesKind = schema.GroupKind{Group: "internal.linstor.linbit.com", Kind: "Nodes"}

// kubernetes lists LINSTOR's custom resources. Any version that is served will do: each shows all objects, and the
// columns of this table have been the same since LINSTOR's first version with this database (GenCrdV1_15_0 to
// GenCrdV1_33_1).
func (p *Prober) kubernetes(ctx context.Context) ([]string, error) {
	discovering, ok := p.reader.(interface{ RESTMapper() meta.RESTMapper })
	if !ok {
		return nil, fmt.Errorf("kubernetes: discover the versions of %s: a %T has no RESTMapper", nodesKind, p.reader)
	}
	mappings, err := discovering.RESTMapper().RESTMappings(nodesKind)
	if meta.IsNoMatchError(err) {
		return nil, nil // no LINSTOR has installed its definitions
	}
	if err != nil {
		return nil, kubernetesError("discover the versions of", err)
	}
	for _, mapping := range mappings {
		names, err := p.listNodes(ctx, mapping.GroupVersionKind)
		if apierrors.IsNotFound(err) {
			continue // discovered earlier and gone since: another version, or the whole definition
		}
		if err != nil {
			return nil, kubernetesError("list", err)
		}
		return names, nil
	}
	return nil, nil
}

func (p *Prober) listNodes(ctx context.Context, kind schema.GroupVersionKind) ([]string, error) {
	var names []string
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	for {
		if err := p.reader.List(ctx, page, client.Limit(p.pageSize), client.Continue(page.GetContinue())); err != nil {
			return nil, err
		}
		for i := range page.Items {
			names = append(names, nodeName(&page.Items[i]))
		}
		if page.GetContinue() == "" {
			return names, nil
		}
	}
}

// nodeName falls back to the object's own name, a hash: a node that cannot be read is still somebody's node.
func nodeName(node *unstructured.Unstructured) string {
	for _, column := range []string{"node_dsp_name", "node_name"} {
		if name, _, err := unstructured.NestedString(node.Object, "spec", column); err == nil && name != "" {
			return name
		}
	}
	return node.GetName()
}

// kubernetesError wraps: neither the API server nor client-go puts credentials into errors.
func kubernetesError(verb string, err error) error {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return fmt.Errorf("kubernetes API %w: %s %s: %w", errUnreachable, verb, nodesKind, err)
	}
	return fmt.Errorf("kubernetes: %s %s: %w", verb, nodesKind, err)
}
