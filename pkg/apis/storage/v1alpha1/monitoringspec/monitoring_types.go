// Package monitoringspec is the section spec.monitoring of a StorageCluster: what the operator makes for Prometheus
// Operator.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package monitoringspec

// MonitoringSpec says what the operator makes for Prometheus Operator (monitoring.coreos.com/v1): two ServiceMonitors, a
// PodMonitor and a PrometheusRule in the namespace linstor-storage.
type MonitoringSpec struct {
	// mode is Auto: the objects are made once the Kubernetes cluster has Prometheus Operator's definitions; or None: none are made,
	// and those that the operator made are removed. Default: Auto. Example: None.
	// +optional
	// +kubebuilder:default=Auto
	Mode MonitoringMode `json:"mode,omitempty"`
	// labels are put on these objects, for a Prometheus that selects by them (serviceMonitorSelector, podMonitorSelector,
	// ruleSelector). Up to 16. Default: none. Example: {release: kube-prometheus-stack}.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 317)",message="labels: a label's key has 1 to 317 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('storage.linstor.dev/') && !(k in ['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/component', 'app.kubernetes.io/managed-by']))",message="labels: storage.linstor.dev/ and the operator's own app.kubernetes.io/ labels say whose the objects are: choose another key",reason=FieldValueForbidden
	Labels map[string]LabelValue `json:"labels,omitempty"`
	// interval is how often Prometheus scrapes, from 10s to 2m, in seconds or minutes. Default: 30s. Example: 1m.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]|1[01][0-9]|120)s$') || self.matches('^[12]m$')",message="interval must be from 10s to 2m, in whole seconds or minutes, such as 30s"
	Interval string `json:"interval,omitempty"`
}

// MonitoringMode says whether objects for Prometheus Operator are made.
// +kubebuilder:validation:Enum=Auto;None
type MonitoringMode string

// Modes of monitoring.
const (
	// MonitoringAuto: objects are made where the Kubernetes cluster has Prometheus Operator's definitions.
	MonitoringAuto MonitoringMode = "Auto"
	// MonitoringNone: no objects are made.
	MonitoringNone MonitoringMode = "None"
)

// LabelValue is the value of a label: up to 63 letters, digits, '.', '_' and '-', with a letter or digit at both ends.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$`
type LabelValue string
