// Package shutdownguard builds the container that lets go of DRBD devices when a host shuts down.
//
// A device that lost its quorum suspends its I/O. Whatever waits for that, a mounted file system above all, cannot be
// unmounted, and the host hangs in its shutdown. The container leaves a systemd unit on the host, below /run, that is
// stopped after the kubelet and then makes all of DRBD's devices secondary by force (piraeus' drbd-shutdown-guard
// 1.1, README).
package shutdownguard

import (
	corev1 "k8s.io/api/core/v1"
)

// Name is that of the init container.
const Name = "drbd-shutdown-guard"

// script installs the unit. A satellite without it is better than none: whatever goes wrong is only reported. The
// program's path is that of the image.
const script = `if [ ! -d /run/systemd/system ] || [ ! -S /run/dbus/system_bus_socket ]; then
  echo "WARNING: systemd or its D-Bus does not run on this host: the unit is not installed"
elif /usr/local/sbin/drbd-shutdown-guard install; then
  exit 0
fi
echo "WARNING: this host may hang during shutdown while DRBD devices are suspended"
`

// Container is an init container that installs the unit, and the host's directories that it needs. They are the
// parents of what systemd and D-Bus create, /run/systemd/system and /run/dbus/system_bus_socket. If those themselves
// were mounted, a host without them would never get a satellite: the kubelet does not start a pod whose hostPath is
// missing. Creating an empty parent is harmless. Creating /run/systemd/system is not, because its presence means that
// systemd is running (sd_booted(3)).
func Container(image string) (corev1.Container, []corev1.Volume) {
	privileged, readOnly := true, true
	c := corev1.Container{
		Name: Name, Image: image, Command: []string{"/bin/sh", "-c", script},
		SecurityContext:          &corev1.SecurityContext{Privileged: &privileged, ReadOnlyRootFilesystem: &readOnly},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	var volumes []corev1.Volume
	kind := corev1.HostPathDirectoryOrCreate
	for _, m := range []struct{ name, path string }{
		{"run-systemd", "/run/systemd"},
		{"run-shutdown-guard", "/run/drbd-shutdown-guard"},
		{"run-dbus", "/run/dbus"},
	} {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: m.name, MountPath: m.path})
		volumes = append(volumes, corev1.Volume{Name: m.name,
			VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: m.path, Type: &kind}}})
	}
	return c, volumes
}
