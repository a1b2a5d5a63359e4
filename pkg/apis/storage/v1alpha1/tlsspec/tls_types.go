// Package tlsspec is the section spec.tls of a StorageCluster, which connections are locked and with whose
// certificates, and what the status says of them.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package tlsspec

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TLSSpec says who may speak to LINSTOR.
type TLSSpec struct {
	// mode is Disabled: LINSTOR's REST API is plain HTTP, and whoever reaches it, or a satellite's port, administers
	// LINSTOR; or Managed: the API takes only those that have a certificate of an authority which the operator makes and
	// renews for this alone, so do satellites and controller of each other by another one, and all is encrypted. Changing
	// it restarts LINSTOR's controller and then the satellites, one after the other. Default: Disabled. Example: Managed.
	// +optional
	// +kubebuilder:default=Disabled
	Mode Mode `json:"mode,omitempty"`
}

// Mode says whose certificates lock LINSTOR's connections.
// +kubebuilder:validation:Enum=Disabled;Managed
type Mode string

// Modes of TLS.
const (
	// Disabled: nothing is locked.
	Disabled Mode = "Disabled"
	// Managed: the operator makes all certificates.
	Managed Mode = "Managed"
)

// MostCertificates bounds the list of certificates in the status.
const MostCertificates = 24

// CertificateStatus is a certificate that is in use. It says nothing of its key.
type CertificateStatus struct {
	// name is the certificate's common name; that of an authority ends with digits of its own.
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// secret is the Secret in linstor-storage that holds it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret,omitempty"`
	// serial is its serial number, in hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Serial string `json:"serial,omitempty"`
	// notAfter is when it expires.
	NotAfter metav1.Time `json:"notAfter"`
	// renewAfter is from when on it is replaced; none for an authority that signs nothing any more.
	// +optional
	RenewAfter *metav1.Time `json:"renewAfter,omitempty"`
}
