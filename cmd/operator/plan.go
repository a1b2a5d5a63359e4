package main

import (
	"context"
	"encoding/json"
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
	fs.BoolVar(&s.showVersion, "version", false, "print the version and end")
	fs.StringVar(&s.plan, "plan", "",
		"manifest of a StorageCluster as the API server would store it, - for the standard input, an empty one for the "+
			"stored object: print as JSON what its spec would do, and end; nothing is written")
}

// planEdit prints what a StorageCluster's spec would do, as one line of JSON. The log goes to the error stream.
func planEdit(ctx context.Context, cfg *rest.Config, o operator.Options, path string) error {
	leaveRoom(os.Getenv("GOMEMLIMIT") != "")
	in := io.Reader(os.Stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("--plan: %w", err)
		}
		defer file.Close()
		in = file
	}
	wanted, err := operator.ReadManifest(ctx, in)
	if err != nil {
		return fmt.Errorf("--plan: %w", err)
	}
	p, err := operator.Plan(ctx, cfg, o, wanted)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(p)
}

// leaveRoom has Go collect garbage from half of its limit on: the container's limit counts for this process and for
// the operator beside it together, and whoever goes beyond it may have the operator killed.
func leaveRoom(limited bool) {
	if limited {
		debug.SetMemoryLimit(debug.SetMemoryLimit(-1) / 2)
	}
}
