// Package modulespec is what the status of a StorageCluster says of DRBD's kernel module.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package modulespec

// KernelModuleStatus counts the versions of DRBD that are loaded. A loader never replaces a module that is loaded: another
// version takes effect when the node is rebooted.
type KernelModuleStatus struct {
	// wanted is the version that the module loaders bring.
	// +optional
	Wanted string `json:"wanted,omitempty"`
	// loaded counts the members by the version that is loaded, ten versions at most.
	// +optional
	// +listType=map
	// +listMapKey=version
	Loaded []ModuleVersionCount `json:"loaded,omitempty"`
	// pendingReboot is the number of members that have another version loaded than the wanted one.
	// +optional
	// +default=0
	PendingReboot int32 `json:"pendingReboot"`
	// examples are such members, ten at most.
	// +optional
	// +listType=atomic
	Examples []string `json:"examples,omitempty"`
}

// ModuleVersionCount is a number of members with one version of DRBD.
type ModuleVersionCount struct {
	// version of DRBD, or unknown.
	Version string `json:"version"`
	// count is the number of members.
	Count int32 `json:"count"`
}
