package resources

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/memory"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

const (
	// PassphraseKey is the key of the passphrase in its Secret, and the environment variable that LINSTOR reads it from.
	PassphraseKey = "MASTER_PASSPHRASE"
)

// Controller is the Deployment that runs the LINSTOR controller. configHash changes with the configuration and
// restarts the pod.
//
// No strategy of a Deployment means "at most one": a pod on a node that was cut off goes on running while its
// successor starts, and two controllers on one database corrupt it. So every container that opens the database, the
// migration included, first takes one and the same Lease; the image's entry point does that (k8s-await-election). As
// the Lease sees to that, the strategy need not: Recreate would stop the running controller and then wait for every
// pod that still ends (Kubernetes 1.36, pkg/controller/deployment/recreate.go, oldPodsRunning), for ever if one of
// them is on a node that died.
//
// As made here the running pod is stopped first, and nothing waits for its end. KeepController is the other way.
func Controller(p Params, configHash string) *appsv1.Deployment {
	template := metav1.ObjectMeta{
		Labels: labels(p.Cluster, v1alpha1.ComponentController),
		Annotations: map[string]string{
			AnnotationConfigHash:                      configHash,
			"kubectl.kubernetes.io/default-container": ControllerContainer,
		},
	}
	pod := deploymentPod(p, ControllerName)
	pod.InitContainers = []corev1.Container{migrationContainer(p)}
	pod.Containers = []corev1.Container{controllerContainer(p)}
	pod.Volumes = []corev1.Volume{
		ConfigVolume(p), emptyDir("log"), emptyDir("state"), emptyDir("migration"), emptyDir("tmp"),
	}
	p.API[apitls.Controller].Lock(&pod, &pod.Containers[0])
	p.Netcom.LockController(&pod.Volumes[0])
	template.Annotations = netcomtls.Kind.Annotate(p.Netcom.Controller,
		p.API[apitls.Controller].Annotate(template.Annotations))
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: objectMeta(ControllerName, p.Cluster, v1alpha1.ComponentController),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: selector(p.Cluster, v1alpha1.ComponentController)},
			Strategy: rolling(0, 1),
			Template: corev1.PodTemplateSpec{ObjectMeta: template, Spec: pod},
		},
	}
	d.Spec.Template.Annotations[AnnotationTemplateHash] = text.Digest(d.Spec.Template)
	stamp(d, d.Spec)
	return d
}

// KeepController makes a Deployment of Controller keep the running pod until a new one is ready. None ever is: it
// waits for the Lease that the running one holds. So whoever keeps the pod must let go of it once the new one needs
// nothing but the Lease.
func KeepController(d *appsv1.Deployment) {
	d.Spec.Strategy = rolling(1, 0)
	stamp(d, d.Spec)
}

func rolling(surge, unavailable int32) appsv1.DeploymentStrategy {
	return appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: ptr.To(intstr.FromInt32(surge)), MaxUnavailable: ptr.To(intstr.FromInt32(unavailable)),
		},
	}
}

// migrationContainer brings the database's schema to the version of its image, after a backup of it into Secrets.
func migrationContainer(p Params) corev1.Container {
	c := DatabaseContainer(p, MigrationContainer, "runMigration")
	fitMemory(&c, memory.Controller, &p.Spec.Controller.Resources) // it loads the same database
	c.VolumeMounts = append(c.VolumeMounts, mount("migration", "/run/migration"))
	return c
}

func controllerContainer(p Params) corev1.Container {
	c := DatabaseContainer(p, ControllerContainer, "startController")
	if name := p.Spec.Controller.PassphraseSecret; name != "" {
		c.Env = append(c.Env, corev1.EnvVar{Name: PassphraseKey, ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: PassphraseKey,
			},
		}})
	}
	c.Ports = []corev1.ContainerPort{{Name: "api", ContainerPort: ControllerPort, Protocol: corev1.ProtocolTCP}}
	fitMemory(&c, memory.Controller, &p.Spec.Controller.Resources)
	// LINSTOR loads its whole database at start, which can take many minutes, and a start that is cut short begins anew.
	c.StartupProbe = healthProbe(2, 900)
	c.ReadinessProbe = healthProbe(5, 3)
	c.LivenessProbe = healthProbe(10, 6)
	return c
}

// fitMemory gives a container of one of LINSTOR's programs the resources of the spec, and Java a heap that fits them.
func fitMemory(c *corev1.Container, program memory.Program, of *v1alpha1.Resources) {
	c.Resources = program.Requirements(of)
	for i := range c.Env {
		if e := &c.Env[i]; e.Name == "JAVA_OPTS" {
			e.Value = strings.TrimSpace(e.Value + " " + memory.JavaOptions(c.Resources))
		}
	}
}

// DatabaseContainer is what the two containers that open the database have in common.
func DatabaseContainer(p Params, name, program string) corev1.Container {
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
			EnvFromField("K8S_AWAIT_ELECTION_IDENTITY", "metadata.name"),
		},
		SecurityContext: Restricted(),
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

// healthProbe gets LINSTOR's /health every period seconds, and gives up after that many failures.
func healthProbe(period, failures int32) *corev1.Probe {
	get := &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromString("api")}
	return Probe(corev1.ProbeHandler{HTTPGet: get}, period, failures)
}

// ControllerService is where LINSTOR's API is reached in the cluster. Both ports are there while either kind of pod
// is: a pod has one of them, and the other leads nowhere.
func ControllerService(p Params, locked bool) *corev1.Service {
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
	if locked || p.API != nil {
		s.Spec.Ports = append(s.Spec.Ports, apitls.ServicePort())
	}
	stamp(s, s.Spec)
	return s
}

// controllerConfigKey is the file that LINSTOR reads in /etc/linstor.
const controllerConfigKey = "linstor.toml"

// ControllerConfig is the object with linstor.toml: a ConfigMap, or a Secret of the same name if the database needs
// credentials, because LINSTOR reads them from no other place.
func ControllerConfig(p Params, db connection.Settings) client.Object {
	// What differs from LINSTOR's defaults. A real encoder writes it: a password may hold quotes, and must not become
	// configuration.
	var config bytes.Buffer
	e := toml.NewEncoder(&config)
	e.Indent = ""
	http, https := p.API[apitls.Controller].Sections()
	if err := e.Encode(struct {
		DB    connection.Settings `toml:"db"`
		HTTP  *apitls.HTTP        `toml:"http"`
		HTTPS *apitls.HTTPS       `toml:"https"`
	}{db, http, https}); err != nil {
		panic(fmt.Sprintf("encode linstor.toml: %v", err)) // texts can always be encoded
	}
	files := p.API[apitls.Controller].ClientConfig()
	files[controllerConfigKey] = config.String()
	if connection.CredentialsSecret(&p.Spec.Database) != "" {
		data := map[string][]byte{}
		for name, text := range files {
			data[name] = []byte(text)
		}
		return &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: objectMeta(ControllerConfigName, p.Cluster, v1alpha1.ComponentController),
			Type:       corev1.SecretTypeOpaque,
			Data:       data,
		}
	}
	return configMap(p.Cluster, v1alpha1.ComponentController, ControllerConfigName, files)
}

// ConfigVolume is the volume with linstor.toml, from whatever ControllerConfig makes.
func ConfigVolume(p Params) corev1.Volume {
	v := corev1.Volume{Name: "linstor-config"}
	if connection.CredentialsSecret(&p.Spec.Database) != "" {
		v.Secret = &corev1.SecretVolumeSource{SecretName: ControllerConfigName}
	} else {
		v.ConfigMap = &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: ControllerConfigName},
		}
	}
	return v
}
