package resources

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

const (
	satelliteConfigKey = "linstor_satellite.toml"
	reactorConfigKey   = "prometheus.toml"
)

// reactorConfig makes drbd-reactor serve DRBD's state as metrics.
const reactorConfig = `[[prometheus]]
enums = true
address = ":9942"
`

// waitScript ends when DRBD 9 is loaded, and leaves its version as its last word. After a reboot, module loader and satellite
// start together, and a satellite that starts without the module reports to LINSTOR that its node has no DRBD.
const waitScript = `trap 'exit 1' TERM INT
version=/sys/module/drbd/version
if [ ! -r "$version" ]; then echo "waiting for the DRBD kernel module"; fi
while [ ! -r "$version" ]; do sleep 1 & wait; done
read -r loaded < "$version"
case "$loaded" in
9.*|[1-9][0-9].*) echo "DRBD $loaded is loaded"; echo "$loaded" > /dev/termination-log ;;
*) echo "DRBD $loaded is loaded, LINSTOR needs DRBD 9: unload it or keep it from being loaded at boot"; exit 1 ;;
esac
`

// terminationLog is where containers that mount the host's /dev leave their last words. Kubernetes' default is a file below
// /dev, which would have to be made on the host.
const terminationLog = "/termination-log"

// InventoryLimit is the most that the device inventory's termination message holds, in bytes. Kubernetes keeps 4096.
const InventoryLimit = 4000

// inventoryScript writes one line for each disk, as NAME="sdb" TYPE="disk" …, into the termination message. It always
// succeeds: what it finds is of use only where disks are turned into pools, and a satellite must start without it. A
// message that does not end with a line break was cut off, so that its last line counts for nothing.
//
// Left out by their major numbers are ram, floppy, loop, optical, network block and DRBD devices.
var inventoryScript = fmt.Sprintf(`disks=$(lsblk -P -b -d -n -e 1,2,7,11,43,147 -o NAME,TYPE,SIZE,ROTA,SERIAL,WWN,MODEL,FSTYPE,PTTYPE 2>&1)
printf '%%s\n' "$disks" | head -c %d > %s
exit 0
`, InventoryLimit, terminationLog)

// SatelliteConfig is what the satellites' containers read. LINSTOR's defaults are right for satellites: plain connections on
// port 3366.
func SatelliteConfig(p Params) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta(SatelliteConfigName, p.Cluster, v1alpha1.ComponentSatellite),
		Data:       map[string]string{satelliteConfigKey: "", reactorConfigKey: reactorConfig},
	}
}

// Satellite is the DaemonSet that runs a LINSTOR satellite on each member of a platform.
func Satellite(p Params, q Profile) *appsv1.DaemonSet {
	match := selector(p.Cluster, v1alpha1.ComponentSatellite)
	match[v1alpha1.LabelPlatform] = q.Key() // else the satellites' DaemonSets would claim each other's pods
	meta := objectMeta(q.SatelliteName(), p.Cluster, v1alpha1.ComponentSatellite)
	meta.Labels[v1alpha1.LabelPlatform] = q.Key()
	podLabels := labels(p.Cluster, v1alpha1.ComponentSatellite)
	podLabels[v1alpha1.LabelPlatform] = q.Key()
	pod := corev1.PodSpec{
		ServiceAccountName:           SatelliteName,
		AutomountServiceAccountToken: ptr.To(false),
		EnableServiceLinks:           ptr.To(false),
		PriorityClassName:            "system-node-critical",
		ImagePullSecrets:             p.pullSecrets(),
		NodeSelector:                 map[string]string{v1alpha1.LabelMember: p.Cluster},
		Affinity:                     platformAffinity(q),
		Tolerations:                  tolerateAll(),
		InitContainers:               []corev1.Container{waitForModule(p), deviceInventory(p)},
		Containers:                   []corev1.Container{satelliteContainer(p)},
		Volumes:                      satelliteVolumes(p, q),
	}
	if p.Release.Reactor != "" {
		pod.Containers = append(pod.Containers, reactorContainer(p))
	}
	if p.hostNetwork() {
		// DRBD's connections live in the network namespace that they were made in. In the host's they outlive the pod, so
		// that replication goes on while a satellite restarts.
		pod.HostNetwork = true
		pod.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
	ds := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: meta,
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: match},
			// Who restarts when is not for a DaemonSet to decide, which knows nothing of replicas that are still syncing.
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels},
				Spec:       pod,
			},
		},
	}
	// The pods read their configuration at start only, so that it counts as a part of them.
	ds.Spec.Template.Annotations = map[string]string{AnnotationTemplateHash: hash([]any{ds.Spec.Template, SatelliteConfig(p).Data})}
	stamp(ds, ds.Spec)
	return ds
}

// platformAffinity picks the platform's nodes by their label. Generic's satellites run on all members that no other platform
// claims: a node whose platform label somebody removed keeps its satellite.
func platformAffinity(q Profile) *corev1.Affinity {
	term := corev1.NodeSelectorRequirement{Key: v1alpha1.LabelPlatform, Operator: corev1.NodeSelectorOpIn, Values: []string{q.Key()}}
	if q.Platform == v1alpha1.PlatformGeneric {
		term.Operator, term.Values = corev1.NodeSelectorOpNotIn, nil
		for _, other := range profiles {
			if other.Platform != q.Platform {
				term.Values = append(term.Values, other.Key())
			}
		}
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{term}}},
	}}}
}

// SatelliteHash is the value of AnnotationTemplateHash on the pods of a satellites' DaemonSet.
func SatelliteHash(ds *appsv1.DaemonSet) string {
	return ds.Spec.Template.Annotations[AnnotationTemplateHash]
}

func (p Params) hostNetwork() bool { return p.Spec.Nodes.Network.Mode != v1alpha1.NetworkPod }

// nodePort is a port of a satellite's pod. On the host's network it is a port of the node, which some versions of
// Kubernetes fill in and some do not, so it is said here.
func (p Params) nodePort(name string, number int32) corev1.ContainerPort {
	port := corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}
	if p.hostNetwork() {
		port.HostPort = number
	}
	return port
}

func waitForModule(p Params) corev1.Container {
	return corev1.Container{
		Name:    WaitForModuleContainer,
		Image:   p.image(p.Release.Satellite),
		Command: []string{"/bin/sh", "-c", waitScript},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// deviceInventory tells the operator what disks carry a signature: LINSTOR lists only empty ones.
func deviceInventory(p Params) corev1.Container {
	return corev1.Container{
		Name:    DeviceInventoryContainer,
		Image:   p.image(p.Release.Satellite),
		Command: []string{"/bin/sh", "-c", inventoryScript},
		// lsblk reads signatures from the disks themselves where udev does not know them.
		SecurityContext:        privileged(),
		VolumeMounts:           []corev1.VolumeMount{mountReadOnly("dev", "/dev"), mountReadOnly("run-udev", "/run/udev")},
		TerminationMessagePath: terminationLog,
	}
}

func satelliteContainer(p Params) corev1.Container {
	env := []corev1.EnvVar{
		{Name: "JAVA_OPTS", Value: javaOptions},
		// drbdadm tells the node's own section of a resource file by the host name, so LINSTOR's image sets it.
		envFromField("LB_FORCE_NODE_NAME", "spec.nodeName"),
	}
	mounts := []corev1.VolumeMount{
		mountReadOnly("config", "/etc/linstor"),
		mount("dev", "/dev"),
		mount("run", "/run"),
		mount("run-lock", "/run/lock"),
		mountReadOnly("run-udev", "/run/udev"),
		mount("tmp", "/tmp"),
	}
	for _, k := range keptPaths {
		mounts = append(mounts, mount(k.volume, k.path))
	}
	if directories := fileDirectories(p.Spec); len(directories) > 0 {
		// For a file in one of these the kernel tells losetup only the path below the mount; the image's losetup finds the
		// whole path by trying each of the lines (LINBIT/losetup-container, README).
		env = append(env, corev1.EnvVar{Name: "LOSETUP_CONTAINER_BIND_MOUNTS", Value: strings.Join(directories, "\n")})
		for i, d := range directories {
			mounts = append(mounts, mount(filePoolVolume(i), d))
		}
	}
	return corev1.Container{
		Name:            SatelliteContainer,
		Image:           p.image(p.Release.Satellite),
		Args:            []string{"startSatellite"},
		Env:             env,
		Ports:           []corev1.ContainerPort{p.nodePort("linstor", SatellitePort)},
		ReadinessProbe:  probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("linstor")}}, 5, 3),
		SecurityContext: privileged(),
		VolumeMounts:    mounts,
		// A satellite that exits says why on its output.
		TerminationMessagePath:   terminationLog,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

func reactorContainer(p Params) corev1.Container {
	return corev1.Container{
		Name:  ReactorContainer,
		Image: p.image(p.Release.Reactor),
		Ports: []corev1.ContainerPort{p.nodePort("prometheus", ReactorPort)},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{mountReadOnly("reactor-config", "/etc/drbd-reactor.d")},
	}
}

func privileged() *corev1.SecurityContext {
	return &corev1.SecurityContext{Privileged: ptr.To(true), ReadOnlyRootFilesystem: ptr.To(true)}
}

func satelliteVolumes(p Params, q Profile) []corev1.Volume {
	out := []corev1.Volume{
		configFile("config", satelliteConfigKey),
		hostPath("dev", "/dev", corev1.HostPathDirectory),
		hostPath("run-udev", "/run/udev", corev1.HostPathDirectory),
		emptyDir("run"), emptyDir("run-lock"), emptyDir("tmp"),
	}
	for _, k := range keptPaths {
		host := k.path
		if below, isLVM := strings.CutPrefix(k.path, "/etc/lvm"); isLVM {
			host = q.LVMDir + below
		}
		out = append(out, hostPath(k.volume, host, corev1.HostPathDirectoryOrCreate))
	}
	for i, d := range fileDirectories(p.Spec) {
		out = append(out, hostPath(filePoolVolume(i), d, corev1.HostPathDirectoryOrCreate))
	}
	if p.Release.Reactor != "" {
		out = append(out, configFile("reactor-config", reactorConfigKey))
	}
	return out
}

// keptPaths are what satellites leave on the host: logs, DRBD's bitmaps and generated resource files, and LVM's backups of
// its metadata. A restarted satellite and a human who repairs a volume group both need them.
var keptPaths = []struct{ volume, path string }{
	{"var-log-linstor", "/var/log/linstor-satellite"},
	{"var-lib-drbd", "/var/lib/drbd"},
	{"var-lib-linstor", "/var/lib/linstor.d"},
	{"etc-lvm-archive", "/etc/lvm/archive"},
	{"etc-lvm-backup", "/etc/lvm/backup"},
}

// configFile is a volume with one file of the satellites' ConfigMap.
func configFile(volume, key string) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: SatelliteConfigName},
		Items:                []corev1.KeyToPath{{Key: key, Path: key}},
	}}}
}

// fileDirectories are the directories of all file pools, sorted, each once. They are mounted on every member, because one
// DaemonSet serves a whole platform; where a pool is not wanted its directory stays empty.
func fileDirectories(spec *v1alpha1.StorageClusterSpec) []string {
	var out []string
	for i := range spec.StoragePools {
		if kind, directory := spec.StoragePools[i].Backing(); kind == "FILE" || kind == "FILE_THIN" {
			out = append(out, directory)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const filePoolPrefix = "file-pool-"

func filePoolVolume(i int) string { return fmt.Sprint(filePoolPrefix, i) }

// IsFilePoolVolume tells whether a volume of a satellite is the directory of a file pool.
func IsFilePoolVolume(name string) bool { return strings.HasPrefix(name, filePoolPrefix) }
