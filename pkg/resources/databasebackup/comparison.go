package databasebackup

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/owner"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tools"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/listing"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

const (
	// Listing is the DaemonSet of the pods that list what lies on the nodes.
	Listing = "linstor-volume-listing"
	// ListVolumes is the container that makes the listing; another one serves it.
	ListVolumes  = "list-volumes"
	serveListing = "serve-listing"
	// compares is the container that compares a backup with the listings.
	compares = "compare-backup"
	// listed is the directory with the listing, and listingFile the listing.
	listed      = "/listing"
	listingFile = listed + "/listing"
	// longestComparison is how many seconds the comparison may take: it reads a backup, and a listing of each node.
	longestComparison = 900
)

// Listings is the DaemonSet whose pods list what lies on the storage of the members, once, and serve that for a token.
// They see the disks as satellites do, and have their ServiceAccount. Directories of file pools are those of the spec.
func Listings(p resources.Params, image, token string) *appsv1.DaemonSet {
	directories := resources.FileDirectories(p.Spec)
	list := corev1.Container{
		Name: ListVolumes, Image: p.Image(p.Release.Satellite), ImagePullPolicy: corev1.PullIfNotPresent,
		Command: append([]string{"/bin/sh", "-c", "exec > " + listingFile + "\n" + listing.Script, ListVolumes},
			directories...),
		SecurityContext: resources.Privileged(),
		// LVM's programs fail where they cannot make /run/lock/lvm, with --readonly too (lvm2, init_locking).
		VolumeMounts: []corev1.VolumeMount{{Name: "dev", MountPath: "/dev"}, {Name: "run", MountPath: "/run"},
			{Name: "run-lock", MountPath: "/run/lock"}, {Name: "run-udev", MountPath: "/run/udev", ReadOnly: true},
			{Name: "listing", MountPath: listed}},
		TerminationMessagePath:   "/termination-log", // the default lies in the host's /dev here
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	user := resources.Restricted()
	user.RunAsNonRoot, user.RunAsUser, user.RunAsGroup = ptr.To(true), ptr.To[int64](tools.User),
		ptr.To[int64](tools.User)
	serve := corev1.Container{
		Name: serveListing, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            []string{"--serve-listing", listingFile, "--listing-token", token},
		Ports:           []corev1.ContainerPort{{Name: "listing", ContainerPort: listing.Port, Protocol: "TCP"}},
		SecurityContext: user,
		ReadinessProbe: resources.Probe(corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("listing")}}, 5, 3),
		Resources:                sized("32Mi", "128Mi"),
		VolumeMounts:             []corev1.VolumeMount{{Name: "listing", MountPath: listed, ReadOnly: true}},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	pod := corev1.PodSpec{ServiceAccountName: resources.SatelliteName, InitContainers: []corev1.Container{list},
		Containers: []corev1.Container{serve}, TerminationGracePeriodSeconds: ptr.To[int64](1)}
	host := func(name, path string, kind corev1.HostPathType) {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}})
	}
	host("dev", "/dev", corev1.HostPathDirectory)
	host("run-udev", "/run/udev", corev1.HostPathDirectory)
	for i, d := range directories {
		name := fmt.Sprint("directory-", i)
		host(name, d, corev1.HostPathDirectoryOrCreate)
		mounts := &pod.InitContainers[0].VolumeMounts
		*mounts = append(*mounts, corev1.VolumeMount{Name: name, MountPath: d, ReadOnly: true})
	}
	pod.Volumes = append(pod.Volumes, emptyDir("run"), emptyDir("run-lock"), emptyDir("listing"))
	ds := resources.MemberDaemonSet(p, v1alpha1.ComponentListing, Listing, pod)
	resources.StampTemplate(ds)
	return ds
}

// Comparison is one comparison of a backup with the listings.
type Comparison struct {
	// Image is the operator's own.
	Image string
	// Pod is what ComparisonPod has made.
	Pod string
	// Config is what the operator's program is told, Nodes where it finds the listings of the nodes, and Machines the
	// addresses of machines, each for itself: one argument of a program holds 128 KiB.
	Config          string
	Nodes, Machines []string
	Place
}

// ComparisonPod is the name of the pod that makes the comparison which was begun at that time.
func ComparisonPod(by *v1alpha1.StorageCluster, begun time.Time) string {
	return "linstor-compare-backup-" + text.Digest([]any{by.UID, begun.UnixNano()})[:10]
}

// Token is what listings are served for to the pod of that name.
func Token(pod string) string { return text.Digest(pod) }

// Comparator is the pod that makes the comparison, once. It needs nobody's rights.
func Comparator(p resources.Params, by *v1alpha1.StorageCluster, c *Comparison) *corev1.Pod {
	args := []string{"--compare-backup", c.Config}
	for _, machine := range c.Machines {
		args = append(args, "--compare-address", machine)
	}
	for _, node := range c.Nodes {
		args = append(args, "--compare-node", node)
	}
	pod := once(p, compares, c.Image, longestComparison, args...)
	// It has all volumes of the backup, and what all nodes list, in memory: as much as export and listing let it.
	pod.Containers[0].Resources = sized("64Mi", "2Gi")
	pod.Containers[0].Env = append(pod.Containers[0].Env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: "1800MiB"})
	c.mount(&pod, true)
	return owner.Pod(by, resources.ObjectMeta(p, c.Pod, v1alpha1.ComponentComparison), pod)
}

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// sized are requests and a limit of memory, for what works for seconds.
func sized(memory, limit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse(memory)},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)},
	}
}
