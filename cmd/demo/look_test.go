package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestSilence lets controller-runtime say something when the process is far older than the half minute for which it
// waits for a logger.
func TestSilence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	silence()
	synctest.Test(t, func(*testing.T) {
		// The clock of a bubble begins in the year 2000, and the process is of today.
		<-time.After(100 * 365 * 24 * time.Hour)
		stderr := os.Stderr
		os.Stderr = file
		defer func() { os.Stderr = stderr }()
		ctrl.Log.Info("something")
	})
	said, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(said) > 0 {
		t.Errorf("controller-runtime prints:\n%s", said)
	}
}

// TestSayHowToLook pastes the lines into a shell in which kubectl and tail only show what they were given.
func TestSayHowToLook(t *testing.T) {
	var said bytes.Buffer
	sayHowToLook(&said, "/a b/kubeconfig", "/it's/bin", "/a b/$x/operator.log")
	script := `kubectl() { printf '%s\n' "kubectl $*"; }; tail() { printf '%s\n' "tail" "$@"; }` + "\n"
	for line := range strings.Lines(said.String()) {
		if strings.HasPrefix(line, "  ") {
			script += line
		}
	}
	script += `printf '%s\n' "$KUBECONFIG" "${PATH%%:*}"`
	out, err := exec.Command("sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, script)
	}
	want := []string{"kubectl describe storagecluster linstor", "kubectl -n linstor-storage get pods", "tail", "-f",
		"/a b/$x/operator.log", "/a b/kubeconfig", "/it's/bin"}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" {
		t.Errorf("the shell understands (-want +got):\n%s\nof:\n%s", diff, said.String())
	}
	if !strings.Contains(said.String(), "Press Ctrl-C to stop") {
		t.Errorf("it does not say how to stop:\n%s", said.String())
	}
}
