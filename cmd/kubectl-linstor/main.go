// Command kubectl-linstor is the kubectl plugin "kubectl linstor".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // whatever a kubeconfig logs in with

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/root"
)

// version is set when the binary is built.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return root.Run(ctx, access.NewEnv(access.Standard(), version), os.Args[1:])
}
