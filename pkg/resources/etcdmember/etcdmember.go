// Package etcdmember builds what the members of the etcd are made of that the operator runs for LINSTOR: a DaemonSet
// for each, and what is noted of them.
package etcdmember

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"path"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/configfile"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/guard"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/snapshot"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

const (
	// Component is that of all these objects.
	Component = "etcd"
	// SurveyComponent is that of the pods that look into data directories.
	SurveyComponent = "etcd-survey"
	// Orders is the ConfigMap with a key for each node that has a member. It outlives the StorageCluster, as the data on
	// the nodes does.
	Orders = "linstor-etcd"
	// Notes is the one with what the operator has noted of members. It outlives the StorageCluster, too.
	Notes = "linstor-etcd-notes"
	// Survey is the DaemonSet whose pods look into data directories.
	Survey = "linstor-etcd-survey"
	// Look is the container of these pods.
	Look = "look-for-etcd"
	// SnapshotComponent is that of the pod that takes a snapshot.
	SnapshotComponent = "etcd-snapshot"
	// Snapshot is its DaemonSet.
	Snapshot = "linstor-etcd-snapshot"
	// Save is its container.
	Save = "snapshot-etcd"
	// KeyNotes is the key of Notes with what the operator has noted.
	KeyNotes = "notes"
	// KeyAnswers is that with what a human has answered.
	KeyAnswers = "answers"
	// KeyPath is that with the directory of the members' data.
	KeyPath = "dataPath"
)

// The ports of a member, all TCP, on the address of its node. Kubernetes' own etcd has 2379 to 2381 there.
const (
	ClientPort  = 3379
	PeerPort    = 3380
	MetricsPort = 3381 // on loopback only
)

// DefaultRegistry is where etcd's images are unless spec.images.registry names a registry of one's own.
const DefaultRegistry = "gcr.io/etcd-development"

// LongestNode is how long the name of a node with a member may be: the member's name, which is the node's with a
// number behind it, is the value of a label.
const LongestNode = 54

// Site is all that the objects of one member depend on, but for its configuration.
type Site struct {
	// Image is etcd's, Guard the operator's own.
	Image, Guard string
	// Directory is that of the host with the member's data.
	Directory string
}

// Image is the full name of an image of etcd.
func Image(p resources.Params, name string) string {
	registry := strings.TrimSuffix(p.Spec.Images.Registry, "/")
	if registry == "" || registry == resources.DefaultRegistry {
		registry = DefaultRegistry
	}
	return registry + "/" + name
}

// URLs are where a member on a node with that address is reached.
func URLs(address string) (peer, client string) {
	return url(address, PeerPort), url(address, ClientPort)
}

func url(host string, port int) string { return "http://" + net.JoinHostPort(host, strconv.Itoa(port)) }

// DaemonSet runs one member, on the node with its label. Its pod is replaced only when somebody deletes it.
func DaemonSet(p resources.Params, s Site, node string, c seats.Configuration) *appsv1.DaemonSet {
	guarded := resources.Restricted() // it runs as root, whose the data is
	guarded.RunAsUser, guarded.RunAsNonRoot = ptr.To[int64](0), ptr.To(false)
	work := corev1.VolumeMount{Name: "work", MountPath: pods.Work}
	data := corev1.VolumeMount{Name: "data", MountPath: pods.Host}
	take := corev1.Container{
		Name: pods.Take, Image: s.Guard, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{pods.FlagTake, c.Name},
		SecurityContext: guarded, Resources: sized("10m", "32Mi"),
		VolumeMounts: []corev1.VolumeMount{work, {Name: "order", MountPath: path.Dir(pods.Order), ReadOnly: true}, data},
	}
	etcd := corev1.Container{
		Name: pods.Etcd, Image: s.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{pods.Guard, pods.FlagStart, c.Name},
		SecurityContext: guarded.DeepCopy(), Resources: sized("100m", "128Mi"),
		VolumeMounts: []corev1.VolumeMount{work, data},
		Ports: []corev1.ContainerPort{{Name: "client", ContainerPort: ClientPort, Protocol: corev1.ProtocolTCP},
			{Name: "peer", ContainerPort: PeerPort, Protocol: corev1.ProtocolTCP}},
		// There is no liveness probe: a member that is defragmented answers nobody, and must not be killed for that.
		ReadinessProbe: resources.Probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Host: "127.0.0.1", Path: "/readyz", Port: intstr.FromInt32(MetricsPort)}}, 5, 3),
	}
	pod := corev1.PodSpec{ServiceAccountName: resources.SatelliteName, HostNetwork: true, SecurityContext: ofHost(),
		DNSPolicy: corev1.DNSClusterFirstWithHostNet, InitContainers: []corev1.Container{take},
		Containers: []corev1.Container{etcd}, TerminationGracePeriodSeconds: ptr.To[int64](30)}
	pod.Volumes = append(pod.Volumes, s.directory(), corev1.Volume{Name: "work",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "order", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: Orders},
			Items: []corev1.KeyToPath{{Key: node, Path: path.Base(pods.Order)}}}}})
	ds := resources.MemberDaemonSet(p, Component, pods.DaemonSet(c.Name), pod)
	ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	ds.Spec.Template.Spec.NodeSelector = map[string]string{pods.Label: c.Name}
	for _, labels := range []map[string]string{ds.Labels, ds.Spec.Selector.MatchLabels, ds.Spec.Template.Labels} {
		labels[pods.Member] = c.Name // DaemonSets of one component must not take each other's pods for theirs
	}
	resources.StampTemplate(ds)
	maps.Copy(ds.Spec.Template.Annotations, pods.Annotations(c.Template()))
	return ds
}

// ofHost lets pods use a directory of the host where SELinux keeps containers from it.
func ofHost() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}
}

func (s Site) directory() corev1.Volume {
	return corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
		Path: s.Directory, Type: ptr.To(corev1.HostPathDirectoryOrCreate)}}}
}

func sized(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory)}}
}

// Revision is a fingerprint of all that members run with besides their configurations. The operator's own image is no
// part of it: a newer guard is taken with the next pod, and no member is restarted for it.
func Revision(p resources.Params, s Site) string {
	s.Guard, s.Image = "", ""
	c := seats.Configuration{Expectation: datadir.Expectation{Name: "n-1", Token: "t", Mode: datadir.Resume}}
	c.PeerURL, c.ClientURL = URLs("192.0.2.1")
	c.Version = "3.6.14"
	file, err := File(c)
	if err != nil {
		panic(fmt.Sprintf("write an example configuration file: %v", err)) // a test writes the same
	}
	return text.Digest([]any{DaemonSet(p, s, "n", c).Spec.Template, file})[:10]
}

// File is the configuration file of etcd itself.
func File(c seats.Configuration) (string, error) {
	peers := configfile.Peers(c.Peers)
	if len(peers) == 0 { // it has data, and does not read them
		peers = []configfile.Peer{{Name: c.Name, URL: c.PeerURL}}
	}
	file, err := configfile.Write(configfile.Settings{Name: c.Name, DataDir: pods.Data, PeerURL: c.PeerURL,
		ClientURL: c.ClientURL, MetricsURL: url("127.0.0.1", MetricsPort), Token: c.Token, Peers: peers,
		New: c.Mode == datadir.Seed, Version: c.Version})
	return string(file), err
}

// Order is what a node's key has.
func Order(c seats.Configuration) (string, error) {
	file, err := File(c)
	if err != nil {
		return "", err
	}
	order, err := json.Marshal(guard.Order{Configuration: c, File: file})
	return string(order), err
}

// ParseOrder reads a node's key.
func ParseOrder(order string) (c seats.Configuration, err error) {
	var o guard.Order
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return c, fmt.Errorf("parse the etcd member configuration of a node: %w", err)
	}
	return o.Configuration, nil
}

// ConfigMap is one of these two, as it shall be after that version; "" for one that is not there.
func ConfigMap(p resources.Params, name, version string, data map[string]string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: resources.ObjectMeta(p, name, Component), Data: data}
	cm.ResourceVersion = version
	return cm
}

// SurveyOf is the DaemonSet whose pods look into the data directories of all nodes with Linux, again and again: a
// container that has ended is started anew, within five minutes. It names no node, so that nodes that come later leave
// its template, and with it the pods that have looked already, as they are.
func SurveyOf(p resources.Params, s Site) *appsv1.DaemonSet {
	look := corev1.Container{Name: Look, Args: []string{pods.FlagLook, pods.Data}, Resources: sized("10m", "32Mi"),
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: pods.Host, ReadOnly: true}}}
	ds := resources.MemberDaemonSet(p, SurveyComponent, Survey, s.asRoot(look, 1))
	// A node that has had a member may have left the cluster since.
	ds.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: string(corev1.Linux)}
	resources.StampTemplate(ds)
	return ds
}

// SnapshotOf is the DaemonSet whose pod takes a snapshot from the member at an endpoint, on the member's node and on
// its network, where no policy is between the two. A container that has ended is started anew, and finds what it has
// taken; one that has failed tries again.
func SnapshotOf(p resources.Params, s Site, of seats.Snapshot, endpoint string) *appsv1.DaemonSet {
	config, err := json.Marshal(snapshot.Config{ID: of.ID, Endpoint: endpoint, ClusterID: of.ClusterID.String()})
	if err != nil {
		panic(fmt.Sprintf("encode the snapshot configuration: %v", err)) // they always can
	}
	save := corev1.Container{Name: Save, Args: []string{pods.FlagSave, string(config)}, Resources: sized("10m", "64Mi"),
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: pods.Host}}}
	pod := s.asRoot(save, 10)
	pod.HostNetwork, pod.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet
	ds := resources.MemberDaemonSet(p, SnapshotComponent, Snapshot, pod)
	ds.Spec.Template.Spec.NodeSelector = map[string]string{pods.Label: of.Member}
	resources.StampTemplate(ds)
	return ds
}

// asRoot is a pod in which a container runs the operator's program on a node's data directory, which only root reads.
func (s Site) asRoot(c corev1.Container, grace int64) corev1.PodSpec {
	user := resources.Restricted()
	user.RunAsUser, user.RunAsNonRoot = ptr.To[int64](0), ptr.To(false)
	c.Image, c.ImagePullPolicy, c.SecurityContext = s.Guard, corev1.PullIfNotPresent, user
	return corev1.PodSpec{ServiceAccountName: resources.SatelliteName, TerminationGracePeriodSeconds: &grace,
		SecurityContext: ofHost(), Containers: []corev1.Container{c}, Volumes: []corev1.Volume{s.directory()}}
}

// NodeOf is the node that a member's DaemonSet is for.
func NodeOf(ds *appsv1.DaemonSet) string {
	for _, v := range ds.Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil && v.ConfigMap.Name == Orders && len(v.ConfigMap.Items) > 0 {
			return v.ConfigMap.Items[0].Key
		}
	}
	return ""
}
