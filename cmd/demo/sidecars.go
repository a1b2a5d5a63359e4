package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/csibin"
)

// sidecars are those of the CSI driver. Compiling them takes minutes the first time, so it happens in the background,
// and a newcomer sees a cluster become Ready meanwhile.
type sidecars struct {
	log   progress
	built chan struct{} // closed when err is set
	err   error
}

// buildSidecars starts to build the sidecars; nil if they exist.
func buildSidecars(ctx context.Context, out io.Writer) (*sidecars, error) {
	_, complete, err := csibin.Find()
	if err != nil || complete {
		return nil, err
	}
	s := &sidecars{built: make(chan struct{}), log: progress{out: out}}
	go func() {
		defer close(s.built)
		_, s.err = csibin.Ensure(ctx, csibin.Options{Log: &s.log})
	}()
	return s, nil
}

// wait shows the progress of the build, and returns at its end.
func (s *sidecars) wait() error {
	s.log.show()
	<-s.built
	return s.err
}

// progress drops what is written to it until it is shown: lines about the compiler between those about the cluster
// would confuse.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	shown bool
}

func (p *progress) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shown {
		return len(line), nil
	}
	return p.out.Write(line)
}

func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = true
}

// awaitSidecars shows the progress of their build, and returns at its end.
func (d *demo) awaitSidecars() error {
	err := d.building.wait()
	d.building = nil
	return err
}

// withoutDriver writes a copy of a manifest in which the operator runs no CSI driver, and returns its path.
func (d *demo) withoutDriver(manifest string) (string, error) {
	content, err := os.ReadFile(manifest)
	if err != nil {
		return "", fmt.Errorf("read the sample: %w", err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(content, &object); err != nil {
		return "", fmt.Errorf("read %s: %w", manifest, err)
	}
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return "", fmt.Errorf("remove the CSI driver from %s: it has no spec", manifest)
	}
	// A StorageClass without the driver would be refused.
	spec["volumes"] = map[string]any{"driver": map[string]any{"mode": volumespec.DriverNone}}
	if content, err = yaml.Marshal(object); err != nil {
		return "", fmt.Errorf("remove the CSI driver from %s: %w", manifest, err)
	}
	path := filepath.Join(d.dir, "without-driver.yaml")
	return path, os.WriteFile(path, content, 0o644)
}

// installWithoutDriver shows the sample's cluster Ready, without volumes, while the sidecars are compiled. It returns
// when they exist.
func (d *demo) installWithoutDriver(ctx context.Context) error {
	manifest, err := d.withoutDriver(sample)
	if err != nil {
		return err
	}
	d.say("\nThe CSI sidecars are still being compiled. In the meantime, the sample is applied without volumes:")
	if err := d.apply(ctx, manifest); err != nil {
		return err
	}
	if _, err := d.waitPhase(ctx, v1alpha1.PhaseReady); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "get", "storagecluster"); err != nil {
		return err
	}
	d.say("\nThe cluster is Ready, without volumes. Once the sidecars are compiled, the unchanged sample is applied …")
	return d.awaitSidecars()
}
