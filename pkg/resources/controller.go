package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

const (
	// passphraseKey is the key of the passphrase in its Secret, and the environment variable that LINSTOR reads it from.
	passphraseKey = "MASTER_PASSPHRASE"

	// controllerUser and group run the controller: LINSTOR's image is made for the group 1000 (its log directory belongs to
	// it). That the database migration works without root is not verified; it writes to /run/migration only.
	controllerUser = 1000

	// evictAfter is how long, in seconds, the controller stays on a node that does not answer. Kubernetes' default of five
	// minutes is long for the only controller.
	evictAfter = 30
)

// Controller is the Deployment that runs the LINSTOR controller. configHash changes with the configuration and restarts
// the pod.
//
// One replica with the strategy Recreate is not "at most one": a pod on a node that was cut off goes on running while its
// successor starts, and two controllers on one database corrupt it. So every container that opens the database, the
// migration included, first takes one and the same Lease; the image's entry point does that (k8s-await-election).
func Controller(p Params, configHash string) *appsv1.Deployment {
	template := metav1.ObjectMeta{
		Labels: labels(p.Cluster, v1alpha1.ComponentController),
		Annotations: map[string]string{
			AnnotationConfigHash:                      configHash,
			"kubectl.kubernetes.io/default-container": ControllerContainer,
		},
	}
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: objectMeta(ControllerName, p.Cluster, v1alpha1.ComponentController),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: selector(p.Cluster, v1alpha1.ComponentController)},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: template,
				Spec: corev1.PodSpec{
					ServiceAccountName: ControllerName,
					EnableServiceLinks: ptr.To(false),
					PriorityClassName:  "system-cluster-critical",
					ImagePullSecrets:   p.pullSecrets(),
					NodeSelector:       map[string]string{corev1.LabelOSStable: "linux"},
					Tolerations:        controllerTolerations(p.Spec.Nodes.Tolerations),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot:   ptr.To(true),
						RunAsUser:      ptr.To(int64(controllerUser)),
						RunAsGroup:     ptr.To(int64(controllerUser)),
						FSGroup:        ptr.To(int64(controllerUser)),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					InitContainers: []corev1.Container{migrationContainer(p)},
					Containers:     []corev1.Container{controllerContainer(p)},
					Volumes: []corev1.Volume{
						configVolume(p), emptyDir("log"), emptyDir("state"), emptyDir("migration"), emptyDir("tmp"),
					},
				},
			},
		},
	}
	stamp(d, d.Spec)
	return d
}

// controllerTolerations are those of a controller that moves away soon from a node that does not answer, and that can run
// where the cluster's nodes are.
func controllerTolerations(nodes []v1alpha1.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		out = append(out, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(int64(evictAfter)),
		})
	}
	for i := range nodes {
		out = append(out, corev1.Toleration(*nodes[i].DeepCopy()))
	}
	return out
}

// migrationContainer brings the database's schema to the version of its image, after a backup of it into Secrets.
func migrationContainer(p Params) corev1.Container {
	c := databaseContainer(p, MigrationContainer, "runMigration")
	c.VolumeMounts = append(c.VolumeMounts, mount("migration", "/run/migration"))
	return c
}

func controllerContainer(p Params) corev1.Container {
	c := databaseContainer(p, ControllerContainer, "startController")
	if name := p.Spec.Controller.PassphraseSecret; name != "" {
		c.Env = append(c.Env, corev1.EnvVar{Name: passphraseKey, ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: passphraseKey},
		}})
	}
	c.Ports = []corev1.ContainerPort{{Name: "api", ContainerPort: ControllerPort, Protocol: corev1.ProtocolTCP}}
	amounts := p.Spec.Controller.Resources.DeepCopy()
	c.Resources.Requests, c.Resources.Limits = corev1.ResourceList(amounts.Requests), corev1.ResourceList(amounts.Limits)
	// LINSTOR loads its whole database at start, which can take many minutes, and a start that is cut short begins anew.
	c.StartupProbe = healthProbe(2, 900)
	c.ReadinessProbe = healthProbe(5, 3)
	c.LivenessProbe = healthProbe(10, 6)
	return c
}

// databaseContainer is what the two containers that open the database have in common.
func databaseContainer(p Params, name, program string) corev1.Container {
	return corev1.Container{
		Name:  name,
		Image: p.image(p.Release.Controller),
		Args:  []string{program},
		Env: []corev1.EnvVar{
			{Name: "JAVA_OPTS", Value: javaOptions},
			{Name: "HOME", Value: "/tmp"}, // kubectl, which makes the backup, keeps its cache there
			{Name: "K8S_AWAIT_ELECTION_ENABLED", Value: "1"},
			{Name: "K8S_AWAIT_ELECTION_NAME", Value: ControllerName},
			{Name: "K8S_AWAIT_ELECTION_LOCK_NAME", Value: ControllerLease},
			{Name: "K8S_AWAIT_ELECTION_LOCK_NAMESPACE", Value: v1alpha1.WorkloadNamespace},
			envFromField("K8S_AWAIT_ELECTION_IDENTITY", "metadata.name"),
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{
			mountReadOnly("linstor-config", "/etc/linstor"),
			mount("log", "/var/log/linstor-controller"),
			mount("state", "/var/lib/linstor"), // exports of the database
			mount("tmp", "/tmp"),
		},
		// LINSTOR says on its output why it exits: a migration that failed, a database that does not answer, a wrong
		// passphrase.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// healthProbe asks LINSTOR's /health every period seconds, and gives up after that many failures.
func healthProbe(period, failures int32) *corev1.Probe {
	return probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromString("api")}}, period, failures)
}

// ControllerService is where LINSTOR's API is reached in the cluster.
func ControllerService(p Params) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: objectMeta(ControllerName, p.Cluster, v1alpha1.ComponentController),
		Spec: corev1.ServiceSpec{
			Type:           corev1.ServiceTypeClusterIP,
			IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyPreferDualStack),
			Selector:       selector(p.Cluster, v1alpha1.ComponentController),
			Ports: []corev1.ServicePort{{
				Name: "api", Port: ControllerPort, TargetPort: intstr.FromString("api"), Protocol: corev1.ProtocolTCP,
			}},
		},
	}
	stamp(s, s.Spec)
	return s
}
