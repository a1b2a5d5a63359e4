// Package netcomtls builds what encrypts the connections between LINSTOR's controller and its satellites, which
// LINSTOR calls NetCom, in the pods of both.
//
// The controller connects to a satellite, by the port and the kind of connection that it has recorded for the node. A
// satellite listens on one port, plain or with TLS. With TLS each takes whoever shows a certificate of an authority in
// its trust store, and names are not checked: the authority is the whole trust (linstor-server 1.34,
// JclCryptoProvider; run with 1.34.0-rc.1). What a certificate is for is checked, so a satellite's is good for a
// server alone: whoever steals it is no controller of other satellites.
//
// What LINSTOR's API shows is no proof of TLS. A controller that had a key store once and lacks it at a later start
// speaks plain where it says SSL, and a satellite without a trust store takes the authorities of the Java runtime. So
// the files come from a Secret, and a kubelet that does not find one of them starts no container.
package netcomtls

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/javastore"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

const (
	// Port is where a satellite with TLS listens. It is not the plain one, so that no controller speaks plain to it, nor
	// with TLS to one that is plain.
	Port = 3367

	// Interface is the one of a LINSTOR node over which the operator has the controller connect to its satellite.
	Interface = "default"

	// PropDebugListener is the controller's property that opens a listener on port 3373 with the same stores, unless it
	// is false when the controller starts (linstor-server 1.34, ControllerNetComInitializer; run with 1.34.0-rc.1).
	// Nobody needs it.
	PropDebugListener = "NetCom/DebugSslConnector/Enabled"

	// AnnotationRestarts on the satellites' ConfigMap says how often LINSTOR's controller was restarted in vain because
	// it reached no satellite, and which pod the last restart ended.
	AnnotationRestarts = v1alpha1.Prefix + "controller-restarts"

	// EntryConfig is the entry of a satellite's Secret with its configuration: it is there exactly where the stores are.
	EntryConfig = "linstor_satellite.toml"
)

// The parts.
const (
	Controller tlssecret.Part = "linstor-controller"
	// Satellite is all satellites: LINSTOR treats their certificates alike, and revokes none.
	Satellite tlssecret.Part = "linstor-satellite"
)

// Kind is the kind of these connections.
var Kind = tlssecret.Kind{Authority: "linstor-netcom", Annotation: v1alpha1.Prefix + "netcom-certificates",
	Suffix: "-netcom-tls", Parts: []tlssecret.Part{Controller, Satellite}}

// satelliteDirectory is where a satellite's image looks for its configuration.
const satelliteDirectory = "/etc/linstor"

// satelliteConfig makes a satellite listen with TLS, and for nothing else. A satellite takes TLS 1.2 and 1.3 whatever
// ssl_protocol says, and does not start without it (linstor-server 1.34, SatelliteNetComInitializer; run with
// 1.34.0-rc.1): the controller chooses.
var satelliteConfig = fmt.Sprintf(`[netcom]
type = "ssl"
bind_address = "::0"
port = %d
server_certificate = %q
keystore_password = %[4]q
key_password = %[4]q
trusted_certificates = %[3]q
truststore_password = %[4]q
ssl_protocol = "TLSv1.2"
`, Port, satelliteDirectory+"/"+javastore.EntryKeyStore, satelliteDirectory+"/"+javastore.EntryTrustStore,
	javastore.Password)

// Data are the entries of a part's Secret beside certificate, stores and bundle.
func Data(part tlssecret.Part) map[string][]byte {
	if part != Satellite {
		return nil
	}
	return map[string][]byte{EntryConfig: []byte(satelliteConfig)}
}

// Connections are what controller and satellites are made with. The zero value makes plain connections.
type Connections struct{ Controller, Satellite tlssecret.Ref }

// SatellitePort is where satellites listen that are made with this, and plain where there is nothing.
func (c Connections) SatellitePort(plain int32) int32 {
	if c.Satellite.Locked() {
		return Port
	}
	return plain
}

// LockSatellite puts the configuration and the stores of a satellite in the place of a plain one's configuration.
func (c Connections) LockSatellite(config *corev1.Volume) {
	if !c.Satellite.Locked() {
		return
	}
	config.VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: c.Satellite.Secret,
		Items: c.Satellite.Items(EntryConfig, javastore.EntryKeyStore, javastore.EntryTrustStore)}}
}

// LockController puts the stores beside the controller's configuration, where LINSTOR looks for them by itself
// (linstor-server 1.34, ControllerNetComInitializer): nothing needs to be set in a database that is not there yet.
func (c Connections) LockController(config *corev1.Volume) {
	if !c.Controller.Locked() {
		return
	}
	var sources []corev1.VolumeProjection
	if cm := config.ConfigMap; cm != nil {
		sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: cm.LocalObjectReference, Items: cm.Items}})
	}
	if s := config.Secret; s != nil {
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.SecretName}, Items: s.Items}})
	}
	stores := &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: c.Controller.Secret}}
	for _, item := range c.Controller.Items(javastore.EntryKeyStore, javastore.EntryTrustStore) {
		switch item.Key {
		case javastore.EntryKeyStore:
			item.Path = "keystore.jks"
		case javastore.EntryTrustStore:
			item.Path = "certificates.jks"
		}
		item.Path = "ssl/" + item.Path
		stores.Items = append(stores.Items, item)
	}
	config.VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: append(sources, corev1.VolumeProjection{Secret: stores})}}
}
