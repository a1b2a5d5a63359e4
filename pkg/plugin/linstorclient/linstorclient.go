// Package linstorclient runs LINSTOR's own client, "linstor", and reads what it prints.
package linstorclient

import (
	"context"
	"encoding/json"
	"slices"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
)

// controller is the Deployment of LINSTOR's controller, and the container that has the client. Piraeus 2 calls them
// the same.
const controller = "linstor-controller"

// Run runs the client in the controller's pod of a namespace, as the runbooks do, with kubectl and the flags of the
// plugin. That works where LINSTOR's API is locked, too, and takes the right to run commands in pods.
func Run(ctx context.Context, flags *genericclioptions.ConfigFlags, namespace string, args ...string) ([]byte, error) {
	return access.Exec(ctx, flags, nil, namespace, "deploy/"+controller, controller,
		append([]string{"linstor"}, args...)...)
}

// JSON are the arguments with which the client prints what LINSTOR's API answers.
func JSON(args ...string) []string {
	return append([]string{"--machine-readable", "--output-version", "v1"}, args...)
}

// List reads a list that was printed so: the client wraps that of the API into one more. LINSTOR's errors are lists,
// too, so the caller has to look whether the entries are what they should be.
func List[T any](printed []byte) ([]T, error) {
	var nested [][]T
	if json.Unmarshal(printed, &nested) == nil {
		return slices.Concat(nested...), nil
	}
	var flat []T
	return flat, json.Unmarshal(printed, &flat)
}
