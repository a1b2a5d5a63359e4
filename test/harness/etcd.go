package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/test/freeport"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/bound"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// FreeAddress is a loopback address at which nothing listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// StartEtcd runs the control plane's etcd once more, for LINSTOR, until the test ends.
func StartEtcd(t testing.TB, address string) {
	t.Helper()
	bin, err := kubebin.Ensure(t.Context(), kubebin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "etcd"), "--data-dir="+dir, "--listen-client-urls=http://"+address,
		"--advertise-client-urls=http://"+address, "--listen-peer-urls=unix://"+filepath.Join(dir, "peer.sock"),
		"--log-level=error")
	cmd.Stderr = os.Stderr
	if err := bound.Start(cmd); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
}
