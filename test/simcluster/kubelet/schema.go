package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	goversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/dynamic"
)

// recordSchema does what a migration does last: it writes the version of the schema, with the rights of the pod's
// ServiceAccount. The minor version of LINSTOR stands for it: LINSTOR's own numbers are different, but only a change
// matters. Only tests that need the object define its kind.
func recordSchema(ctx context.Context, d *Driver, pod *corev1.Pod, version string) error {
	if d.faults.backupResult() == NothingToMigrate {
		return nil
	}
	v, err := goversion.ParseGeneric(version)
	if err != nil {
		return fmt.Errorf("record the version of the schema: %w", err)
	}
	client, err := dynamic.NewForConfig(configOf(d, pod))
	if err != nil {
		return fmt.Errorf("make a client for the schema: %w", err)
	}
	objects := client.Resource(schema.GroupVersionResource{Group: "internal.linstor.linbit.com", Version: "v1",
		Resource: "linstorversion"})
	_, err = objects.Apply(ctx, "version", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "internal.linstor.linbit.com/v1", "kind": "LinstorVersion",
		"metadata": map[string]any{"name": "version"},
		"spec":     map[string]any{"version": int64(v.Minor())},
	}}, metav1.ApplyOptions{FieldManager: "linstor", Force: true})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("record the version of the schema: %w", err)
	}
	return nil
}
