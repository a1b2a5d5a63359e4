// Command buildkube builds the test control plane, if need be, and prints the directory that holds it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

func main() {
	dir := flag.String("dir", "", "where to keep the binaries (default: .cache/kube below the repository's root)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	got, err := kubebin.Ensure(ctx, kubebin.Options{Dir: *dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, "buildkube:", err)
		os.Exit(1)
	}
	fmt.Println(got)
}
