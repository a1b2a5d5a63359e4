// Package tlsspec is the section spec.tls of a StorageCluster, which connections are locked and with whose
// certificates, and what the status says of them.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package tlsspec

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TLSSpec says who may speak to LINSTOR.
//
// +kubebuilder:validation:XValidation:rule="!has(self.authorities) || !has(self.mode) || self.mode == 'Managed'",message="tls: authorities are for mode Managed only: set mode to Managed, or remove them",reason=FieldValueForbidden
type TLSSpec struct {
	// mode is Disabled: LINSTOR's REST API is plain HTTP, and whoever reaches it, or a satellite's port, administers
	// LINSTOR; or Managed: the API takes only those that have a certificate of an authority which the operator makes and
	// renews for this alone, so do satellites and controller of each other by another one, and all is encrypted. Changing
	// it restarts LINSTOR's controller and then the satellites, one after the other. Where it is left out, a new cluster
	// is locked, and any other stays as it is: no upgrade of the operator and no line that is taken out switches one.
	// Default: Managed with authorities and in a new cluster, else the mode that the cluster has. Example: Disabled.
	// +optional
	Mode Mode `json:"mode,omitempty"`
	// authorities are Secrets with authorities of your own, in place of those that the operator makes. It signs all
	// certificates with them, and renews these, but no authority: whoever keeps the Secret does, such as cert-manager.
	// Default: none. Example: {apiSecret: linstor-api-ca, satellitesSecret: linstor-satellites-ca}.
	// +optional
	Authorities *AuthoritiesSpec `json:"authorities,omitempty"`
}

// AuthoritiesSpec names Secrets in linstor-storage, each with the certificate of an authority in tls.crt and its key
// in tls.key. Whoever has a certificate of one of them administers LINSTOR, so it must sign for LINSTOR alone.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiSecret) || has(self.satellitesSecret)",message="authorities: name a Secret in apiSecret, satellitesSecret or both, or remove authorities"
// +kubebuilder:validation:XValidation:rule="!has(self.apiSecret) || !has(self.satellitesSecret) || self.apiSecret != self.satellitesSecret",message="authorities: apiSecret and satellitesSecret must be two Secrets: otherwise each client of the API could pose as LINSTOR's controller to the satellites"
type AuthoritiesSpec struct {
	// apiSecret has the authority by which LINSTOR's REST API and its clients know each other. Default: the operator makes
	// one. Example: linstor-api-ca.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^linstor-(api-authority|netcom-authority|.+-(api|netcom)-tls)$')",message="Secrets of this name are the operator's own: put your authority into another one",reason=FieldValueForbidden
	APISecret string `json:"apiSecret,omitempty"`
	// satellitesSecret has the authority by which LINSTOR's controller and its satellites know each other. Default: the
	// operator makes one. Example: linstor-satellites-ca.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^linstor-(api-authority|netcom-authority|.+-(api|netcom)-tls)$')",message="Secrets of this name are the operator's own: put your authority into another one",reason=FieldValueForbidden
	SatellitesSecret string `json:"satellitesSecret,omitempty"`
}

// API names the Secret with the authority of the REST API; "" where the operator makes it.
func (s *TLSSpec) API() string {
	if s.Mode != Managed || s.Authorities == nil {
		return ""
	}
	return s.Authorities.APISecret
}

// Satellites names the Secret with the authority between controller and satellites; "" where the operator makes it.
func (s *TLSSpec) Satellites() string {
	if s.Mode != Managed || s.Authorities == nil {
		return ""
	}
	return s.Authorities.SatellitesSecret
}

// Mode says whose certificates lock LINSTOR's connections.
// +kubebuilder:validation:Enum=Disabled;Managed
type Mode string

// Modes of TLS.
const (
	// Disabled: nothing is locked.
	Disabled Mode = "Disabled"
	// Managed: the operator makes all certificates, by authorities of its own or by those that are named.
	Managed Mode = "Managed"
)

// MostCertificates bounds the list of certificates in the status, and LongestName the name of each, in characters.
const (
	MostCertificates = 24
	LongestName      = 64
)

// CertificateStatus is a certificate that is in use. It says nothing of its key.
type CertificateStatus struct {
	// name is the certificate's common name; that of an authority of the operator's ends with digits of its
	// own.
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
	// renewAfter is from when on it is replaced, or where it is brought, is to be replaced; none for an authority that
	// signs nothing any more.
	// +optional
	RenewAfter *metav1.Time `json:"renewAfter,omitempty"`
}
