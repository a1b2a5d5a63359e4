package realnodes

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linstor-dev/storagecluster-operator/test/invariants"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// podCases are pods that come to what the operator's pods can come to, by name.
func podCases() map[string]podCase {
	const why = "no answer from etcd"
	fails := func(_ *corev1.Pod, c *corev1.Container) { c.Args = []string{"exit", "1", why} }
	crash := func(f *kubelet.Faults, container string) { f.SetCrash(container, "", why) }
	initFails := func(p *corev1.Pod, c *corev1.Container) {
		first := *c.DeepCopy()
		fails(p, &first)
		c.Name = "main"
		p.Spec.InitContainers = []corev1.Container{first}
	}
	return map[string]podCase{
		"runs":    {until: invariants.PodReady},
		"crashes": {pod: fails, model: crash, until: backsOff},
		"crashes-without-log": {pod: func(p *corev1.Pod, c *corev1.Container) {
			fails(p, c)
			c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
		}, model: crash, until: backsOff},
		"crashes-with-long-log": {
			pod:   func(_ *corev1.Pod, c *corev1.Container) { c.Args = []string{"exit", "1", longLog} },
			model: func(f *kubelet.Faults, container string) { f.SetCrash(container, "", longLog) },
			until: backsOff},
		"fails-once": {pod: func(p *corev1.Pod, c *corev1.Container) {
			fails(p, c)
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
		}, model: crash, until: ended},
		"fails-and-is-repeated": {pod: func(p *corev1.Pod, c *corev1.Container) {
			fails(p, c)
			p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}, model: crash, until: backsOff},
		"init-crashes": {pod: initFails, model: crash, until: backsOff},
		"init-fails-once": {pod: func(p *corev1.Pod, c *corev1.Container) {
			initFails(p, c)
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
		}, model: crash, until: ended},
		"sidecar": {pod: func(p *corev1.Pod, c *corev1.Container) {
			sidecar, always := *c.DeepCopy(), corev1.ContainerRestartPolicyAlways
			sidecar.Name, sidecar.RestartPolicy = "beside", &always
			p.Spec.InitContainers = []corev1.Container{sidecar}
		}, until: invariants.PodReady},
		"out-of-memory": {pod: func(_ *corev1.Pod, c *corev1.Container) {
			c.Args = []string{"eat"}
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")}
		}, model: func(f *kubelet.Faults, container string) { f.SetOOMKilled(container, "", "eating") }, until: backsOff},
		"command-missing": {pod: func(_ *corev1.Pod, c *corev1.Container) { c.Command = []string{"/missing"} },
			model: func(f *kubelet.Faults, container string) {
				f.SetStartError(container, "", `failed to create containerd task: failed to create shim task: OCI runtime `+
					`create failed: runc create failed: unable to start container process: exec: "/missing": stat /missing: `+
					`no such file or directory`)
			}, until: func(p *corev1.Pod) bool { return backsOff(p) && waits("RunContainerError")(p) }},
		"image-missing": {pod: func(_ *corev1.Pod, c *corev1.Container) { c.Image = "registry.invalid/missing:v1" },
			model: func(f *kubelet.Faults, _ string) { f.SetImagePullError("missing") },
			until: waits("ImagePullBackOff"), differs: []string{
				`+ the operator says: container image-missing: ImagePullBackOff: …and unpack image ` +
					`"registry.invalid/missing:v1": failed to resolve image: WHY`,
				`- the operator says: container image-missing: ImagePullBackOff: Back-off pulling image ` +
					`"registry.invalid/missing:v1": ErrImagePull: failed to pull and unpack image "registry.invalid/missing:v1": ` +
					`failed to resolve image: WHY`,
			}, why: "in the model, the registry answers that there is no such image; the real one cannot be reached"},
		"image-invalid": {pod: func(_ *corev1.Pod, c *corev1.Container) { c.Image = "Registry/Name With Spaces" },
			until: waits("InvalidImageName"),
			says: `container image-invalid: InvalidImageName: Failed to apply default image tag "Registry/Name With Spaces": ` +
				`couldn't parse image name "Registry/Name With Spaces": invalid reference format: repository name (Name With ` +
				`Spaces) must be lowercase`},
		"runs-as-root": {pod: func(_ *corev1.Pod, c *corev1.Container) {
			yes := true
			c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: &yes}
		}, until: waits("CreateContainerConfigError"),
			says: "container runs-as-root: CreateContainerConfigError: container has runAsNonRoot and image will run as root " +
				"(pod: \"runs-as-root_default(UID)\", container: runs-as-root)"},
		"host-directory-missing": {pod: volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: "/missing", Type: new(corev1.HostPathDirectory)}}),
			model: func(f *kubelet.Faults, _ string) {
				f.SetMountError("n1", "/missing", "hostPath type check failed: /missing is not a directory")
			}, until: starting},
		"secret-missing": {pod: volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "missing"}}),
			until: starting},
		"secret-optional": {pod: volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "missing",
			Optional: new(true)}}), until: invariants.PodReady},
		"configmap-missing": {pod: volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "missing"}}}), until: starting},
		"variable-missing": {pod: func(_ *corev1.Pod, c *corev1.Container) {
			from := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "missing"}, Key: "key"}
			c.Env = []corev1.EnvVar{{Name: "PASSPHRASE", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: from}}}
		}, until: waits("CreateContainerConfigError")},
	}
}

// longLog is longer than what a kubelet takes of a log.
var longLog = strings.Repeat(strings.Repeat("a line of a log, ", 5)+"\n", 100) + "the last line"

func volume(source corev1.VolumeSource) func(*corev1.Pod, *corev1.Container) {
	return func(p *corev1.Pod, c *corev1.Container) {
		p.Spec.Volumes = []corev1.Volume{{Name: "volume", VolumeSource: source}}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "volume", MountPath: "/volume"}}
	}
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// backsOff reports whether the first container that has failed waits for one more attempt.
func backsOff(p *corev1.Pod) bool {
	for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if s.RestartCount >= restarts && s.State.Waiting != nil {
			return true
		}
	}
	return false
}

func waits(reason string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Waiting != nil && s.State.Waiting.Reason == reason {
				return true
			}
		}
		return false
	}
}

// starting reports whether the kubelet has been preparing the pod long enough to say what hinders it.
func starting(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse {
			return metav1.Now().Sub(c.LastTransitionTime.Time).Seconds() > 5
		}
	}
	return false
}
