// Package kernelsources gives a module loader the kernel headers of its host.
//
// A mount of the host's /usr/src alone is not enough: since Linux 6.12 the headers of Debian lead to a second package
// below /usr/lib, whose name has the kernel's release (linux-headers-6.12.88+deb13-common/scripts is a link to
// ../../lib/linux-kbuild-6.12.88+deb13/scripts), so that the package in the loader's image fits one kernel only. Nor
// can the host's /usr/lib be mounted in place of the image's, which has the compiler's libraries. So the whole /usr of
// the host is mounted elsewhere, where links within it lead to the right place, and /usr/src gets links to what is in
// the host's.
package kernelsources

import (
	_ "embed"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// script makes the links, and then becomes the loader. Another init container could not make them: it does not run
// again when the loader does, which would never see headers that are installed after its first attempt.
//
//go:embed link.sh
var script string

// hostUsr is where the loader has the host's /usr.
const hostUsr = "/host/usr"

// Mount gives a loader the host's kernel headers, and returns the volumes that it needs. That the headers are there is
// not checked: where they are missing, what the loader says of it is of more use than a pod that waits for a mount.
func Mount(c *corev1.Container) []corev1.Volume {
	// The entry point is that of all loaders (LINBIT/drbd, docker/Dockerfile.*). The loader compiles where /usr/src is a
	// mount (docker/entry.sh).
	c.Command = []string{"/bin/sh", "-c", script, "kernel-sources", hostUsr + "/src", "/usr/src", "/entry.sh"}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "usr", MountPath: hostUsr, ReadOnly: true},
		corev1.VolumeMount{Name: "usr-src", MountPath: "/usr/src"})
	return []corev1.Volume{
		{Name: "usr", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: "/usr", Type: ptr.To(corev1.HostPathDirectory)}}},
		{Name: "usr-src", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
}
