package simcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/bound"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/csibin"
)

// snapshotModule is the Go module that has the types of the API of snapshots, and its definitions as files.
const snapshotModule = "github.com/kubernetes-csi/external-snapshotter/client/v8"

// snapshotKinds are the kinds of the API of snapshots, as their definitions are named.
var snapshotKinds = []string{"volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"}

// SnapshotDefinitions are the names of the definitions of the API of snapshots.
func SnapshotDefinitions() []string {
	var out []string
	for _, kind := range snapshotKinds {
		out = append(out, kind+".snapshot.storage.k8s.io")
	}
	return out
}

// InstallSnapshotAPI installs the definitions of the API of snapshots, as an administrator does who wants snapshots.
// It returns when the API server serves their kinds, which it does some time after it has taken them.
func InstallSnapshotAPI(ctx context.Context, c *Cluster) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", snapshotModule).Output()
	if err != nil {
		return fmt.Errorf("find the module %s: %w", snapshotModule, err)
	}
	for _, kind := range snapshotKinds {
		file := filepath.Join(strings.TrimSpace(string(out)), "config", "crd", "snapshot.storage.k8s.io_"+kind+".yaml")
		if err := c.ApplyFile(ctx, file); err != nil {
			return err
		}
	}
	return WaitServed(ctx, c, &snapshotv1.VolumeSnapshotClassList{}, &snapshotv1.VolumeSnapshotContentList{},
		&snapshotv1.VolumeSnapshotList{})
}

// RunSnapshotController runs Kubernetes' snapshot controller until the cluster stops, as that administrator does too.
// The definitions must be there.
func RunSnapshotController(ctx context.Context, c *Cluster) error {
	bin, err := csibin.Ensure(ctx, csibin.Options{Log: os.Stderr})
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.opts.Dir, csibin.SnapshotController+".log"))
	if err != nil {
		return fmt.Errorf("create the log of the snapshot controller: %w", err)
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	// It waits half a minute for the definitions of group snapshots, which are not there.
	cmd := exec.Command(filepath.Join(bin, csibin.SnapshotController), "--kubeconfig="+c.kubeconfig,
		"--feature-gates=CSIVolumeGroupSnapshot=false")
	cmd.Stdout, cmd.Stderr = log, log
	if err := bound.Start(cmd); err != nil {
		return fmt.Errorf("start the snapshot controller: %w", err)
	}
	c.onStop(func() error {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()         // which is what a killed process does with an error
		return nil
	})
	return nil
}
