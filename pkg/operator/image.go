package operator

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// container is the operator's in its pod.
const container = "operator"

// OwnImage is the image of the operator in a pod of its namespace. It is read once, when the operator starts.
func OwnImage(ctx context.Context, cfg *rest.Config, pod string) (string, error) {
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return "", err
	}
	p, err := c.CoreV1().Pods(v1alpha1.OperatorNamespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the operator's own pod: %w", err)
	}
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; c.Name == container {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("pod %s/%s has no container named %s", p.Namespace, p.Name, container)
}
