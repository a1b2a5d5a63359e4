// Command buildkube builds the test control plane, if need be, and prints the directory that holds it. With -csi it
// does so with the programs that run beside a CSI driver, with -s3 with an S3 server, with -helm with Helm.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/linstor-dev/storagecluster-operator/test/helm"
	"github.com/linstor-dev/storagecluster-operator/test/s3server"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/csibin"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/gobin"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

func main() {
	csi := flag.Bool("csi", false, "build the CSI programs instead of the control plane")
	s3 := flag.Bool("s3", false, "build the S3 server instead of the control plane")
	chart := flag.Bool("helm", false, "build Helm instead of the control plane")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ensure := kubebin.Ensure
	switch {
	case *csi:
		ensure = csibin.Ensure
	case *s3:
		ensure = s3server.Ensure
	case *chart:
		ensure = helm.Ensure
	}
	got, err := ensure(ctx, gobin.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "buildkube:", err)
		os.Exit(1)
	}
	fmt.Println(got)
}
