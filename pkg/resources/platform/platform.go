// Package platform describes the kinds of nodes that need settings of their own, such as Talos: where the satellite
// keeps what, and how the DRBD module comes onto them.
package platform

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
)

// Profile is what differs for satellites and module loaders on one platform. The hosts' paths are those of
// piraeus-operator's documentation (docs/how-to: talos.md, flatcar.md, openshift.md, k0s.md, microk8s.md); none was
// tried on such nodes here.
type Profile struct {
	Platform v1alpha1.Platform
	// LVMDir is the directory on the host below which LVM's archive and backups of its metadata are kept.
	LVMDir string
	// KubeletDir is the kubelet's root directory, unless the spec names another one.
	KubeletDir string
	// ReadOnlyEtc reports whether nothing can be created in the host's /etc.
	ReadOnlyEtc bool
	// Systemd reports whether the host runs systemd, which Talos does not.
	Systemd bool
	// Sources reports whether the host keeps kernel headers in /usr/src. Where it does not, the loader takes what the
	// build link in /lib/modules leads to, or what is in its image.
	Sources bool
	// OwnModules reports whether the system takes only modules that come with it.
	OwnModules bool
	// KnownLoaders reports whether only a loader works that the catalogue has for that very operating system, or one that
	// the spec insists on. Elsewhere the default loader works where no other fits.
	KnownLoaders bool
	// PrivilegedLoader reports whether the loader needs all privileges rather than SYS_MODULE alone.
	PrivilegedLoader bool
	// Hint says how DRBD comes onto such a node if nothing has loaded it.
	Hint string
}

const (
	hintGeneric = "load DRBD 9 on the node with the module option usermode_helper=disabled, or choose a different " +
		"spec.kernelModule.mode"
	hintTalos = "add the system extension siderolabs/drbd to the node's installer image, and add drbd (parameter " +
		"usermode_helper=disabled) and drbd_transport_tcp to machine.kernel.modules in its machine configuration"
	hintOpenShift = "OpenShift nodes have no kernel headers: add a loader image to the catalogue that contains the " +
		"headers or modules for the node's kernel"
	hintFlatcar = "the catalogue does not contain a module loader for Flatcar: load DRBD 9 on the node with " +
		"usermode_helper=disabled, add a loader for Flatcar to the catalogue, or set spec.kernelModule.mode to Compile"
)

// kubelet is the kubelet's own default for its root directory.
const kubelet = "/var/lib/kubelet"

// profiles are all platforms. The first is the one for nodes that no other fits.
var profiles = []Profile{
	{Platform: v1alpha1.PlatformGeneric, LVMDir: "/etc/lvm", KubeletDir: kubelet, Systemd: true, Sources: true,
		Hint: hintGeneric},
	// /etc is read-only, there are no headers, and the kernel refuses modules that its own build did not sign
	// (docs/how-to/talos.md; talos.dev, System Extensions).
	{Platform: v1alpha1.PlatformTalos, LVMDir: "/var/etc/lvm", KubeletDir: kubelet, ReadOnlyEtc: true,
		OwnModules: true, Hint: hintTalos},
	// /usr is read-only and has no src (docs/how-to/flatcar.md). LINBIT has a recipe for a loader (LINBIT/drbd,
	// docker/Dockerfile.flatcar), Piraeus publishes no image of it.
	{Platform: v1alpha1.PlatformFlatcar, LVMDir: "/etc/lvm", KubeletDir: kubelet, Systemd: true, KnownLoaders: true,
		Hint: hintFlatcar},
	// The loader is privileged as in docs/how-to/openshift.md. The host has no headers; they are in the release's Driver
	// Toolkit image only.
	{Platform: v1alpha1.PlatformOpenShift, LVMDir: "/etc/lvm", KubeletDir: kubelet, Systemd: true, PrivilegedLoader: true,
		Hint: hintOpenShift},
	{Platform: v1alpha1.PlatformK0s, LVMDir: "/etc/lvm", KubeletDir: "/var/lib/k0s/kubelet", Systemd: true,
		Sources: true, Hint: hintGeneric},
	{Platform: v1alpha1.PlatformMicroK8s, LVMDir: "/etc/lvm", KubeletDir: "/var/snap/microk8s/common/var/lib/kubelet",
		Systemd: true, Sources: true, Hint: hintGeneric},
}

// Profiles are all platforms' profiles.
func Profiles() []Profile { return slices.Clone(profiles) }

// ProfileOf is a platform's profile; Generic's for one that is not known.
func ProfileOf(p v1alpha1.Platform) Profile {
	i := slices.IndexFunc(profiles, func(q Profile) bool { return q.Platform == p })
	return profiles[max(i, 0)]
}

// Of is a node's platform: what the spec says, or what the node reports. The operating system comes before the
// distribution of Kubernetes, because satellites and loaders depend on it alone.
func Of(spec v1alpha1.Platform, n *corev1.Node) v1alpha1.Platform {
	if spec != "" && spec != v1alpha1.PlatformAuto {
		return spec
	}
	info := &n.Status.NodeInfo
	switch {
	case strings.HasPrefix(info.OSImage, "Talos ("): // siderolabs/talos, internal/app/machined
		return v1alpha1.PlatformTalos
	case strings.HasPrefix(info.OSImage, "Flatcar Container Linux"):
		return v1alpha1.PlatformFlatcar
	case strings.HasPrefix(info.OSImage, "Red Hat Enterprise Linux CoreOS"),
		strings.HasPrefix(info.OSImage, "CentOS Stream CoreOS"):
		return v1alpha1.PlatformOpenShift
	case strings.Contains(info.KubeletVersion, "+k0s"): // v1.33.1+k0s
		return v1alpha1.PlatformK0s
	case n.Labels["microk8s.io/cluster"] == "true": // canonical/microk8s, pull request 314
		return v1alpha1.PlatformMicroK8s
	default:
		return v1alpha1.PlatformGeneric
	}
}

// Key is the value of the label storage.linstor.dev/platform.
func (q Profile) Key() string { return strings.ToLower(string(q.Platform)) }

// Mode is how the module comes onto the profile's nodes with a loader, given the spec's mode. Preinstalled means that
// nothing is loaded there: a loader that cannot work would only restart for ever.
func (q Profile) Mode(mode v1alpha1.KernelModuleMode, l catalogue.Loader) v1alpha1.KernelModuleMode {
	mode = cmp.Or(mode, v1alpha1.ModuleAuto)
	if q.OwnModules || q.KnownLoaders && mode == v1alpha1.ModuleAuto && l.Key == catalogue.GenericKey {
		return v1alpha1.ModulePreinstalled
	}
	return mode
}

// OSKey is the value of the label storage.linstor.dev/os for the profile's nodes: the loader's key, with the platform
// where loaders are not Generic's, or NoLoader. So no loader's pod comes to a node that it is not for, or stays where
// the spec has no place for it any more. A catalogue's key has no dot: no two loaders share a value.
func (q Profile) OSKey(mode v1alpha1.KernelModuleMode, l catalogue.Loader) string {
	switch {
	case q.Mode(mode, l) == v1alpha1.ModulePreinstalled:
		return catalogue.NoLoaderKey
	case !q.Sources || q.PrivilegedLoader:
		return l.Key + "." + q.Key()
	default:
		return l.Key
	}
}

// SatellitePrefix begins the names of the satellites' DaemonSets. By itself it is the one on nodes that no platform
// fits, and their ServiceAccount.
const SatellitePrefix = "linstor-satellite"

// SatelliteName is the name of the profile's satellites' DaemonSet.
func (q Profile) SatelliteName() string {
	if q.Platform == v1alpha1.PlatformGeneric {
		return SatellitePrefix
	}
	return SatellitePrefix + "-" + q.Key()
}

// DriverPrefix begins the names of the DaemonSets of the CSI driver, as SatellitePrefix does for satellites.
const DriverPrefix = "linstor-csi-node"

// DriverName is the name of the DaemonSet that runs the CSI driver on the profile's nodes.
func (q Profile) DriverName() string {
	if q.Platform == v1alpha1.PlatformGeneric {
		return DriverPrefix
	}
	return DriverPrefix + "-" + q.Key()
}
