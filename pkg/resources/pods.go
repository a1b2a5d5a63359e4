package resources

import (
	corev1 "k8s.io/api/core/v1"
)

// javaOptions makes Java 11 and later answer a peer's close_notify: without it half-closed TLS connections between
// controller and satellites stay open.
const javaOptions = "-Djdk.tls.acknowledgeCloseNotify=true"

// tolerateAll lets a DaemonSet's pods onto every node that has the label it selects on. The spec's tolerations have done
// their part when the label was given; a taint that comes later must not take the satellite from under the data.
func tolerateAll() []corev1.Toleration {
	return []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

func hostPath(name, path string, kind corev1.HostPathType) corev1.Volume {
	source := &corev1.HostPathVolumeSource{Path: path}
	if kind != corev1.HostPathUnset {
		source.Type = &kind
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: source}}
}

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

func mount(volume, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: path}
}

func mountReadOnly(volume, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: true}
}

func envFromField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

// probe runs every period seconds and gives up after that many failures. All of its numbers are set: one that is left at
// zero could not be told from the default that the API server puts in its place.
func probe(handler corev1.ProbeHandler, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: handler, PeriodSeconds: period, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: failures,
	}
}
