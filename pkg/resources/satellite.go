package resources

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/poolspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/inventory"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/memory"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/shutdownguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
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

// waitScript ends when DRBD 9 is loaded, and leaves its version as its last word. After a reboot, module loader and
// satellite start together, and a satellite that starts without the module reports to LINSTOR that its node has no
// DRBD.
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

// terminationLog is where containers that mount the host's /dev leave their last words. Kubernetes' default is a file
// below /dev, which would have to be made on the host.
const terminationLog = "/termination-log"

// SatelliteConfig is what the satellites' containers read. LINSTOR's defaults are right for plain connections on port
// 3366; those with TLS have their configuration beside their certificate.
func SatelliteConfig(p Params) *corev1.ConfigMap {
	data := map[string]string{satelliteConfigKey: "", reactorConfigKey: reactorConfig}
	return configMap(p.Cluster, v1alpha1.ComponentSatellite, SatelliteConfigName, data)
}

// Satellite is the DaemonSet that runs a LINSTOR satellite on each member of a platform.
func Satellite(p Params, q platform.Profile) *appsv1.DaemonSet {
	satellite, volumes := satelliteContainer(p, q)
	pod := corev1.PodSpec{
		ServiceAccountName: SatelliteName,
		NodeSelector:       map[string]string{v1alpha1.LabelMember: p.Cluster},
		Affinity:           platformAffinity(q),
		InitContainers:     []corev1.Container{waitForModule(p), deviceInventory(p)},
		Containers:         []corev1.Container{satellite},
		Volumes:            volumes,
	}
	if p.Release.Reactor != "" {
		pod.Containers = append(pod.Containers, reactorContainer(p))
		pod.Volumes = append(pod.Volumes, configFile("reactor-config", reactorConfigKey))
	}
	if q.Systemd && p.Release.ShutdownGuard != "" && p.Spec.Volumes.ShutdownGuard != volumespec.ShutdownGuardNone {
		guard, volumes := shutdownguard.Container(p.image(p.Release.ShutdownGuard))
		pod.InitContainers = append(pod.InitContainers, guard)
		pod.Volumes = append(pod.Volumes, volumes...)
	}
	if p.hostNetwork() {
		// DRBD's connections live in the network namespace that they were made in. In the host's they outlive the pod, so
		// that replication goes on while a satellite restarts.
		pod.HostNetwork = true
		pod.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
	// Who restarts when is not for a DaemonSet to decide, which knows nothing of replicas that are still syncing.
	update := appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	ds := daemonSet(p, v1alpha1.ComponentSatellite, q.SatelliteName(), v1alpha1.LabelPlatform, q.Key(), update, pod)
	// The pods read their configuration at start only, so that it counts as a part of them.
	ds.Spec.Template.Annotations = netcomtls.Kind.Annotate(p.Netcom.Satellite, nil)
	read := []any{ds.Spec.Template, SatelliteConfig(p).Data}
	if p.Netcom.Satellite.Locked() {
		read = append(read, netcomtls.Data(netcomtls.Satellite))
	}
	hash := text.Digest(read)
	ds.Spec.Template.Annotations = netcomtls.Kind.Annotate(p.Netcom.Satellite,
		map[string]string{AnnotationTemplateHash: hash})
	stamp(ds, ds.Spec)
	return ds
}

// platformAffinity picks the platform's nodes by their label. Generic's satellites run on all members that no other
// platform claims: a node whose platform label somebody removed keeps its satellite.
func platformAffinity(q platform.Profile) *corev1.Affinity {
	term := corev1.NodeSelectorRequirement{Key: v1alpha1.LabelPlatform}
	if q.Platform != v1alpha1.PlatformGeneric {
		term.Operator, term.Values = corev1.NodeSelectorOpIn, []string{q.Key()}
	} else {
		term.Operator = corev1.NodeSelectorOpNotIn
		for _, other := range platform.Profiles() {
			if other.Platform != q.Platform {
				term.Values = append(term.Values, other.Key())
			}
		}
	}
	required := &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{term}}},
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
}

// TemplateHash is the value of AnnotationTemplateHash on the pods of a DaemonSet.
func TemplateHash(ds *appsv1.DaemonSet) string {
	return ds.Spec.Template.Annotations[AnnotationTemplateHash]
}

func (p Params) hostNetwork() bool { return p.Spec.Nodes.Network.Mode != nodespec.NetworkPod }

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
		Name:                     WaitForModuleContainer,
		Image:                    p.image(p.Release.Satellite),
		Command:                  []string{"/bin/sh", "-c", waitScript},
		SecurityContext:          Restricted(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// satelliteContainer is the satellite, with the volumes that it mounts.
func satelliteContainer(p Params, q platform.Profile) (corev1.Container, []corev1.Volume) {
	env := []corev1.EnvVar{
		{Name: "JAVA_OPTS", Value: javaOptions},
		// drbdadm finds the node's own section of a resource file by the host name, so LINSTOR's image sets it.
		EnvFromField("LB_FORCE_NODE_NAME", "spec.nodeName"),
	}
	volumes := []corev1.Volume{
		configFile("config", satelliteConfigKey),
		hostPath("dev", "/dev", corev1.HostPathDirectory),
		hostPath("run-udev", "/run/udev", corev1.HostPathDirectory),
		emptyDir("run"), emptyDir("run-lock"), emptyDir("tmp"),
	}
	p.Netcom.LockSatellite(&volumes[0])
	mounts := []corev1.VolumeMount{
		mountReadOnly("config", "/etc/linstor"),
		mount("dev", "/dev"),
		mount("run", "/run"),
		mount("run-lock", "/run/lock"),
		mountReadOnly("run-udev", "/run/udev"),
		mount("tmp", "/tmp"),
	}
	keep := func(volume, path, host string) {
		volumes = append(volumes, hostPath(volume, host, corev1.HostPathDirectoryOrCreate))
		mounts = append(mounts, mount(volume, path))
	}
	// What satellites leave on the host: logs, DRBD's bitmaps and generated resource files, and LVM's backups of its
	// metadata. A restarted satellite and a human who repairs a volume group both need them.
	keep("var-log-linstor", "/var/log/linstor-satellite", "/var/log/linstor-satellite")
	keep("var-lib-drbd", "/var/lib/drbd", "/var/lib/drbd")
	keep("var-lib-linstor", "/var/lib/linstor.d", "/var/lib/linstor.d")
	keep("etc-lvm-archive", "/etc/lvm/archive", q.LVMDir+"/archive")
	keep("etc-lvm-backup", "/etc/lvm/backup", q.LVMDir+"/backup")
	if directories := FileDirectories(p.Spec); len(directories) > 0 {
		// For a file in one of these the kernel gives losetup only the path below the mount; the image's losetup finds the
		// whole path by trying each of the lines (LINBIT/losetup-container, README).
		env = append(env, corev1.EnvVar{Name: "LOSETUP_CONTAINER_BIND_MOUNTS", Value: strings.Join(directories, "\n")})
		for i, d := range directories {
			keep(fmt.Sprint(filePoolPrefix, i), d, d)
		}
	}
	listens := &corev1.TCPSocketAction{Port: intstr.FromString("linstor")}
	c := corev1.Container{
		Name:            SatelliteContainer,
		Image:           p.image(p.Release.Satellite),
		Args:            []string{"startSatellite"},
		Env:             env,
		Ports:           []corev1.ContainerPort{p.nodePort("linstor", p.Netcom.SatellitePort(SatellitePort))},
		ReadinessProbe:  Probe(corev1.ProbeHandler{TCPSocket: listens}, 5, 3),
		SecurityContext: Privileged(),
		VolumeMounts:    mounts,
		// A satellite that exits says why on its output.
		TerminationMessagePath:   terminationLog,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	fitMemory(&c, memory.Satellite, &p.Spec.Nodes.Satellite.Resources)
	return c, volumes
}

func reactorContainer(p Params) corev1.Container {
	return corev1.Container{
		Name:            ReactorContainer,
		Image:           p.image(p.Release.Reactor),
		Ports:           []corev1.ContainerPort{p.nodePort("prometheus", ReactorPort)},
		SecurityContext: Restricted(),
		VolumeMounts:    []corev1.VolumeMount{mountReadOnly("reactor-config", "/etc/drbd-reactor.d")},
	}
}

// configFile is a volume with one file of the satellites' ConfigMap.
func configFile(volume, key string) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: SatelliteConfigName},
		Items:                []corev1.KeyToPath{{Key: key, Path: key}},
	}}}
}

// FileDirectories are the directories of all file pools, sorted, each once. They are mounted on every member, because
// one DaemonSet serves a whole platform; where a pool is not wanted its directory stays empty.
func FileDirectories(spec *v1alpha1.StorageClusterSpec) []string {
	var out []string
	for i := range spec.StoragePools {
		if kind, directory := poolspec.Backing(&spec.StoragePools[i]); kind == "FILE" || kind == "FILE_THIN" {
			out = append(out, directory)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const filePoolPrefix = "file-pool-"

// IsFilePoolVolume reports whether a volume of a satellite is the directory of a file pool.
func IsFilePoolVolume(name string) bool { return strings.HasPrefix(name, filePoolPrefix) }

// deviceInventory reports what is on which disk. LINSTOR lists the empty ones by what lsblk says, and lsblk
// takes that from udev alone: a disk that udev has no record of looks empty whatever is on it (util-linux 2.38,
// lsblk-properties.c). So the disks themselves are read here, with the programs of LINSTOR's own image. A container
// may open the host's disks only if it is privileged; nothing is written.
func deviceInventory(p Params) corev1.Container {
	return corev1.Container{
		Name:            DeviceInventoryContainer,
		Image:           p.image(p.Release.Satellite),
		Command:         []string{"/bin/sh", "-c", inventory.Script},
		SecurityContext: Privileged(),
		// LVM's programs fail where they cannot make /run/lock/lvm, with --readonly too (lvm2, init_locking).
		VolumeMounts: []corev1.VolumeMount{mountReadOnly("dev", "/dev"), mount("run", "/run"),
			mount("run-lock", "/run/lock"), mountReadOnly("run-udev", "/run/udev")},
		TerminationMessagePath: terminationLog,
	}
}
