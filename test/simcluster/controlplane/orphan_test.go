package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// helperEnv makes this test binary start a control plane in the named directory, print its processes and wait.
const helperEnv = "CONTROLPLANE_TEST_HELPER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		os.Exit(helper(dir))
	}
	os.Exit(m.Run())
}

func helper(dir string) int {
	bin, err := kubebin.Ensure(context.Background(), kubebin.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c, err := Start(context.Background(), Options{Dir: dir, BinDir: bin})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(c.PIDs())
	_, _ = io.Copy(io.Discard, os.Stdin) // ends when the parent does
	_ = c.Stop()
	return 0
}

// A process that is killed cannot clean up: the kernel must end the components.
func TestComponentsDieWithTheirParent(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pids map[string]int
	if err := json.Unmarshal(line, &pids); err != nil || len(pids) != 5 {
		t.Fatalf("processes %s (%v)", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "signal: killed"
	for name, pid := range pids {
		err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true,
			func(context.Context) (bool, error) {
				return ended(pid), nil
			})
		if err != nil {
			t.Errorf("%s (%d) outlives its parent", name, pid)
		}
	}
}

// ended counts a zombie as ended: its parent, by now init, has yet to collect it.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || zombie(stat)
}

func zombie(status []byte) bool { return bytes.Contains(status, []byte("State:\tZ")) }
