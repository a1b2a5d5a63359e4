package canary_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources/canary"
)

// run runs the script on a file with a dd of that text, which stands for the device: not every file system of a test
// machine can be read past the page cache.
func run(t *testing.T, file, dd string) (string, error) {
	t.Helper()
	bin := t.TempDir()
	program := filepath.Join(bin, "dd")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+dd), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", canary.Script, canary.Container, file)
	c.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestScript: the pod succeeds only where what it reads is what it has written.
func TestScript(t *testing.T) {
	const asWritten = `cat "${1#if=}"`
	good := filepath.Join(t.TempDir(), "file")
	for _, tc := range []struct {
		name, file, dd string
		fails          bool
		words          string
	}{
		{"what was written", good, asWritten, false, ""},
		{"something else", good, "echo other", true, "what was read is not what was written"},
		{"nothing", good, "exit 1", true, "what was read is not what was written"},
		{"a full device", "/dev/full", asWritten, true, "No space left on device"},
		{"no volume", filepath.Join(t.TempDir(), "absent", "file"), asWritten, true, "No such file"},
	} {
		out, err := run(t, tc.file, tc.dd)
		if (err != nil) != tc.fails || !strings.Contains(out, tc.words) {
			t.Errorf("%s: %v: %s", tc.name, err, out)
		}
	}
	if info, err := os.Stat(good); err != nil || info.Size() != 1<<20 {
		t.Errorf("written are %v, %v", info, err)
	}
}
