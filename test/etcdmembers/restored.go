package etcdmembers

import (
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// Restored has etcdutl make a data directory of a snapshot, as docs/how-to/managed-etcd.md says, and etcd run on it.
// It returns where it serves.
func Restored(t testing.TB, etcdutl, file string) (endpoint string) {
	t.Helper()
	bin, err := kubebin.Ensure(t.Context(), kubebin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	peer, endpoint := local(t), local(t)
	dir := filepath.Join(t.TempDir(), "data")
	out, err := exec.CommandContext(t.Context(), etcdutl, "snapshot", "restore", file, "--name", "x", "--data-dir", dir,
		"--initial-cluster", "x="+peer, "--initial-advertise-peer-urls", peer).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	running := start(t, filepath.Join(filepath.Dir(dir), "log"), filepath.Join(bin, kubebin.Etcd), "--name", "x",
		"--data-dir", dir, "--listen-client-urls", endpoint, "--advertise-client-urls", endpoint, "--listen-peer-urls", peer)
	t.Cleanup(running.kill)
	err = machine.Poll(t.Context(), 50*time.Millisecond, time.Minute,
		func(ctx context.Context) (bool, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/readyz", nil)
			if err != nil {
				return false, err
			}
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				return resp.StatusCode == http.StatusOK, resp.Body.Close()
			}
			return false, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return endpoint
}
