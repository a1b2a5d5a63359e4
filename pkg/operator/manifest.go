package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// mostManifest bounds a manifest. The API server takes no object of that size.
const mostManifest = 4 << 20

// ReadManifest reads the manifest of a StorageCluster to plan; nil if there is nothing to be read. Whoever hands it
// over and never ends is not waited for longer than the context lasts.
func ReadManifest(ctx context.Context, in io.Reader) (*v1alpha1.StorageCluster, error) {
	type said struct {
		text []byte
		err  error
	}
	done := make(chan said, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(in, mostManifest+1))
		done <- said{text, err}
	}()
	var got said
	select {
	case got = <-done:
	case <-ctx.Done():
		return nil, fmt.Errorf("read the manifest: %w", context.Cause(ctx))
	}
	switch {
	case got.err != nil:
		return nil, fmt.Errorf("read the manifest: %w", got.err)
	case len(got.text) > mostManifest:
		return nil, fmt.Errorf("the manifest is larger than %d MiB", mostManifest>>20)
	case strings.TrimSpace(string(got.text)) == "":
		return nil, nil
	}
	c := &v1alpha1.StorageCluster{}
	if err := yaml.UnmarshalStrict(got.text, c); err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if c.Kind != "StorageCluster" {
		return nil, errors.New("the manifest is not a StorageCluster")
	}
	return c, nil
}
