package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
)

// bindQuestions makes the flags that have something told and change nothing.
func bindQuestions(fs *flag.FlagSet, s *settings) {
	fs.BoolVar(&s.showVersion, "version", false, "print the version and end")
	fs.StringVar(&s.plan, "plan", "",
		"manifest of a StorageCluster as the API server would store it, - for the standard input, an empty one for the "+
			"stored object: print as JSON what its spec would do, and end; nothing is written")
}

// mostManifest bounds a manifest. The API server takes no object of that size.
const mostManifest = 4 << 20

// planEdit prints what a StorageCluster's spec would do, as one line of JSON. The log goes to the error stream.
func planEdit(ctx context.Context, cfg *rest.Config, o operator.Options, path string) error {
	wanted, err := readManifest(path)
	if err != nil {
		return fmt.Errorf("--plan: %w", err)
	}
	p, err := operator.Plan(ctx, cfg, o, wanted)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(p)
}

// readManifest reads a StorageCluster; nil if there is nothing to be read.
func readManifest(path string) (*v1alpha1.StorageCluster, error) {
	in := io.Reader(os.Stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, mostManifest+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the manifest: %w", err)
	case len(text) > mostManifest:
		return nil, fmt.Errorf("the manifest is larger than %d MiB", mostManifest>>20)
	case strings.TrimSpace(string(text)) == "":
		return nil, nil
	}
	c := &v1alpha1.StorageCluster{}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if c.Kind != "StorageCluster" {
		return nil, errors.New("the manifest is not that of a StorageCluster")
	}
	return c, nil
}
