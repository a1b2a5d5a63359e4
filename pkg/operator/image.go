package operator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// container is the operator's in its pod.
const container = "operator"

const (
	// askEvery and askFor are how often, and for how long, an API server is asked for the pod that does not answer.
	askEvery, askFor = 2 * time.Second, time.Minute
	// askWithin bounds each request.
	askWithin = 10 * time.Second
)

// OwnImage is the image of the operator in a pod of its namespace. It is read once, when the operator starts, perhaps
// beside the API server.
func OwnImage(ctx context.Context, cfg *rest.Config, pod string) (string, error) {
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return "", err
	}
	var p *corev1.Pod
	var why error
	if err := wait.PollUntilContextTimeout(ctx, askEvery, askFor, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		p, why = c.CoreV1().Pods(v1alpha1.OperatorNamespace).Get(ctx, pod, metav1.GetOptions{})
		return why == nil || apierrors.IsNotFound(why), nil // the right to read it may come a moment later
	}); err != nil || why != nil {
		return "", fmt.Errorf("read the operator's own pod: %w", cmp.Or(why, err))
	}
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; c.Name == container {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("pod %s/%s has no container named %s", p.Namespace, p.Name, container)
}
