// Package modulespec defines status.kernelModule of a StorageCluster.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package modulespec

// KernelModuleStatus counts the loaded versions of DRBD. A loader never replaces a loaded module: a different version
// takes effect only after the node has been rebooted.
type KernelModuleStatus struct {
	// wanted is the DRBD version that the module loaders provide.
	// +optional
	Wanted string `json:"wanted,omitempty"`
	// loaded is the number of members with each loaded version. At most ten versions.
	// +optional
	// +listType=map
	// +listMapKey=version
	Loaded []ModuleVersionCount `json:"loaded,omitempty"`
	// pendingReboot is the number of members on which a version other than the wanted one is loaded.
	// +optional
	// +default=0
	PendingReboot int32 `json:"pendingReboot"`
	// examples lists some of these members. At most ten.
	// +optional
	// +listType=atomic
	Examples []string `json:"examples,omitempty"`
}

// ModuleVersionCount is the number of members with the same DRBD version.
type ModuleVersionCount struct {
	// version is the DRBD version, or unknown.
	Version string `json:"version"`
	// count is the number of members.
	Count int32 `json:"count"`
}
