package database

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodesKind and propertiesKind are the kinds of LINSTOR's tables of nodes and properties; LINSTOR names kinds in the
// plural (linstor-server, Nodes.yaml).
var (
	nodesKind      = schema.GroupKind{Group: "internal.linstor.linbit.com", Kind: "Nodes"}
	propertiesKind = schema.GroupKind{Group: nodesKind.Group, Kind: "PropsContainers"}
)

// kubernetes reads LINSTOR's custom resources. Any version that is served will do: each shows all objects, and the
// columns of these tables have been the same since LINSTOR's first version with this database (GenCrdV1_15_0 to
// GenCrdV1_33_1).
func (p *Prober) kubernetes(ctx context.Context) (*found, error) {
	f := &found{properties: map[string]string{}}
	err := p.inVersions(nodesKind, func(kind schema.GroupVersionKind) (err error) {
		f.nodes, err = p.listNodes(ctx, kind)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = p.inVersions(propertiesKind, func(kind schema.GroupVersionKind) error {
		return p.getProperties(ctx, kind, f.properties)
	})
	return f, err
}

// inVersions calls read with one of the versions in which the kind is served.
func (p *Prober) inVersions(kind schema.GroupKind, read func(schema.GroupVersionKind) error) error {
	discovering, ok := p.reader.(interface{ RESTMapper() meta.RESTMapper })
	if !ok {
		return fmt.Errorf("kubernetes: discover the versions of %s: a %T has no RESTMapper", kind, p.reader)
	}
	mappings, err := discovering.RESTMapper().RESTMappings(kind)
	if meta.IsNoMatchError(err) {
		return nil // no LINSTOR has installed its definitions
	}
	if err != nil {
		return kubernetesError("discover the versions of", kind, err)
	}
	for _, mapping := range mappings {
		err := read(mapping.GroupVersionKind)
		if apierrors.IsNotFound(err) {
			continue // discovered earlier and gone since: another version, or the whole definition
		}
		if err != nil {
			return kubernetesError("read", kind, err)
		}
		return nil
	}
	return nil
}

func (p *Prober) getProperties(ctx context.Context, kind schema.GroupVersionKind, into map[string]string) error {
	for _, instance := range instances {
		for _, property := range properties {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(kind)
			err := p.reader.Get(ctx, client.ObjectKey{Name: propertyObject(instance, property)}, object)
			if apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err) {
				continue // the version is served, and there is no such property
			}
			if err != nil {
				return err
			}
			if into[property], _, err = unstructured.NestedString(object.Object, "spec", "prop_value"); err != nil {
				return err
			}
		}
	}
	return nil
}

// propertyObject is the name of the object with a property, as LINSTOR derives it from the property's key
// (linstor-server, GenCrdCurrent.deriveKey). The operator may read these objects alone, since others hold keys.
func propertyObject(instance, property string) string {
	sum := sha256.Sum256([]byte(instance + ":" + property))
	return hex.EncodeToString(sum[:])
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
func kubernetesError(verb string, kind schema.GroupKind, err error) error {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return fmt.Errorf("kubernetes API %w: %s %s: %w", errUnreachable, verb, kind, err)
	}
	return fmt.Errorf("kubernetes: %s %s: %w", verb, kind, err)
}
