// Package optional is what is known of APIs that not every Kubernetes serves, such as Prometheus Operator's. They come
// and go with CustomResourceDefinitions that others install and remove.
package optional

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// State says whether the API server serves something.
type State string

// States of an API. Whoever finds one Unknown does nothing: an object that cannot be seen now may well be there.
const (
	Unknown State = ""
	Absent  State = "Absent"
	Served  State = "Served"
)

// Monitoring is Prometheus Operator's API.
var Monitoring = schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}

// Snapshots is Kubernetes' API of snapshots of volumes, which is no part of Kubernetes itself: its definitions come
// with external-snapshotter.
var Snapshots = schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}

// Groups are the groups' versions that the operator has a use for. It looks for no others.
func Groups() []schema.GroupVersion { return []schema.GroupVersion{Monitoring, Snapshots} }

// APIs are the kinds that the API server serves, by group and version: none for one that it does not serve. About one
// that is missing here the API server did not answer. The zero value knows nothing.
type APIs map[schema.GroupVersion][]string

// State is Served if all of these kinds of a group's version are served, and Absent if one of them is not.
func (a APIs) State(gv schema.GroupVersion, kinds ...string) State {
	served, known := a[gv]
	if !known {
		return Unknown
	}
	for _, kind := range kinds {
		if !slices.Contains(served, kind) {
			return Absent
		}
	}
	if len(served) == 0 {
		return Absent
	}
	return Served
}
