// Package highavailability builds the DaemonSet of LINSTOR's high-availability controller.
package highavailability

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const (
	// Name is the DaemonSet and its ServiceAccount.
	Name = "linstor-ha-controller"
	// Container is the one of the pods.
	Container = "ha-controller"
	// healthPort is the controller's own default.
	healthPort = 8000
)

// DaemonSet runs the high-availability controller on all members. It asks the kernel about DRBD itself, and Kubernetes
// about pods and volumes, never LINSTOR. Its settings are its defaults; probes and privileges are those of
// piraeus-operator 2.11 (pkg/resources/cluster/ha-controller).
//
// It reads the names of DRBD's connections as names of Nodes, or of pods with the given label
// (piraeus-ha-controller 1.3, pkg/agent/agent.go). Connections have the names that nodes have in LINSTOR, which are
// those of the Nodes on either network: satellites are made with LB_FORCE_NODE_NAME.
func DaemonSet(p resources.Params) *appsv1.DaemonSet {
	health := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: "/healthz", Port: intstr.FromInt32(healthPort), Scheme: corev1.URISchemeHTTP}}
	ds := resources.MemberDaemonSet(p, v1alpha1.ComponentHighAvailability, Name, corev1.PodSpec{
		ServiceAccountName: Name,
		Containers: []corev1.Container{{
			Name:  Container,
			Image: p.Image(p.Release.HighAvailability),
			Args: []string{"/agent", "--v=1", fmt.Sprintf("--health-bind-address=:%d", healthPort),
				"--satellite-pod-label=" + satelliteLabels(p.Cluster)},
			Env:             []corev1.EnvVar{resources.EnvFromField("NODE_NAME", "spec.nodeName")},
			SecurityContext: resources.Privileged(), // drbdsetup speaks to the kernel
			// It fills its view of pods and nodes first, which takes a while in a large cluster.
			StartupProbe:             resources.Probe(health, 5, 60),
			LivenessProbe:            resources.Probe(health, 10, 5),
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
	})
	ds.Spec.Template.Spec.AutomountServiceAccountToken = ptr.To(true)
	resources.StampTemplate(ds)
	return ds
}

// satelliteLabels is the selector of the satellites' pods.
func satelliteLabels(cluster string) string {
	want := []string{v1alpha1.LabelCluster + "=" + cluster, v1alpha1.LabelComponent + "=" + v1alpha1.ComponentSatellite}
	slices.Sort(want)
	return strings.Join(want, ",")
}
