// Package resources builds the Kubernetes objects that a StorageCluster runs on. Builders are pure: the same parameters
// give the same object, byte for byte, so that comparing with what the API server holds tells whether to apply.
//
// What all objects have in common:
//
//   - They live in the namespace linstor-storage and carry the cluster's name as a label. They have no ownerReference: a
//     foreground deletion of the StorageCluster would take everything down past the operator's finalizer, and a
//     StorageCluster that is restored from a backup has another UID. Only the Deleting phase deletes, by label.
//   - TypeMeta is set, because they are applied server-side.
//   - Fields are set only where LINSTOR or safety needs them; the API server's defaults fill the rest.
//
// The number of objects depends on the operating systems of the nodes, never on the number of nodes.
package resources
