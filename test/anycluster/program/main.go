// Command e2e-real tests a StorageCluster on any Kubernetes cluster; see package anycluster and
// docs/how-to/test-your-cluster.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/anycluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "e2e-real:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, args []string) error {
	o := anycluster.Options{Log: os.Stderr}
	flags := flag.NewFlagSet("e2e-real", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", os.Getenv("KUBECONFIG"), "the kubeconfig of the cluster")
	report := flags.String("report", "e2e-real.md", "the file that the report is written to")
	flags.StringVar(&o.Checker, "checker", "", "the program iocheck, compiled for the nodes")
	flags.StringVar(&o.Image, "image", "docker.io/library/busybox:1.37", "the image of the test's pods: it needs a shell")
	flags.StringVar(&o.Class, "storage-class", "", "the StorageClass of the volumes (default: the first one of the "+
		"StorageCluster that has more than one replica)")
	flags.BoolVar(&o.IKnow, "i-know", false, "also do what affects other users of the cluster: restart a satellite, "+
		"drain a node, and what the following flags name")
	command(flags, &o.PowerOff, "power-off", "a shell command that turns the node $NODE off")
	command(flags, &o.PowerOn, "power-on", "a shell command that turns the node $NODE on")
	command(flags, &o.Cut, "cut", "a shell command that disconnects the node $NODE from the network")
	command(flags, &o.Join, "join", "a shell command that connects the node $NODE again")
	flags.StringVar(&o.Evacuate, "evacuate", "", "a node that is evacuated, and then taken in again")
	flags.StringVar(&o.UpgradeTo, "upgrade-to", "", "a version of LINSTOR that the StorageCluster is upgraded to")
	flags.Func("skip", "a step that is left out, such as \"node drained\" (can be repeated)", func(step string) error {
		o.Skip = append(o.Skip, step)
		return nil
	})
	flags.DurationVar(&o.Patience, "patience", 15*time.Minute, "how long the test waits for one thing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *kubeconfig == "" || o.Checker == "" {
		return errors.New("name the cluster with --kubeconfig, and the program iocheck with --checker")
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	scheme := clientgoscheme.Scheme
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	if o.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	o.Kubectl = anycluster.Kubectl(*kubeconfig)
	result, failed := anycluster.Run(ctx, o)
	f, err := os.Create(*report)
	if err != nil {
		return errors.Join(failed, err)
	}
	_, err = result.WriteTo(io.MultiWriter(f, os.Stdout))
	if err := errors.Join(failed, err, f.Close()); err != nil {
		return err
	}
	if !result.Passed() {
		return errors.New("a step has failed")
	}
	return nil
}

// command is a flag with a shell command that does something to the node $NODE.
func command(flags *flag.FlagSet, to *func(context.Context, string) error, name, usage string) {
	flags.Func(name, usage, func(script string) error {
		*to = func(ctx context.Context, node string) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "sh", "-c", script)
			cmd.Env = append(os.Environ(), "NODE="+node)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", script, err, strings.TrimSpace(string(out)))
			}
			return nil
		}
		return nil
	})
}
