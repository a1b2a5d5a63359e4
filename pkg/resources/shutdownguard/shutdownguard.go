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

// script installs the unit. A satellite without it is better than none: what goes wrong is told, and no more than
// that. The program's path is that of the image.
const script = `if /usr/local/sbin/drbd-shutdown-guard install; then exit 0; fi
echo "WARNING: systemd does not have the unit: this host may hang at its shutdown while DRBD devices are suspended"
`

// Container is an init container that installs the unit, and the directories and the socket of the host that it needs.
// A directory of systemd's that is not there must not be made: programs take it for a sign that systemd runs.
func Container(image string) (corev1.Container, []corev1.Volume) {
	privileged, readOnly := true, true
	c := corev1.Container{
		Name: Name, Image: image, Command: []string{"/bin/sh", "-c", script},
		SecurityContext:          &corev1.SecurityContext{Privileged: &privileged, ReadOnlyRootFilesystem: &readOnly},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	var volumes []corev1.Volume
	for _, m := range []struct {
		name, path string
		kind       corev1.HostPathType
	}{
		{"run-systemd", "/run/systemd/system", corev1.HostPathDirectory},
		{"run-shutdown-guard", "/run/drbd-shutdown-guard", corev1.HostPathDirectoryOrCreate},
		{"run-dbus", "/run/dbus/system_bus_socket", corev1.HostPathSocket},
	} {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: m.name, MountPath: m.path})
		volumes = append(volumes, corev1.Volume{Name: m.name,
			VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: m.path, Type: &m.kind}}})
	}
	return c, volumes
}
