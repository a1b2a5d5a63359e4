package shutdownguard

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestScript runs the script with a program in the place of the image's: whatever comes of it, the satellite starts.
func TestScript(t *testing.T) {
	const program = "/usr/local/sbin/drbd-shutdown-guard"
	for _, tc := range []struct{ name, does, says string }{
		{"installed", `echo "did $1"`, "did install\n"},
		{"refused", `echo "failed to reload systemd"; exit 1`, "failed to reload systemd\nWARNING: systemd does not have " +
			"the unit: this host may hang at its shutdown while DRBD devices are suspended\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "guard")
			if err := os.WriteFile(file, []byte("#!/bin/sh\n"+tc.does+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			c, _ := Container("image:v1")
			script := c.Command[len(c.Command)-1]
			if !strings.Contains(script, program) {
				t.Fatalf("the script does not run %s", program)
			}
			out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c",
				strings.ReplaceAll(script, program, file)).CombinedOutput()
			if err != nil || string(out) != tc.says {
				t.Errorf("%v, it says %q", err, out)
			}
		})
	}
}
