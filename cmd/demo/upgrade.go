package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// Versions of the upgrade that the demo shows.
const (
	demoFrom = "1.33.3"
	demoTo   = "1.35.3"
)

// upgrade installs an older LINSTOR and moves it to a newer one.
var upgrade = scenario{
	nodes: func() []simcluster.NodeSpec { return specs(empty, true) },
	run: func(ctx context.Context, d *demo) error {
		manifest, err := d.sampleWith(fmt.Sprintf("version: %q", demoFrom))
		if err != nil {
			return err
		}
		if err := d.applyWithDriver(ctx, manifest); err != nil {
			return err
		}
		if _, err := d.waitPhase(ctx, v1alpha1.PhaseReady); err != nil {
			return err
		}
		if err := d.kubectl(ctx, "get", "storagecluster"); err != nil {
			return err
		}
		d.say("\nAn administrator sets a newer version. Its database cannot be downgraded. The volumes remain usable " +
			"during the upgrade:")
		patch := fmt.Sprintf(`{"spec":{"version":%q}}`, demoTo)
		if err := d.kubectl(ctx, "patch", "storagecluster", v1alpha1.ClusterName, "--type", "merge", "-p",
			patch); err != nil {
			return err
		}
		if err := d.waitUpgraded(ctx, demoTo); err != nil {
			return err
		}
		if err := d.kubectl(ctx, "-n", v1alpha1.WorkloadNamespace, "get", "secrets", "--field-selector",
			"type=piraeus.io/linstor-backup"); err != nil {
			return err
		}
		return d.show(ctx)
	},
}

// sampleWith is the sample with these lines in its spec.
func (d *demo) sampleWith(lines ...string) (string, error) {
	text, err := os.ReadFile(sample)
	if err != nil {
		return "", err
	}
	path := filepath.Join(d.dir, "storagecluster.yaml")
	begin := "\nspec:\n"
	manifest := strings.Replace(string(text), begin, begin+"  "+strings.Join(lines, "\n  ")+"\n", 1)
	return path, os.WriteFile(path, []byte(manifest), 0o644)
}

// waitUpgraded waits for the end of the upgrade to a version of LINSTOR, and prints what its steps say.
func (d *demo) waitUpgraded(ctx context.Context, to string) error {
	last := ""
	_, err := d.wait(ctx, "Ready with LINSTOR "+to, func(c *v1alpha1.StorageCluster) (bool, error) {
		if h := c.Status.Hold; h != nil {
			return false, fmt.Errorf("%s: %s", h.Reason, h.Message)
		}
		if u := c.Status.Upgrade; u != nil {
			if now := fmt.Sprintf("%-18s %d/%d satellites are running LINSTOR %s", u.Step, u.NodesDone, u.NodesTotal,
				u.To); now != last {
				fmt.Fprintf(d.out, "%6.1fs    %s\n", time.Since(d.started).Seconds(), now)
				last = now
			}
		}
		return c.Status.Phase == v1alpha1.PhaseReady && c.Status.Version == to && c.Status.Upgrade == nil, nil
	})
	return err
}
