// Package monitoringspec defines spec.monitoring of a StorageCluster: the objects that the operator creates for the
// Prometheus Operator.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package monitoringspec

// MonitoringSpec configures the objects that the operator creates for the Prometheus Operator
// (monitoring.coreos.com/v1): two ServiceMonitors, a PodMonitor and a PrometheusRule in the linstor-storage namespace.
type MonitoringSpec struct {
	// mode is Auto or None. With Auto, the objects are created once the Prometheus Operator CRDs are installed. With
	// None, no objects are created, and existing ones are deleted. Defaults to Auto. Example: None.
	// +optional
	// +kubebuilder:default=Auto
	Mode MonitoringMode `json:"mode,omitempty"`
	// labels are additional labels on these objects, by which Prometheus selects them (serviceMonitorSelector,
	// podMonitorSelector, ruleSelector). At most 16. Defaults to none. Example: {release: kube-prometheus-stack}.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 317)",message="labels: a label key must have 1 to 317 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('storage.linstor.dev/') && !(k in ['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/component', 'app.kubernetes.io/managed-by']))",message="labels: labels under storage.linstor.dev/ and the operator's own app.kubernetes.io/ labels identify the owner of the objects; choose another key",reason=FieldValueForbidden
	Labels map[string]LabelValue `json:"labels,omitempty"`
	// interval is how often Prometheus scrapes metrics, from 10s to 2m, in seconds or minutes. Defaults to 30s.
	// Example: 1m.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]|1[01][0-9]|120)s$') || self.matches('^[12]m$')",message="interval must be from 10s to 2m, in whole seconds or minutes, such as 30s"
	Interval string `json:"interval,omitempty"`
}

// MonitoringMode sets whether objects for the Prometheus Operator are created.
// +kubebuilder:validation:Enum=Auto;None
type MonitoringMode string

// Modes of monitoring.
const (
	// MonitoringAuto: objects are created if the Prometheus Operator CRDs are installed.
	MonitoringAuto MonitoringMode = "Auto"
	// MonitoringNone: no objects are created.
	MonitoringNone MonitoringMode = "None"
)

// LabelValue is a label value: at most 63 letters, digits, '.', '_' and '-', starting and ending with a letter or
// digit.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$`
type LabelValue string
