package shutdownguard

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestScript runs the script with a program in place of the image's, and with another /run: whatever comes of it, the
// satellite starts.
func TestScript(t *testing.T) {
	const program = "/usr/local/sbin/drbd-shutdown-guard"
	const hangs = "WARNING: this host may hang during shutdown while DRBD devices are suspended\n"
	const absent = "WARNING: systemd or its D-Bus does not run on this host: the unit is not installed\n"
	for _, tc := range []struct {
		name          string
		systemd, dbus bool
		does, says    string
	}{
		{"installed", true, true, `echo "did $1"`, "did install\n"},
		{"refused", true, true, `echo "failed to reload systemd"; exit 1`, "failed to reload systemd\n" + hangs},
		{"no systemd", false, true, `echo "did $1"`, absent + hangs},
		{"no D-Bus", true, false, `echo "did $1"`, absent + hangs},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "guard") //nolint:usetesting // t.TempDir's path is too long for a socket
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			file := filepath.Join(dir, "guard")
			if err := errors.Join(os.WriteFile(file, []byte("#!/bin/sh\n"+tc.does+"\n"), 0o700),
				os.MkdirAll(filepath.Join(dir, "dbus"), 0o700)); err != nil {
				t.Fatal(err)
			}
			if tc.systemd {
				if err := os.MkdirAll(filepath.Join(dir, "systemd/system"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if tc.dbus {
				socket, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "dbus/system_bus_socket"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = socket.Close() })
			}
			c, _ := Container("image:v1")
			script := c.Command[len(c.Command)-1]
			if !strings.Contains(script, program) {
				t.Fatalf("the script does not run %s", program)
			}
			script = strings.NewReplacer(program, file, "/run/", dir+"/").Replace(script)
			out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", script).CombinedOutput()
			if err != nil || string(out) != tc.says {
				t.Errorf("%v, it says %q", err, out)
			}
		})
	}
}

// TestHostPaths: no host lacks what is mounted, and nothing is created that makes a host look as if it ran systemd.
func TestHostPaths(t *testing.T) {
	c, volumes := Container("image:v1")
	if len(volumes) != len(c.VolumeMounts) {
		t.Errorf("%d volumes, %d mounts", len(volumes), len(c.VolumeMounts))
	}
	for _, v := range volumes {
		if v.HostPath == nil || *v.HostPath.Type != corev1.HostPathDirectoryOrCreate ||
			strings.HasPrefix(v.HostPath.Path, "/run/systemd/") {
			t.Errorf("volume %s is %+v", v.Name, v.HostPath)
		}
	}
}
