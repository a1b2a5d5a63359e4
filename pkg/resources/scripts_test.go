package resources_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// script is the shell script of a satellite's init container, with paths replaced by others: old, new, old, new ...
func script(t *testing.T, container string, paths ...string) *exec.Cmd {
	t.Helper()
	for _, c := range resources.Satellite(params(v1alpha1.StorageClusterSpec{}),
		generic).Spec.Template.Spec.InitContainers {
		if c.Name != container {
			continue
		}
		for i := 0; i < len(paths); i += 2 {
			if len(c.Command) != 3 || !strings.Contains(c.Command[2], paths[i]) {
				t.Fatalf("container %s does not use %s: %q", container, paths[i], c.Command)
			}
		}
		return exec.CommandContext(t.Context(), c.Command[0], c.Command[1],
			strings.NewReplacer(paths...).Replace(c.Command[2]))
	}
	t.Fatalf("no container %s", container)
	return nil
}

func TestWaitForModule(t *testing.T) {
	for version, ok := range map[string]bool{"9.3.3": true, "9.2.16-1": true, "10.0.0": true, "8.4.11": false,
		"": false} {
		file := filepath.Join(t.TempDir(), "version")
		if err := os.WriteFile(file, []byte(version+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		log := filepath.Join(t.TempDir(), "log")
		out, err := script(t, resources.WaitForModuleContainer, "/sys/module/drbd/version", file, "/dev/termination-log",
			log).CombinedOutput()
		if (err == nil) != ok {
			t.Errorf("version %q: %v, output %s", version, err, out)
		}
		if !ok && !bytes.Contains(out, []byte("LINSTOR needs DRBD 9")) {
			t.Errorf("version %q: the output does not say why: %s", version, out)
		}
		if word, _ := os.ReadFile(log); ok && string(word) != version+"\n" || !ok && len(word) > 0 {
			t.Errorf("version %q: the termination message is %q", version, word)
		}
	}
}

func TestWaitForModuleWaits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "version")
	cmd := script(t, resources.WaitForModuleContainer, "/sys/module/drbd/version", file, "/dev/termination-log",
		filepath.Join(t.TempDir(), "log"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.Contains(lines.Text(), "waiting") {
		t.Fatalf("does not say that it waits: %q", lines.Text())
	}
	// A rename, so that the file is never seen empty.
	if err := os.WriteFile(file+".new", []byte("9.3.3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || !strings.Contains(lines.Text(), "9.3.3 is loaded") {
		t.Errorf("does not see the module: %q", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
