package nodes

import (
	"context"
	"fmt"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/linstorclient"
)

// Linstor runs LINSTOR's own client and returns what it printed.
type Linstor func(ctx context.Context, args ...string) ([]byte, error)

// Bounds of a look into LINSTOR: of one call, and of all together. Whoever wants to switch a node off does not wait
// for ever to learn about it.
const (
	callTime = 30 * time.Second
	lookTime = 3 * time.Minute
)

// inPod runs LINSTOR's client in the controller's pod.
func inPod(flags *genericclioptions.ConfigFlags) Linstor {
	return func(ctx context.Context, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		out, err := linstorclient.Run(ctx, flags, v1alpha1.WorkloadNamespace, args...)
		if err != nil {
			return nil, fmt.Errorf("run the LINSTOR client: %w", err)
		}
		return out, nil
	}
}
