package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/kernelsources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// sleepScript keeps a container running and lets it end at once when it is told to.
const sleepScript = `trap 'exit 0' TERM INT; sleep infinity & wait`

// Keys of the Secret with the signing key, and where the loader finds them (LINBIT/drbd, docker/entry.sh: LB_SIGN
// names a directory with these two files; piraeus-operator, docs/how-to/secure-boot.md).
const (
	SigningKey         = "signing_key.pem"
	SigningCertificate = "signing_key.x509"

	signingKeyDir = "/signing-key"
)

// SigningKeyVersion is the value of AnnotationSigningKeyVersion for a Secret. Labels and other keys do not count.
func SigningKeyVersion(secret *corev1.Secret) string {
	return text.Digest([][]byte{secret.Data[SigningKey], secret.Data[SigningCertificate]})
}

// Signs reports whether the loader on a platform's nodes signs the module: where it compiles one itself. A module that
// is shipped in its image is not touched.
func Signs(spec *v1alpha1.StorageClusterSpec, q platform.Profile, l catalogue.Loader) bool {
	mode := q.Mode(spec.KernelModule.Mode, l)
	return spec.KernelModule.SigningKeySecret != "" &&
		(mode == v1alpha1.ModuleCompile || mode == v1alpha1.ModuleAuto && q.Sources)
}

// ModuleLoader is the DaemonSet that brings the DRBD kernel module onto a platform's members with one family of
// operating systems. There is none where the profile's mode is Preinstalled.
//
// Its init container loads the module and ends; a module that is loaded already is kept whatever its version, as long
// as it is DRBD 9. The pod is ready when the module is loaded.
func ModuleLoader(p Params, q platform.Profile, l catalogue.Loader) *appsv1.DaemonSet {
	key := q.OSKey(p.Spec.KernelModule.Mode, l)
	// All at once: a restarted loader finds the module loaded and does nothing, so that no data is touched, and nodes do
	// not wait for each other.
	update := appsv1.DaemonSetUpdateStrategy{
		Type:          appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromString("100%"))},
	}
	loader, volumes := loaderContainer(p, q, l)
	pod := corev1.PodSpec{
		ServiceAccountName: ModuleLoaderServiceAccount,
		NodeSelector:       map[string]string{v1alpha1.LabelMember: p.Cluster, v1alpha1.LabelOS: key},
		InitContainers:     []corev1.Container{loader},
		Containers:         []corev1.Container{loadedContainer(p, l)},
		Volumes:            volumes,
	}
	ds := daemonSet(p, v1alpha1.ComponentModuleLoader, ModuleLoaderName(key), v1alpha1.LabelOS, key, update, pod)
	annotations := map[string]string{}
	if Signs(p.Spec, q, l) {
		annotations[AnnotationSigningKeyVersion] = p.SigningKeyVersion
	}
	ds.Spec.Template.Annotations = annotations
	annotations[AnnotationTemplateHash] = text.Digest(ds.Spec.Template)
	stamp(ds, ds.Spec)
	return ds
}

// loaderContainer compiles or picks the module and loads it. What its environment means is the contract of the
// drbd-module-loader images (LINBIT/drbd, docker/entry.sh). With it come the volumes that it mounts.
func loaderContainer(p Params, q platform.Profile, l catalogue.Loader) (corev1.Container, []corev1.Volume) {
	env := []corev1.EnvVar{
		// DRBD must not call user mode helpers: they would run in the host, where LINSTOR's handlers do not exist.
		{Name: "LB_FAIL_IF_USERMODE_HELPER_NOT_DISABLED", Value: "yes"},
		{Name: "LB_DRBD_MIN_LOADED_VERSION", Value: "9"},
		// The label that SELinux demands of a file from which a module is loaded.
		{Name: "LB_SELINUX_AS", Value: "modules_object_t"},
	}
	// Without LB_HOW the loader chooses: it compiles when /usr/src is mounted, and else uses the modules in its image.
	ways := map[v1alpha1.KernelModuleMode]string{
		v1alpha1.ModuleCompile: "compile", v1alpha1.ModulePrebuilt: "shipped_modules",
	}
	if how := ways[q.Mode(p.Spec.KernelModule.Mode, l)]; how != "" {
		env = append(env, corev1.EnvVar{Name: "LB_HOW", Value: how})
	}
	volumes := []corev1.Volume{hostPath("lib-modules", "/lib/modules", corev1.HostPathDirectory), emptyDir("tmp")}
	mounts := []corev1.VolumeMount{mountReadOnly("lib-modules", "/lib/modules"), mount("tmp", "/tmp")}
	if Signs(p.Spec, q, l) {
		secret := &corev1.SecretVolumeSource{
			SecretName: p.Spec.KernelModule.SigningKeySecret, DefaultMode: ptr.To(int32(0o400)),
			Items: []corev1.KeyToPath{
				{Key: SigningKey, Path: SigningKey}, {Key: SigningCertificate, Path: SigningCertificate},
			},
		}
		volumes = append(volumes, corev1.Volume{Name: "signing-key", VolumeSource: corev1.VolumeSource{Secret: secret}})
		mounts = append(mounts, mountReadOnly("signing-key", signingKeyDir))
		env = append(env, corev1.EnvVar{Name: "LB_SIGN", Value: signingKeyDir})
	}
	security := &corev1.SecurityContext{
		ReadOnlyRootFilesystem: ptr.To(true),
		Capabilities: &corev1.Capabilities{
			Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"SYS_MODULE"},
		},
		SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t", Level: "s0"},
	}
	if q.PrivilegedLoader {
		security = Privileged()
	}
	c := corev1.Container{
		Name:            ModuleLoaderContainer,
		Image:           p.image(l.Image),
		Env:             env,
		SecurityContext: security,
		VolumeMounts:    mounts,
		// The loader says on its output why it failed. This brings the last lines into the pod's status, so that the
		// operator can tell the reasons apart without a right to read logs.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	if q.Sources && p.Spec.KernelModule.Mode != v1alpha1.ModulePrebuilt {
		volumes = append(volumes, kernelsources.Mount(&c)...)
	}
	return c, volumes
}

// loadedContainer keeps the pod running: a DaemonSet's pods must not end.
func loadedContainer(p Params, l catalogue.Loader) corev1.Container {
	return corev1.Container{
		Name:    ModuleLoadedContainer,
		Image:   p.image(l.Image),
		Command: []string{"/bin/sh", "-c", sleepScript},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("1m"),
			corev1.ResourceMemory: resource.MustParse("8Mi"),
		}},
		SecurityContext: Restricted(),
	}
}
