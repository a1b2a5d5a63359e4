// Package affinity builds the Deployment of LINSTOR's affinity controller.
package affinity

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
)

const (
	// Name is the Deployment, its ServiceAccount and the Lease of the one that works.
	Name = "linstor-affinity-controller"
	// Container is the one of the pod.
	Container = "affinity-controller"
	// healthPort is the controller's own default.
	healthPort = 8000
)

// Deployment runs the affinity controller, in one pod or, while LINSTOR's database is in doubt, in none: it writes
// into PersistentVolumes what LINSTOR says of the copies' nodes. Its settings are its defaults, but for the prefix of
// topology properties, which is that of the CSI driver (piraeus-operator 2.11,
// pkg/resources/cluster/affinity-controller).
func Deployment(p resources.Params, running bool) *appsv1.Deployment {
	health := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: "/healthz", Port: intstr.FromInt32(healthPort), Scheme: corev1.URISchemeHTTP}}
	ready := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: "/readyz", Port: intstr.FromInt32(healthPort), Scheme: corev1.URISchemeHTTP}}
	return resources.WorkloadDeployment(p, v1alpha1.ComponentAffinity, Name, running, corev1.PodSpec{
		Containers: []corev1.Container{{
			Name:  Container,
			Image: p.Image(p.Release.Affinity),
			Args: []string{"/linstor-affinity-controller", "--v=1", "--leader-election=true",
				"--property-namespace=Aux/topology", fmt.Sprintf("--bind-address=:%d", healthPort)},
			Env: append(p.Linstor(apitls.Affinity),
				corev1.EnvVar{Name: "LEASE_LOCK_NAME", Value: Name},
				resources.EnvFromField("LEASE_HOLDER_IDENTITY", "metadata.name"),
				resources.EnvFromField("POD_NAMESPACE", "metadata.namespace"),
			),
			SecurityContext:          resources.Restricted(),
			StartupProbe:             resources.Probe(health, 10, 30),
			ReadinessProbe:           resources.Probe(ready, 5, 3),
			LivenessProbe:            resources.Probe(health, 10, 5),
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
	}, apitls.Affinity)
}
