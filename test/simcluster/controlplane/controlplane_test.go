package controlplane

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

func TestStartAndStop(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	bin, err := kubebin.Ensure(ctx, kubebin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	c, err := Start(ctx, Options{Dir: t.TempDir(), BinDir: bin, Log: os.Stderr, AuditLog: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	t.Logf("ready after %s", time.Since(started))

	kubeconfig, err := c.Kubeconfig("admin", "admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, c.bin(kubebin.Kubectl), "--kubeconfig", kubeconfig, "get", "--raw",
		"/version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"gitVersion": "v1.`) {
		t.Fatalf("kubectl get --raw /version: %v\n%s", err, out)
	}
	denied, err := c.Kubeconfig("nobody", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	out, err = exec.CommandContext(ctx, c.bin(kubebin.Kubectl), "--kubeconfig", denied, "get", "nodes").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "forbidden") {
		t.Fatalf("a user without rights lists nodes: %v\n%s", err, out)
	}
	audit, err := os.ReadFile(c.AuditLogPath())
	if err != nil || !strings.Contains(string(audit), `"username":"nobody"`) {
		t.Fatalf("the audit log does not show the refused request: %v", err)
	}

	pids := c.PIDs()
	if len(pids) != 5 {
		t.Fatalf("want 5 running components, got %v", pids)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	for name, pid := range pids {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("%s (%d) outlives Stop", name, pid)
		}
	}
}
