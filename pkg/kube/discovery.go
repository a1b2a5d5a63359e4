package kube

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Discovery finds out what the API server serves. Every account may do that (ClusterRole system:discovery).
//
// It remembers nothing. A RESTMapper does, and goes on to name a kind whose definition was removed.
type Discovery struct {
	Client discovery.ServerResourcesInterfaceWithContext
}

// Kinds are the kinds that the API server serves of a group's version, sorted; none if it does not serve that at all.
func (d Discovery) Kinds(ctx context.Context, gv schema.GroupVersion) ([]string, error) {
	list, err := d.Client.ServerResourcesForGroupVersionWithContext(ctx, gv.String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("check whether the API server serves %s: %w", gv, err)
	}
	var kinds []string
	for i := range list.APIResources {
		kinds = append(kinds, list.APIResources[i].Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), nil // a subresource such as status has the kind of its resource
}
