package resources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

const (
	// DriverName is the name by which Kubernetes knows LINSTOR's CSI driver (linstor-csi 1.12, pkg/linstor/const.go).
	DriverName = "linstor.csi.linbit.com"
	// DriverTopology is the topology key that the driver gives every node; its value is the node's name.
	DriverTopology = "linbit.com/hostname"
	// DriverControllerName is the driver's Deployment and its ServiceAccount.
	DriverControllerName = "linstor-csi-controller"
	// DriverNodeName is the ServiceAccount of the driver's pods on the nodes.
	DriverNodeName = platform.DriverPrefix
	// DriverContainer is the driver itself, in both kinds of pods.
	DriverContainer = "linstor-csi"
	// DriverRegistrarContainer makes the driver known to the kubelet.
	DriverRegistrarContainer = "csi-node-driver-registrar"

	// SidecarRegistry is the prefix of the sidecars' images unless spec.images.registry names another registry.
	SidecarRegistry = "registry.k8s.io/sig-storage"

	driverHealthPort    = 9808
	registrarHealthPort = 9809
	driverSocketDir     = "/csi"
	driverSocket        = driverSocketDir + "/csi.sock"
	// driverTimeout is how long a sidecar waits for the driver: LINSTOR answers only when the satellites are done.
	driverTimeout = "--timeout=1m"
)

// CSIDriver is the object that says how Kubernetes uses the driver.
func CSIDriver(p Params) *storagev1.CSIDriver {
	d := &storagev1.CSIDriver{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver"},
		ObjectMeta: metav1.ObjectMeta{Name: DriverName, Labels: labels(p.Cluster, v1alpha1.ComponentDriver)},
		Spec: storagev1.CSIDriverSpec{
			AttachRequired:       ptr.To(true),
			PodInfoOnMount:       ptr.To(true),
			FSGroupPolicy:        ptr.To(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
			StorageCapacity:      ptr.To(true),
			RequiresRepublish:    ptr.To(false),
			SELinuxMount:         ptr.To(true),
		},
	}
	stamp(d, d.Spec)
	return d
}

// DriverController is the Deployment of the driver's controller with the sidecars that turn claims, attachments and
// resizes into calls of it. With running false it has no pods: a driver that looks at another LINSTOR's data, or at
// none, takes the deletion of a volume that is not there for done. With snapshots true it has the sidecar for
// them, which can do nothing but fail where Kubernetes does not serve their API.
func DriverController(p Params, running, snapshots bool) *appsv1.Deployment {
	election := []string{"--leader-election", "--leader-election-namespace=$(NAMESPACE)"}
	images := p.Release.Driver
	var pod corev1.PodSpec
	pod.Containers = []corev1.Container{
		driverContainer(p, apitls.Driver, Restricted()),
		sidecar(p, "csi-provisioner", images.Provisioner, append([]string{driverTimeout, "--worker-threads=10",
			"--default-fstype=ext4", "--extra-create-metadata", "--enable-capacity", "--capacity-ownerref-level=2",
		}, election...)...),
		sidecar(p, "csi-attacher", images.Attacher, append([]string{driverTimeout, "--worker-threads=10"},
			election...)...),
		// Without --handle-volume-inuse-error=false it would watch all pods of the Kubernetes cluster.
		sidecar(p, "csi-resizer", images.Resizer, append([]string{driverTimeout, "--workers=10",
			"--handle-volume-inuse-error=false"}, election...)...),
		livenessSidecar(p),
	}
	if snapshots {
		pod.Containers = append(pod.Containers, sidecar(p, DriverSnapshotterContainer, images.Snapshotter,
			append([]string{driverTimeout, "--worker-threads=10"}, election...)...))
	}
	pod.Volumes = []corev1.Volume{emptyDir("socket")}
	// The sidecars take turns by Leases of their own, and the driver keeps nothing: two may run at a time.
	return WorkloadDeployment(p, v1alpha1.ComponentDriver, DriverControllerName, running, pod, apitls.Driver)
}

// driverContainer is the driver. Both of its halves answer all calls; who calls makes the difference.
func driverContainer(p Params, part apitls.Part, security *corev1.SecurityContext) corev1.Container {
	return corev1.Container{
		Name:  DriverContainer,
		Image: p.image(p.Release.Driver.Driver),
		Args: []string{
			"--csi-endpoint=unix://" + driverSocket,
			// LINSTOR's properties with this prefix become topology keys; pools do not.
			"--property-namespace=Aux/topology", "--label-by-storage-pool=false",
		},
		Env:             p.Linstor(part),
		SecurityContext: security,
		LivenessProbe:   healthz(driverHealthPort),
		VolumeMounts:    []corev1.VolumeMount{mount("socket", driverSocketDir)},
		// A driver that exits says why on its output.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// Linstor are the variables in which golinstor, the client of LINBIT's programs, finds LINSTOR.
func (p Params) Linstor(part apitls.Part) []corev1.EnvVar {
	return p.API[part].Client(ControllerHost, ControllerPort)
}

func healthz(port int32) *corev1.Probe {
	p := Probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: "/healthz", Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTP}}, 10, 5)
	p.InitialDelaySeconds = 5
	return p
}

// sidecar is a container that calls the driver through its socket.
func sidecar(p Params, name, image string, args ...string) corev1.Container {
	return corev1.Container{
		Name:  name,
		Image: p.sidecarImage(image),
		Args:  append([]string{"--csi-address=" + driverSocket}, args...),
		Env: []corev1.EnvVar{
			EnvFromField("NAMESPACE", "metadata.namespace"), EnvFromField("POD_NAME", "metadata.name"),
		},
		SecurityContext:          Restricted(),
		VolumeMounts:             []corev1.VolumeMount{mount("socket", driverSocketDir)},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

func livenessSidecar(p Params) corev1.Container {
	return sidecar(p, "csi-livenessprobe", p.Release.Driver.LivenessProbe,
		fmt.Sprintf("--health-port=%d", driverHealthPort))
}

// sidecarImage is the full name of an image that Kubernetes' storage project publishes. A mirror has it beside all
// others.
func (p Params) sidecarImage(name string) string {
	if full := p.image(name); full != DefaultRegistry+"/"+name {
		return full
	}
	return SidecarRegistry + "/" + name
}

// KubeletDirectory is the kubelet's root directory on nodes of the platform.
func (p Params) KubeletDirectory(q platform.Profile) string {
	return cmp.Or(p.Spec.Volumes.Driver.KubeletDirectory, q.KubeletDir)
}

// DriverNode is the DaemonSet that mounts volumes on the members of a platform. The host's paths and the privileges
// are those that linstor-csi's node service needs: it mounts below the kubelet's directory for others to see, checks
// and grows file systems, and looks for devices and SELinux (piraeus-operator 2.11, pkg/resources/cluster/csi-node).
func DriverNode(p Params, q platform.Profile) *appsv1.DaemonSet {
	kubelet := p.KubeletDirectory(q)
	plugin := kubelet + "/plugins/" + DriverName
	driver := driverContainer(p, apitls.DriverNode, Privileged())
	driver.TerminationMessagePath = terminationLog
	driver.Args = append(driver.Args, "--node=$(KUBE_NODE_NAME)")
	driver.Env = append(driver.Env, EnvFromField("KUBE_NODE_NAME", "spec.nodeName"))
	pods := mount("kubelet", kubelet)
	pods.MountPropagation = ptr.To(corev1.MountPropagationBidirectional)
	driver.VolumeMounts = append(driver.VolumeMounts, pods, mount("dev", "/dev"), mountReadOnly("sys", "/sys"),
		mount("run-mount", "/run/mount"), mount("run-fsck", "/run/fsck"))
	registrar := sidecar(p, DriverRegistrarContainer, p.Release.Driver.Registrar,
		"--kubelet-registration-path="+plugin+"/csi.sock", fmt.Sprintf("--health-port=%d", registrarHealthPort))
	registrar.VolumeMounts = append(registrar.VolumeMounts, mount("registration", "/registration"))
	registrar.LivenessProbe = healthz(registrarHealthPort)
	wait := corev1.Container{
		Name: "wait-for-satellite", Image: p.image(p.Release.Driver.Driver),
		// The driver ends where LINSTOR does not know its node, as after a reboot that brings up all at once.
		Command:         []string{"/linstor-wait-until", "satellite-online", "$(KUBE_NODE_NAME)"},
		Env:             append(p.Linstor(apitls.DriverNode), EnvFromField("KUBE_NODE_NAME", "spec.nodeName")),
		SecurityContext: Restricted(), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	var selinux []corev1.Volume
	if !q.ReadOnlyEtc { // the directory may be missing, and a pod whose volume cannot be created never starts
		driver.VolumeMounts = append(driver.VolumeMounts, mountReadOnly("selinux", "/etc/selinux"))
		selinux = append(selinux, hostPath("selinux", "/etc/selinux", corev1.HostPathDirectoryOrCreate))
	}
	pod := corev1.PodSpec{
		ServiceAccountName: DriverNodeName,
		NodeSelector:       map[string]string{v1alpha1.LabelMember: p.Cluster},
		Affinity:           platformAffinity(q),
		InitContainers:     []corev1.Container{wait},
		Containers:         []corev1.Container{driver, registrar, livenessSidecar(p)},
		Volumes: append([]corev1.Volume{
			hostPath("socket", plugin, corev1.HostPathDirectoryOrCreate),
			hostPath("registration", kubelet+"/plugins_registry", corev1.HostPathDirectoryOrCreate),
			hostPath("kubelet", kubelet, corev1.HostPathDirectory),
			hostPath("dev", "/dev", corev1.HostPathDirectory),
			hostPath("sys", "/sys", corev1.HostPathDirectory),
			hostPath("run-mount", "/run/mount", corev1.HostPathDirectoryOrCreate),
			emptyDir("run-fsck"),
		}, selinux...),
	}
	// What is mounted stays mounted while the pod is replaced; only new mounts wait.
	ds := daemonSet(p, v1alpha1.ComponentDriverNode, q.DriverName(), v1alpha1.LabelPlatform, q.Key(), tenthAtATime(), pod)
	ds.Spec.Template.Annotations = p.API[apitls.DriverNode].Annotate(map[string]string{
		AnnotationTemplateHash: text.Digest(ds.Spec.Template)})
	if keys := p.Spec.Volumes.TopologyKeys; len(keys) > 0 {
		// The driver says where its node is only when it registers with the kubelet, once in its pod's life.
		ds.Spec.Template.Annotations[AnnotationTopologyKeys] = strings.Join(slices.Sorted(slices.Values(keys)), ",")
	}
	stamp(ds, ds.Spec)
	return ds
}
