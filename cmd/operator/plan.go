package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"k8s.io/client-go/rest"

	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
)

// bindQuestions makes the flags that have something told and change nothing.
func bindQuestions(fs *flag.FlagSet, s *settings) {
	fs.BoolVar(&s.showVersion, "version", false, "print the version and exit")
	fs.BoolVar(&s.showScript, "print-listing-script", false, "print the script that lists a node's volumes, and exit")
	const manifest = "StorageCluster manifest as the API server would store it, or - for standard input (empty: the " +
		"stored object): print as JSON "
	fs.StringVar(&s.plan, "plan", "", manifest+"the effects of its spec, and exit without writing anything")
	fs.StringVar(&s.disks, "disks", "", manifest+"the disks of all nodes and how its spec would use them, and exit "+
		"without writing anything")
}

// judge prints what a question about a StorageCluster's spec is answered with, as one line of JSON. The log goes to
// the error stream.
func (s *settings) judge(ctx context.Context, cfg *rest.Config, o operator.Options) error {
	if s.plan != "" && s.disks != "" {
		return errors.New("--plan and --disks cannot be combined")
	}
	leaveRoom(os.Getenv("GOMEMLIMIT") != "")
	flagged, path := "--plan", s.plan
	if path == "" {
		flagged, path = "--disks", s.disks
	}
	in := io.Reader(os.Stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("%s: %w", flagged, err)
		}
		defer file.Close()
		in = file
	}
	wanted, err := operator.ReadManifest(ctx, in)
	if err != nil {
		return fmt.Errorf("%s: %w", flagged, err)
	}
	var said any
	if s.plan != "" {
		said, err = operator.Plan(ctx, cfg, o, wanted)
	} else {
		said, err = operator.Disks(ctx, cfg, o, wanted)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(said)
}

// leaveRoom has Go collect garbage from half of its limit on: the container's limit counts for this process and for
// the operator beside it together, and whoever goes beyond it may have the operator killed.
func leaveRoom(limited bool) {
	if limited {
		debug.SetMemoryLimit(debug.SetMemoryLimit(-1) / 2)
	}
}
