// Command demo brings up the simulated cluster, installs the operator as an administrator would, and shows what
// kubectl shows. Nothing leaves this machine: every server listens on loopback.
//
// Environment: DEMO_EXIT=1 ends it once the scenario is through; SCENARIO is install (default), human-intervention,
// node-loss, upgrade, evacuate, volumes, failover, backup or etcd.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	silence()
	d := &demo{out: os.Stdout, exit: os.Getenv("DEMO_EXIT") == "1", dir: os.Getenv("DEMO_DIR")}
	err := d.run(ctx, os.Getenv("SCENARIO"))
	if ctx.Err() != nil { // whatever was interrupted
		fmt.Fprintln(os.Stdout, "\nStopped.")
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nThe demo failed:", err)
		os.Exit(1)
	}
}

// silence gives controller-runtime a logger that drops everything. Without one it prints a stack trace as soon as it
// has something to say and the process is half a minute old.
func silence() { ctrl.SetLogger(logr.Discard()) }
