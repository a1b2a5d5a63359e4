// Package tlsspec defines spec.tls and status.certificates of a StorageCluster.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package tlsspec

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TLSSpec configures TLS for LINSTOR's connections.
//
// +kubebuilder:validation:XValidation:rule="!has(self.authorities) || !has(self.mode) || self.mode == 'Managed'",message="tls: authorities require mode Managed; set mode to Managed, or remove authorities",reason=FieldValueForbidden
type TLSSpec struct {
	// mode is Disabled or Managed. Defaults to Managed if authorities are set or if the cluster is new, and otherwise to
	// the cluster's current mode. Neither upgrading the operator nor removing this field changes the mode. A change
	// restarts the LINSTOR controller, and then the satellites one at a time. Example: Disabled. Values:
	// - Disabled: the LINSTOR REST API uses plain HTTP. Anyone with network access to it or to a satellite can administer
	//   LINSTOR.
	// - Managed: all connections are encrypted. The API accepts only clients with a certificate from a dedicated CA that
	//   the operator creates and renews. The controller and satellites use a second CA.
	// +optional
	Mode Mode `json:"mode,omitempty"`
	// authorities names Secrets with your own CAs, which are used instead of CAs that the operator creates. The operator
	// signs and renews all certificates with them, but does not renew the CAs: you, or a tool such as cert-manager, must
	// renew them in the Secrets. Defaults to none.
	// Example: {apiSecret: linstor-api-ca, satellitesSecret: linstor-satellites-ca}.
	// +optional
	Authorities *AuthoritiesSpec `json:"authorities,omitempty"`
}

// AuthoritiesSpec names Secrets in linstor-storage, each with a CA certificate in tls.crt and its key in tls.key.
// Anyone with a certificate from such a CA can administer LINSTOR, so the CA must be used only for LINSTOR.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiSecret) || has(self.satellitesSecret)",message="authorities: name a Secret in apiSecret, satellitesSecret or both, or remove authorities"
// +kubebuilder:validation:XValidation:rule="!has(self.apiSecret) || !has(self.satellitesSecret) || self.apiSecret != self.satellitesSecret",message="authorities: apiSecret and satellitesSecret must name different Secrets, or any API client could impersonate the LINSTOR controller to the satellites"
type AuthoritiesSpec struct {
	// apiSecret names the Secret with the CA for the LINSTOR REST API and its clients. By default, the operator creates a
	// CA. Example: linstor-api-ca.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^linstor-(api-authority|netcom-authority|.+-(api|netcom)-tls)$')",message="this Secret name is reserved for the operator: use a Secret with a different name for your CA",reason=FieldValueForbidden
	APISecret string `json:"apiSecret,omitempty"`
	// satellitesSecret names the Secret with the CA for connections between the LINSTOR controller and satellites. By
	// default, the operator creates a CA. Example: linstor-satellites-ca.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^linstor-(api-authority|netcom-authority|.+-(api|netcom)-tls)$')",message="this Secret name is reserved for the operator: use a Secret with a different name for your CA",reason=FieldValueForbidden
	SatellitesSecret string `json:"satellitesSecret,omitempty"`
}

// API returns the name of the Secret with the CA for the REST API; "" if the operator creates the CA.
func (s *TLSSpec) API() string {
	if s.Mode != Managed || s.Authorities == nil {
		return ""
	}
	return s.Authorities.APISecret
}

// Satellites returns the name of the Secret with the CA for controller and satellites; "" if the operator creates the
// CA.
func (s *TLSSpec) Satellites() string {
	if s.Mode != Managed || s.Authorities == nil {
		return ""
	}
	return s.Authorities.SatellitesSecret
}

// Mode sets whether LINSTOR's connections use TLS.
// +kubebuilder:validation:Enum=Disabled;Managed
type Mode string

// Modes of TLS.
const (
	// Disabled: connections do not use TLS.
	Disabled Mode = "Disabled"
	// Managed: the operator creates all certificates, with its own CAs or those in the spec.
	Managed Mode = "Managed"
)

// MostCertificates is the maximum number of certificates in the status, and LongestName is the maximum length of their
// names, in characters.
const (
	MostCertificates = 24
	LongestName      = 64
)

// CertificateStatus is a certificate in use. It reveals nothing about the private key.
type CertificateStatus struct {
	// name is the common name of the certificate. The name of a CA that the operator created ends with digits that are
	// unique to the CA.
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// secret is the Secret in linstor-storage that contains the certificate.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret,omitempty"`
	// serial is the serial number of the certificate, in hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Serial string `json:"serial,omitempty"`
	// notAfter is when the certificate expires.
	NotAfter metav1.Time `json:"notAfter"`
	// renewAfter is when the certificate will be renewed or, for a CA that you provide, should be renewed. Absent for a
	// CA that no longer signs certificates.
	// +optional
	RenewAfter *metav1.Time `json:"renewAfter,omitempty"`
}
