// Package apitls builds what locks LINSTOR's REST API in the objects of its controller and of its clients: the
// configuration, the stores and the port of the one, the address and the certificate of the others.
//
// LINSTOR cannot do without plain HTTP: with [http] enabled = false there is no REST API at all. So plain HTTP listens
// where nobody but the controller's own pod can reach it (linstor-server 1.34, GrizzlyHttpService; run with
// 1.34.0-rc.1). With a trust store every path of the HTTPS port wants a client's certificate, /health and /metrics
// included, and any certificate of an authority in it is an administrator's.
package apitls

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/javastore"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

const (
	// Port is where LINSTOR serves its REST API over TLS.
	Port = 3371
	// PortName is its name in the controller's pod and Service.
	PortName = "api-tls"

	volume    = "api-tls"
	directory = "/etc/linstor-api"
	loopback  = "127.0.0.1"
	plainPort = 3370
)

// Part is a part of LINSTOR that takes part in the API.
type Part = tlssecret.Part

// The parts. LINSTOR's high-availability controller is none of them: it never speaks to LINSTOR.
const (
	Controller Part = "linstor-controller"
	Operator   Part = "linstor-operator"
	// Driver is the CSI driver's controller, DriverNode its part on each node.
	Driver     Part = "linstor-csi-controller"
	DriverNode Part = "linstor-csi-node"
	Affinity   Part = "linstor-affinity-controller"
	// Metrics is Prometheus, as it scrapes LINSTOR.
	Metrics Part = "linstor-metrics"
	// Backup is a pod that takes a backup.
	Backup Part = "linstor-backup"
)

// Kind is the kind of these connections.
var Kind = tlssecret.Kind{Authority: "linstor-api", Annotation: v1alpha1.Prefix + "api-certificates",
	Suffix: "-api-tls", Parts: []Part{Controller, Operator, Driver, DriverNode, Affinity, Metrics, Backup}}

// Access is what one part of LINSTOR is given to take part in the locked API. The zero Access is none: the API is
// plain.
type Access struct{ tlssecret.Ref }

// Annotate gives a pod's template the annotation, if the API is locked.
func (a Access) Annotate(annotations map[string]string) map[string]string {
	return Kind.Annotate(a.Ref, annotations)
}

// URL is where LINSTOR is found at a host. It is one of both, never both: a client that comes to the plain port of a
// LINSTOR that is locked is sent elsewhere, and golinstor turns a write into a read there that looks like success.
func (a Access) URL(host string, plain int) string {
	if a.Locked() {
		return fmt.Sprintf("https://%s:%d", host, Port)
	}
	return fmt.Sprintf("http://%s:%d", host, plain)
}

// Directory is where Mount puts the Secret; "" if the API is not locked.
func (a Access) Directory() string {
	if a.Locked() {
		return directory
	}
	return ""
}

// Mount gives a container the files of the Secret.
func (a Access) Mount(pod *corev1.PodSpec, container *corev1.Container) {
	a.mount(pod, container, certificates.EntryTrust, certificates.EntryCertificate, certificates.EntryKey)
}

func (a Access) mount(pod *corev1.PodSpec, container *corev1.Container, entries ...string) {
	if !a.Locked() {
		return
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: a.Secret, Items: a.Items(entries...)}}})
	container.VolumeMounts = append(container.VolumeMounts,
		corev1.VolumeMount{Name: volume, MountPath: directory, ReadOnly: true})
}

// Client is the environment in which golinstor, the client of LINBIT's programs, finds LINSTOR at a host, and its own
// certificate. A program reads it once, when its container starts: what it runs with is what its pod was made with,
// or what the Secret had when the container was started anew (golinstor 0.61, client.NewClient).
func (a Access) Client(host string, plain int) []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: "LS_CONTROLLERS", Value: a.URL(host, plain)}}
	if !a.Locked() {
		return env
	}
	for _, v := range [][2]string{{"LS_ROOT_CA", certificates.EntryTrust},
		{"LS_USER_CERTIFICATE", certificates.EntryCertificate}, {"LS_USER_KEY", certificates.EntryKey},
		{"LINSTOR_CERTIFICATES_MADE", a.Marker()}} {
		env = append(env, corev1.EnvVar{Name: v[0], ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: a.Secret}, Key: v[1]}}})
	}
	return env
}

type (
	// HTTP is that section of linstor.toml; nil where LINSTOR's defaults hold.
	HTTP struct {
		ListenAddr string `toml:"listen_addr"`
	}
	// HTTPS is that section; nil where LINSTOR serves no TLS.
	HTTPS struct {
		Port               int    `toml:"port"`
		Keystore           string `toml:"keystore"`
		KeystorePassword   string `toml:"keystore_password"`
		Truststore         string `toml:"truststore"`
		TruststorePassword string `toml:"truststore_password"`
	}
)

// Sections are those of the controller's configuration.
func (a Access) Sections() (*HTTP, *HTTPS) {
	if !a.Locked() {
		return nil, nil
	}
	return &HTTP{ListenAddr: loopback}, &HTTPS{Port: Port,
		Keystore: directory + "/" + javastore.EntryKeyStore, KeystorePassword: javastore.Password,
		Truststore: directory + "/" + javastore.EntryTrustStore, TruststorePassword: javastore.Password}
}

// ClientConfig are the files in /etc/linstor of the controller's pod by which the program linstor finds a locked API
// and its certificate without options: every page about LINSTOR has a human run it there. (The client of LINSTOR reads
// the section global of /etc/linstor/linstor-client.conf.)
func (a Access) ClientConfig() map[string]string {
	if !a.Locked() {
		return map[string]string{}
	}
	return map[string]string{"linstor-client.conf": fmt.Sprintf("[global]\ncontrollers = linstor+ssl://localhost:%d\n"+
		"cafile = %[2]s/%[3]s\ncertfile = %[2]s/%[4]s\nkeyfile = %[2]s/%[5]s\n", Port, directory, certificates.EntryTrust,
		certificates.EntryCertificate, certificates.EntryKey)}
}

// health gets /health from within the pod, where plain HTTP listens, by means that the shell has: no image needs to
// have curl. One without bash is taken for healthy, since what cannot be asked must not be killed.
var health = fmt.Sprintf(`command -v bash >/dev/null || exit 0
exec bash -c 'exec 3<>/dev/tcp/%s/%d && printf "GET /health HTTP/1.0\r\n\r\n" >&3 && read -r _ status _ <&3 &&
  [ "$status" = 200 ]'
`, loopback, plainPort)

// Lock gives the controller's pod its stores. The kubelet cannot show a certificate, so it finds out by itself only
// whether somebody listens, and from within the pod whether LINSTOR is alive: it says /health on the plain port
// whatever becomes of TLS, and listens with stores that it cannot read as well. Whether the API answers is seen by
// whoever has a certificate.
func (a Access) Lock(pod *corev1.PodSpec, container *corev1.Container) {
	if !a.Locked() {
		return
	}
	a.mount(pod, container, certificates.EntryTrust, certificates.EntryCertificate, certificates.EntryKey,
		javastore.EntryKeyStore, javastore.EntryTrustStore)
	container.Ports = []corev1.ContainerPort{{Name: PortName, ContainerPort: Port, Protocol: corev1.ProtocolTCP}}
	for _, p := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe} {
		p.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(PortName)}}
	}
	container.LivenessProbe.ProbeHandler = corev1.ProbeHandler{
		Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", health}}}
}

// ServicePort is that of the controller's Service.
func ServicePort() corev1.ServicePort {
	return corev1.ServicePort{Name: PortName, Port: Port, TargetPort: intstr.FromString(PortName),
		Protocol: corev1.ProtocolTCP}
}

// Scrape is how Prometheus reads LINSTOR's metrics, as the fields of an endpoint of a ServiceMonitor. There is no way
// to give it less than an administrator's certificate.
func (a Access) Scrape(host string) map[string]any {
	if !a.Locked() {
		return map[string]any{"port": "api"}
	}
	from := func(entry string) map[string]any { return map[string]any{"name": a.Secret, "key": entry} }
	return map[string]any{"port": PortName, "scheme": "https", "tlsConfig": map[string]any{
		"serverName": host, "ca": map[string]any{"secret": from(certificates.EntryTrust)},
		"cert":      map[string]any{"secret": from(certificates.EntryCertificate)},
		"keySecret": from(certificates.EntryKey)}}
}
