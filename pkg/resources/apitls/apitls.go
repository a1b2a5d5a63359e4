// Package apitls builds what locks LINSTOR's REST API in the objects of its controller and of its clients: the
// configuration, the stores and the port of the one, the address and the certificate of the others.
//
// LINSTOR cannot do without plain HTTP: with [http] enabled = false there is no REST API at all. So plain HTTP listens
// where nobody but the controller's own pod can reach it (linstor-server 1.34, GrizzlyHttpService; run with
// 1.34.0-rc.1). With a trust store every path of the HTTPS port wants a client's certificate, /health and /metrics
// included, and any certificate of an authority in it is an administrator's.
package apitls

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/javastore"
)

const (
	// Port is where LINSTOR serves its REST API over TLS.
	Port = 3371
	// PortName is its name in the controller's pod and Service.
	PortName = "api-tls"
	// Annotation of a pod says with which certificate and bundle it was started: the hashes of both, with a dot between.
	// A change of it restarts the pods. Labels and annotations of the Secret have no part in it.
	Annotation = v1alpha1.Prefix + "api-certificates"

	volume    = "api-tls"
	directory = "/etc/linstor-api"
	loopback  = "127.0.0.1"
)

// Part is a part of LINSTOR that has a certificate of its own, which is named like it.
type Part string

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

// Parts are all of them, in an order that stays the same.
func Parts() []Part {
	return []Part{Controller, Operator, Driver, DriverNode, Affinity, Metrics, Backup}
}

// Secret is the one that holds the part's certificate, its key and whom it trusts, and nothing of any other.
func (p Part) Secret() string { return string(p) + "-api-tls" }

const (
	// AuthoritySecret holds the authorities and the key of the one that signs. Nothing mounts it.
	AuthoritySecret = "linstor-api-authority" //nolint:gosec // the name of a Secret
	// Component is the component of all these Secrets, in their label.
	Component = "certificates"
)

// Secrets are those of all parts, behind that of the authorities.
func Secrets() []string {
	out := []string{AuthoritySecret}
	for _, part := range Parts() {
		out = append(out, part.Secret())
	}
	return out
}

// Access is what one part of LINSTOR is given to take part in the locked API. The zero Access is none: the API is
// plain.
type Access struct {
	// Secret holds certificate, key and bundle.
	Secret string
	// Leaf and Trust are their hashes.
	Leaf, Trust string
}

// Locked reports whether the API is locked.
func (a Access) Locked() bool { return a.Secret != "" }

// Is is what a pod that was started with it says in its annotation.
func (a Access) Is() string { return a.Leaf + "." + a.Trust }

const (
	markerPrefix = "made."
	// mostMarkers bounds how many certificates and bundles of before a Secret names. A certificate is made anew every 60
	// days, and each makes its pods anew.
	mostMarkers = 8
)

// marker is the entry of the Secret which says that it has that certificate and bundle, or later ones. A kubelet may
// have an older copy of the Secret, and would start a pod on that: the pod would run with something else than its
// annotation says until the next renewal. A pod that refers to an entry that is not in the copy waits for a newer one.
func (a Access) marker() string { return markerPrefix + a.Is() }

// Markers are these entries for a Secret that gets this certificate and bundle, with those that it has: the container
// of an older pod that is started anew must find its own. Each entry is a number, by which the oldest go.
func (a Access) Markers(before map[string][]byte) map[string][]byte {
	numbers := map[string]int{}
	last := 0
	for entry, value := range before {
		if n, err := strconv.Atoi(string(value)); err == nil && n > 0 && strings.HasPrefix(entry, markerPrefix) {
			numbers[entry] = n
			last = max(last, n)
		}
	}
	if numbers[a.marker()] == 0 {
		numbers[a.marker()] = last + 1
	}
	newest := slices.SortedFunc(maps.Keys(numbers), func(x, y string) int {
		return cmp.Or(cmp.Compare(numbers[y], numbers[x]), cmp.Compare(x, y))
	})
	out := map[string][]byte{}
	for i, entry := range newest {
		if i < mostMarkers || entry == a.marker() {
			out[entry] = []byte(strconv.Itoa(numbers[entry]))
		}
	}
	return out
}

// Of reads the annotation of a pod. ok is false for a pod without one, or one that nobody can read.
func Of(annotations map[string]string) (leaf, trust string, ok bool) {
	leaf, trust, ok = strings.Cut(annotations[Annotation], ".")
	return leaf, trust, ok && leaf != "" && trust != ""
}

// Annotate gives a pod's template the annotation, if the API is locked.
func (a Access) Annotate(annotations map[string]string) map[string]string {
	if !a.Locked() {
		return annotations
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[Annotation] = a.Is()
	return annotations
}

// URL is where LINSTOR is found at a host. It is one of both, never both: a client that comes to the plain port of a
// LINSTOR that is locked is sent elsewhere, and golinstor turns a write into a read there that looks like success.
func (a Access) URL(host string, plainPort int) string {
	if a.Locked() {
		return fmt.Sprintf("https://%s:%d", host, Port)
	}
	return fmt.Sprintf("http://%s:%d", host, plainPort)
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
	items := []corev1.KeyToPath{{Key: a.marker(), Path: "made"}}
	for _, entry := range entries {
		items = append(items, corev1.KeyToPath{Key: entry, Path: entry})
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: a.Secret, Items: items}}})
	container.VolumeMounts = append(container.VolumeMounts,
		corev1.VolumeMount{Name: volume, MountPath: directory, ReadOnly: true})
}

// Client is the environment in which golinstor, the client of LINBIT's programs, finds LINSTOR at a host, and its own
// certificate. A program reads it once, when its container starts: what it runs with is what its pod was made with,
// or what the Secret had when the container was started anew (golinstor 0.61, client.NewClient).
func (a Access) Client(host string, plainPort int) []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: "LS_CONTROLLERS", Value: a.URL(host, plainPort)}}
	if !a.Locked() {
		return env
	}
	for _, v := range [][2]string{{"LS_ROOT_CA", certificates.EntryTrust},
		{"LS_USER_CERTIFICATE", certificates.EntryCertificate}, {"LS_USER_KEY", certificates.EntryKey},
		{"LINSTOR_CERTIFICATES_MADE", a.marker()}} {
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

// Lock gives the controller's pod its stores. The kubelet cannot show a certificate, so it only finds out whether
// somebody listens: LINSTOR listens with stores that it cannot read as well, and says /health on the plain port
// whatever becomes of TLS. Whether the API answers is seen by whoever has a certificate.
func (a Access) Lock(pod *corev1.PodSpec, container *corev1.Container) {
	if !a.Locked() {
		return
	}
	a.mount(pod, container, certificates.EntryTrust, certificates.EntryCertificate, certificates.EntryKey,
		javastore.EntryKeyStore, javastore.EntryTrustStore)
	container.Ports = []corev1.ContainerPort{{Name: PortName, ContainerPort: Port, Protocol: corev1.ProtocolTCP}}
	for _, p := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
		p.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(PortName)}}
	}
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
